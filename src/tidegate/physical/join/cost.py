"""Estimate of a join.

Of each side, a join keeps the elements whose end the watermark of the other side has not passed (22.18), in runs. It
keeps those that are over until their run goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from tidegate.costs.characteristics import Characteristics, combine, count_instants
from tidegate.costs.estimates import CostContext, CostEstimate, Flow
from tidegate.costs.runs import MergeRule, shares_of_runs
from tidegate.errors import InternalError
from tidegate.expressions.nodes import TRUE, Expression
from tidegate.physical.common.cost import TIMES, StatePart, busy_steps, estimate_keeping, row_bytes
from tidegate.physical.common.operator import Operator
from tidegate.physical.join.kernels.tiers import TIERS, count_to_merge
from tidegate.physical.join.operator import JoinOperator
from tidegate.physical.join.sides import JoinSide

GROUP_BYTES = 16.0
"""Bytes of a hash, of its first row, and of its slot."""

ENTRY_BYTES = 33.0
"""Bytes of a run in the directory."""

SHARE_OF_EQUAL_KEYS, SHARE_OF_CONDITION = 0.01, 1 / 3
"""Assumed shares of the pairs of valid elements that have equal keys, or fulfil another condition."""


def _count_runs_to_merge(sizes: Sequence[float]) -> int:
    return count_to_merge(sizes, TIERS)


SIDE_RULE = MergeRule(_count_runs_to_merge, counts_all=True)


def estimate(operator: Operator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    """Return the estimate of a join."""
    if not isinstance(operator, JoinOperator):
        raise InternalError("I330", f"there is no estimate of {operator.describe()}")
    output = join_flows(inputs, context.selectivity(share_of_pairs(operator)))
    sides = zip(inputs, inputs[::-1], (operator.plan.left, operator.plan.right), strict=True)
    kept = [_keep_side(flow, other, side, _count_keys(operator, context), context) for flow, other, side in sides]
    runs = sum(each.runs for each in kept)
    directory = StatePart(runs, runs * ENTRY_BYTES)
    compared = join_flows(inputs, _share_of_candidates(operator, context)).rate
    found = estimate_keeping(kind_of_join(operator), inputs, output, context, [*kept, directory], compared=compared)
    # New rows of each side are looked for in each run of the other one, and those of both in each other.
    searches = sum(
        busy_steps(flow.rate, context) * (other.runs + 0.5) for flow, other in zip(inputs, kept[::-1], strict=True)
    )
    return replace(found, work=replace(found.work, parts=searches))


def kind_of_join(operator: JoinOperator) -> str:
    """Return the kind of a join: pairs of equal keys cost more than pairs that a loop over all elements compares."""
    return "join" if operator.left_keys else "nested join"


def join_flows(inputs: Sequence[Flow], share: float) -> Flow:
    """Return the pairs of elements of two flows, of which a share is kept. A pair is given with its second element."""
    left, right = inputs
    return Flow(
        combine(left.characteristics, right.characteristics, share),
        combine(left.whole, right.whole, share),
        min(left.head, right.head),
        max(left.mark, right.mark),
        min(each.longest or each.characteristics.length for each in inputs),
        all(each.fills for each in inputs),
    )


def share_of_pairs(operator: JoinOperator) -> float:
    """Return the assumed share of the pairs of valid elements that a join gives."""
    return (SHARE_OF_EQUAL_KEYS if operator.left_keys else 1.0) * share_of_condition(operator.residual)


def share_of_condition(residual: Expression) -> float:
    """Return the assumed share of pairs for which a condition is true."""
    return 1.0 if residual == TRUE else SHARE_OF_CONDITION


def _share_of_candidates(operator: JoinOperator, context: CostContext) -> float:
    """Return the share of the pairs of valid elements that are compared."""
    if not operator.left_keys:
        return 1.0
    return min(context.selectivity(share_of_pairs(operator)) / share_of_condition(operator.residual), 1.0)


def _count_keys(operator: JoinOperator, context: CostContext) -> float:
    """Return the number of different keys: as many equally frequent ones give the share of pairs with equal keys."""
    share = _share_of_candidates(operator, context)
    return 1.0 / share if share > 0 else inf


def _keep_side(flow: Flow, other: Flow, side: JoinSide, keys: float, context: CostContext) -> StatePart:
    """Return the elements of a side: valid ones, and those that wait for the other side's watermark."""
    needed = needed_time(flow.characteristics, other.mark - flow.head, other.characteristics.granule)
    fills, time = flow.fills or needed >= context.elapsed, min(needed, context.elapsed)
    shares = shares_of_runs(SIDE_RULE, context.count_steps(flow.rate, time), flow.spread)
    rows = flow.rate * time * (1.0 if fills else shares.kept)
    runs = min(shares.runs, rows)
    groups = runs * count_instants(keys, 1.0, rows / runs) if runs else 0.0
    size = TIMES + row_bytes(side.schema) + 8.0 * len(side.stored)
    return StatePart(rows + groups, rows * size + groups * GROUP_BYTES, flow.rate * shares.merged, runs)


def needed_time(source: Characteristics, lag: float, granule: float) -> float:
    """Return for how long an element is kept until a watermark that lags has passed its end.

    A watermark on a grid that the end is on too arrives there when it leaves the place before: half a granule early.
    """
    early = granule / 2.0 if source.granule >= granule else 0.0
    return max(source.length + lag - early, 0.0)

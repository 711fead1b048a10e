"""Estimate of an aggregation.

An aggregation keeps the ends of valid elements, with their arguments, the live groups, and, for MIN and MAX, a frontier
for each group. If it goes by slots, it keeps the elements themselves. The dissertation's operator keeps partial
aggregates instead, of which there are as many as different ends (22.30).

Its formulas for the output (22.5 to 22.7) distinguish whether a group has one element at a time or many. Here starts
are at random times, so the number of valid elements of a group is Poisson, and there is no border:

    live groups       n (1 - exp(-l / (n d)))
    changes of value  one at each start, and one at each end after which the group is live
    lives of groups   one at each start before which the group is not live
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

from tidegate.costs.characteristics import Characteristics, count_instants
from tidegate.costs.estimates import CostContext, CostEstimate, Flow
from tidegate.errors import InternalError
from tidegate.physical.aggregate.operator import AggregateOperator, slot_aggregation_of, sweep_spec_of
from tidegate.physical.aggregate.state import SweepSpec
from tidegate.physical.common.cost import (
    TIMES,
    StatePart,
    emit_elements,
    estimate_keeping,
    keep_figures,
    keep_valid,
    keep_waiting,
    row_bytes,
)
from tidegate.physical.common.operator import Operator
from tidegate.schema import Type
from tidegate.time import LATEST

USUAL_GROUPS = 100.0
"""Assumed number of groups."""

DIGITS = 4.0
"""Assumed digits of an exact sum of doubles, each of eight bytes, and the counters of special values."""

EULER = 0.5772

MOST_GROUPS = 1e9
"""Number of groups from which on each element has a group of its own."""


def estimate(operator: Operator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    """Return the estimate of an aggregation."""
    if not isinstance(operator, AggregateOperator):
        raise InternalError("I330", f"there is no estimate of {operator.describe()}")
    (source,) = inputs
    groups = context.groups(USUAL_GROUPS) if operator.keys else 1.0
    changes = _changes_of(operator, source.whole, groups, context, fills=source.fills)
    output = emit_elements(source, changes, operator.emit, context)
    if slot_aggregation_of(operator) is not None:
        return estimate_keeping("slots", inputs, output, context, _keep_slots(operator, source, groups, context))
    kept = _keep_sweep(operator, source, groups, context)
    # Settled groups are evaluated at each step.
    touched = 0.0 if operator.emit.holds_back else live_groups(source.characteristics, groups) / context.step
    return estimate_keeping("aggregate", inputs, output, context, kept, touched)


# ---- characteristics


def live_groups(source: Characteristics, groups: float) -> float:
    """Return the groups that have a valid element at an instant.

    Examples
    --------
    >>> stream = Characteristics(distance=10.0, length=1000.0)
    >>> round(live_groups(stream, 4.0), 3), round(live_groups(stream, 1e9), 3)
    (4.0, 100.0)
    """
    return groups * (1.0 - exp(-source.valid_rows / groups)) if groups * 1e-6 < source.valid_rows else source.valid_rows


def count_groups(source: Characteristics, live: float) -> float:
    """Return the number of groups, given how many are live at an instant.

    Examples
    --------
    >>> round(count_groups(Characteristics(10.0, 1000.0), 50.0))
    63
    """
    least, most = live, MOST_GROUPS
    if live >= 0.999 * source.valid_rows:
        return most
    for _ in range(60):
        middle = (least * most) ** 0.5
        if live_groups(source, middle) < live:
            least = middle
        else:
            most = middle
    return most


def _changes_of(
    operator: AggregateOperator, source: Characteristics, groups: float, context: CostContext, *, fills: bool
) -> Characteristics:
    """Return the values of all groups as elements. While windows fill, nothing ends."""
    live = live_groups(source, groups)
    if not live or source.rate == 0.0:
        return source
    idle = exp(-source.valid_rows / groups)
    if not operator.calls:
        rate = source.rate * idle
    else:
        changes = source.rate * (1.0 if fills else 2.0 - idle) * _share_of_changes(operator, source.valid_rows / live)
        # Those of one group at one instant are one change.
        of_group = count_instants(source.length, source.granule, changes / live * source.length)
        rate = max(of_group / source.length * live, source.rate * idle)
    rate *= context.selectivity(1.0)
    # A value that lasts for as long as the run is as good as one that never ends.
    rate = max(rate, live / context.lasting)
    return Characteristics(1.0 / rate, live / rate, source.granule)


def _share_of_changes(operator: AggregateOperator, valid: float) -> float:
    """Return the share of starts and ends that change a value: an extreme of `valid` elements changes with one each."""
    extremes = [call.function in ("min", "max") for call in operator.calls]
    return min(1.0, sum(extremes) / max(valid, 1.0)) if all(extremes) else 1.0


# ---- state


def _keep_sweep(operator: AggregateOperator, source: Flow, groups: float, context: CostContext) -> list[StatePart]:
    spec, flow = sweep_spec_of(operator), source.characteristics
    arguments = 8.0 * len(spec.summed) + (len(spec.counted) - len(spec.summed)) / 8.0
    futures = keep_waiting(source, TIMES + row_bytes(operator.source, spec.columns), context)
    # Of rows of tables, which never end, no end is kept.
    has_ends = spec.keeps_count and flow.length < LATEST
    ends = keep_valid(source, TIMES + arguments, context) if has_ends else StatePart()
    live = live_groups(flow, groups)
    size = row_bytes(operator.source, operator.keys) + _group_bytes(spec)
    frontiers = [_keep_frontier(operator, name, flow, live) for _, name in spec.best]
    figures = keep_figures(2 + 2 * len(spec.summed), futures, ends)
    return [futures, ends, StatePart(live, live * size), *frontiers, figures]


def _group_bytes(spec: SweepSpec) -> float:
    """Return the bytes of a group besides its keys."""
    numbers = (1.0 if spec.holds_back else 0.0) + len(spec.best)
    if not spec.keeps_count:
        return 8.0 * (numbers + 1.0)
    sums = sum(2.0 if kind == 0 else DIGITS + 3.0 for kind in spec.kinds)
    return 8.0 * (numbers + 1.0 + 1.0 + len(spec.counted) + sums)


def _keep_frontier(operator: AggregateOperator, name: str, source: Characteristics, live: float) -> StatePart:
    """Return the frontiers of all groups: of k elements in random order, the expected number of records remains."""
    k = source.valid_rows / live if live else 0.0
    # Of equal values, the one that is valid for longest remains: of truth values, one of two, and mostly the same.
    has_many = operator.source.type_of(name) is not Type.BOOLEAN
    rows = live * (log(k) + EULER + 0.5 / k) if k > 1.0 and has_many else live
    return StatePart(rows, rows * (8.0 + row_bytes(operator.source, (name,))))


def _keep_slots(operator: AggregateOperator, source: Flow, groups: float, context: CostContext) -> list[StatePart]:
    slots = slot_aggregation_of(operator)
    assert slots is not None
    return keep_live_elements(
        source, row_bytes(operator.source, slots.columns), row_bytes(operator.source, operator.keys), groups, context
    )


def keep_live_elements(
    source: Flow, size: float, key_size: float, groups: float, context: CostContext
) -> list[StatePart]:
    """Return the state of an operator that keeps live elements: these, those that wait, and the groups."""
    flow = source.characteristics
    futures = keep_waiting(source, TIMES + size, context)
    elements = keep_valid(source, 2.0 * TIMES + size, context)
    live = live_groups(flow, groups)
    return [futures, elements, StatePart(live, live * (16.0 + key_size)), keep_figures(3, futures, elements)]

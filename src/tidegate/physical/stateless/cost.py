"""Estimates of operators without state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.costs.characteristics import coarsen, extend, filter_rows, slide, split, unite
from tidegate.costs.estimates import CostContext, CostEstimate, Flow
from tidegate.errors import InternalError
from tidegate.expressions.nodes import Call, Expression, conjuncts
from tidegate.physical.common.cost import estimate_stateless
from tidegate.physical.common.operator import Operator
from tidegate.physical.stateless.operators import FilterOperator, MapOperator, UnionOperator, WindowOperator
from tidegate.physical.stateless.validities import ClipOperator, GranularityOperator, SplitOperator, StampOperator
from tidegate.time import CHRONON

SHARE_OF_EQUALITY, SHARE_OF_CONDITION = 0.1, 1 / 3
"""Assumed shares of rows for which an equality or another condition is true."""


def estimate(operator: Operator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    """Return the estimate of an operator of this feature."""
    match operator:
        case FilterOperator(predicate=predicate):
            share = context.selectivity(share_of_rows(predicate))
            output = inputs[0].map(lambda each: filter_rows(each, share))
            return estimate_stateless("filter", inputs, output, context)
        case MapOperator(names=names, schema=schema):
            kind = "map" if names is None else "select"
            return estimate_stateless(kind, inputs, inputs[0], context, columns=len(schema))
        case UnionOperator():
            return estimate_stateless("union", inputs, unite_flows(inputs), context)
        case WindowOperator():
            return estimate_stateless("window", inputs, _slide_flow(operator, inputs[0], context), context)
        case SplitOperator(length=length):
            return estimate_stateless("split", inputs, inputs[0].map(lambda each: split(each, length)), context)
        case StampOperator():
            return estimate_stateless("stamp", inputs, inputs[0], context)
        case GranularityOperator():
            granule = context.size(getattr(operator, "adjusted_by", None), operator.size)
            # Times are rounded up, by half a granule on average.
            output = inputs[0].map(lambda each: coarsen(each, granule)).delay(-granule / 2)
            return estimate_stateless("granularity", inputs, output, context)
        case ClipOperator():
            return estimate_stateless("clip", inputs, inputs[0], context)
    raise InternalError("I330", f"there is no estimate of {operator.describe()}")


def share_of_rows(predicate: Expression) -> float:
    """Return the assumed share of rows for which a predicate is true."""
    share = 1.0
    for part in conjuncts(predicate):
        share *= SHARE_OF_EQUALITY if isinstance(part, Call) and part.function == "=" else SHARE_OF_CONDITION
    return share


def unite_flows(inputs: Sequence[Flow]) -> Flow:
    """Return the union of flows: as new as the newest, with the lowest watermark."""
    return Flow(
        unite([each.characteristics for each in inputs]),
        unite([each.whole for each in inputs]),
        min(each.head for each in inputs),
        max(each.mark for each in inputs),
        max(each.longest or each.characteristics.length for each in inputs),
        all(each.fills for each in inputs),
    )


def _slide_flow(operator: WindowOperator, source: Flow, context: CostContext) -> Flow:
    size = context.size(getattr(operator, "adjusted_by", None), operator.size)
    if operator.slide == CHRONON:
        output = source.map(lambda each: extend(each, size))
    else:
        output = source.map(lambda each: slide(each, size, operator.slide)).delay(-operator.slide / 2)
    return replace(output, longest=source.longest + size if source.spread else 0.0).by_now(context.elapsed)

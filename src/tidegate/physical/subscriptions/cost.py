"""Estimates of alerts over totals: keys or subscriptions stay until they are complete, which no formula foresees.

So they are assumed to stay, unless a run has shown which share of them does.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.costs.characteristics import filter_rows
from tidegate.costs.estimates import CostContext, CostEstimate, Flow
from tidegate.errors import InternalError
from tidegate.physical.common.cost import (
    TIMES,
    StatePart,
    estimate_keeping,
    estimate_stateless,
    keep_figures,
    keep_waiting,
    row_bytes,
)
from tidegate.physical.common.operator import Operator
from tidegate.physical.subscriptions.checks import AdmitOperator, WeighForGroupOperator, WeighOperator
from tidegate.physical.subscriptions.grouped_operator import GroupedTotalsOperator
from tidegate.physical.subscriptions.operator import SubscriptionsOperator
from tidegate.physical.subscriptions.total_operator import TotalThresholdOperator

USUAL_KEYS = 100.0
"""Assumed number of keys."""

SHARE_OF_ALARMS = 0.001
"""Assumed alarms for each element."""

TRACKER_BYTES, TRACKER_ROWS = 32.0, 3.0
"""Bytes and rows of a subscription in the tracker, for each dimension: its bounds, their totals, and its aim."""


def estimate(operator: Operator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    """Return the estimate of an operator of this feature."""
    match operator:
        case WeighOperator() | WeighForGroupOperator() | AdmitOperator():
            output = inputs[0].map(lambda each: filter_rows(each, context.selectivity(1.0)))
            return estimate_stateless("check", inputs, output, context)
        case TotalThresholdOperator():
            return _estimate_totals(operator, inputs, context)
        case GroupedTotalsOperator():
            return _estimate_grouped_totals(operator, inputs, context)
        case SubscriptionsOperator():
            return _estimate_subscriptions(operator, inputs, context)
    raise InternalError("I330", f"there is no estimate of {operator.describe()}")


def _alarms_of(source: Flow, context: CostContext) -> Flow:
    """Return the alarms that elements complete, when the watermark has passed them."""
    raised = filter_rows(source.whole, context.selectivity(SHARE_OF_ALARMS))
    return Flow(raised, raised, source.mark, source.mark)


def _estimate_totals(operator: TotalThresholdOperator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    (source,) = inputs
    keys = (context.groups(USUAL_KEYS) if operator.keys else 1.0) * context.share_kept()
    futures = keep_waiting(source, TIMES + row_bytes(operator.elements), context)
    within = operator.waiting.within
    elements = 0.0 if within is None else source.rate * min(within, context.elapsed) * context.share_kept()
    kept = [
        futures,
        StatePart(keys, keys * (8.0 + 1 / 8 + row_bytes(operator.elements, operator.keys))),
        StatePart(elements, elements * 24.0),
        keep_figures(1, futures),
    ]
    return estimate_keeping("totals", inputs, _alarms_of(source, context), context, kept, elements / context.step)


def _estimate_grouped_totals(
    operator: GroupedTotalsOperator, inputs: Sequence[Flow], context: CostContext
) -> CostEstimate:
    (source,) = inputs
    keys = (context.groups(USUAL_KEYS) if operator.keys else 1.0) * context.share_kept()
    alerts, dimensions = len(operator.group), operator.kind.dimensions
    futures = keep_waiting(source, TIMES + row_bytes(operator.elements), context)
    within = operator.waiting.within
    elements = 0.0 if within is None else source.rate * min(within, context.elapsed) * context.share_kept()
    kept = [
        futures,
        StatePart(keys, keys * (16.0 + alerts / 8 + row_bytes(operator.elements, operator.keys))),
        StatePart(keys * alerts * TRACKER_ROWS * dimensions, keys * alerts * (16.0 + TRACKER_BYTES * dimensions)),
        StatePart(elements, elements * (16.0 + 8.0 * dimensions)),
        keep_figures(2, futures),
    ]
    return estimate_keeping("totals", inputs, _alarms_of(source, context), context, kept, elements / context.step)


def _estimate_subscriptions(
    operator: SubscriptionsOperator, inputs: Sequence[Flow], context: CostContext
) -> CostEstimate:
    elements, registrations = inputs
    live = registrations.rate * context.lasting * context.share_kept()
    schemas = operator.elements, operator.subscriptions
    waiting = [
        keep_waiting(flow, TIMES + row_bytes(schema), context) for flow, schema in zip(inputs, schemas, strict=True)
    ]
    within = operator.waiting.within
    window = 0.0 if within is None else elements.rate * min(within, context.elapsed) * context.share_kept()
    dimensions = operator.kind.dimensions
    kept = [
        *waiting,
        StatePart(
            live * (1.0 + TRACKER_ROWS * dimensions),
            live * (16.0 + row_bytes(operator.subscriptions) + TRACKER_BYTES * dimensions),
        ),
        StatePart(window, window * (16.0 + 8.0 * dimensions)),
        keep_figures(2, *waiting),
    ]
    return estimate_keeping("subscriptions", inputs, _alarms_of(elements, context), context, kept, live / context.step)

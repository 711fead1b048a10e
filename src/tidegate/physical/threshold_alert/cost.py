"""Estimates of alerts over joined streams: an input keeps its elements for as long as a later one may be near."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.costs.characteristics import Characteristics, filter_rows
from tidegate.costs.estimates import CostContext, CostEstimate, Flow
from tidegate.errors import InternalError
from tidegate.physical.common.cost import TIMES, StatePart, estimate_keeping, estimate_stateless, row_bytes
from tidegate.physical.common.operator import Operator
from tidegate.physical.threshold_alert.omission import OmitOperator
from tidegate.physical.threshold_alert.one_stream import OneStreamAlertOperator
from tidegate.physical.threshold_alert.operator import ThresholdAlertOperator

SHARE_OF_ALARMS = 0.001
"""Assumed share of the combinations that raise an alarm."""

SHARE_NEEDED = 0.5
"""Assumed share of the elements that are not omitted, where a demand allows to omit any."""


def estimate(operator: Operator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    """Return the estimate of an operator of this feature."""
    match operator:
        case OmitOperator():
            share = context.selectivity(SHARE_NEEDED)
            output = inputs[0].map(lambda each: filter_rows(each, share))
            return estimate_stateless("omit", inputs, output, context)
        case ThresholdAlertOperator():
            return _estimate_alert(operator, inputs, context)
        case OneStreamAlertOperator():
            return _estimate_one_stream_alert(operator, inputs[0], context)
    raise InternalError("I330", f"there is no estimate of {operator.describe()}")


def _estimate_alert(operator: ThresholdAlertOperator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    """Estimate an alert.

    Derived: an alarm has one element of each member within the span. Each new element meets the valid ones of the
    others, so there are as many combinations as the sum over members of its rate times the rows of the others.
    """
    times = [_time_kept(operator, which, inputs) for which in range(len(inputs))]
    rows = [
        flow.rate * min(time, context.elapsed) * context.share_kept() for flow, time in zip(inputs, times, strict=True)
    ]
    combinations = 0.0
    for plan in operator.plans:
        members = plan.alert.members
        near = {member: max(inputs[member].rate * 2.0 * plan.span, 0.0) for member in members}
        for each in members:
            product = inputs[each].rate
            for other in members:
                product *= near[other] if other != each else 1.0
            combinations += product / len(members)
    rate = combinations * context.selectivity(SHARE_OF_ALARMS)
    span = max(plan.span for plan in operator.plans)
    raised = filter_rows(Characteristics(1.0, span + 1.0), rate)
    output = Flow(raised, raised, max(flow.head for flow in inputs), max(flow.mark for flow in inputs) + span)
    kept = [
        StatePart(each, each * (TIMES + row_bytes(schema))) for each, schema in zip(rows, operator.inputs, strict=True)
    ]
    # Kept elements are loaded, ordered and bracketed at each step.
    touched = sum(rows) / context.step
    return estimate_keeping("alert", inputs, output, context, kept, touched, combinations)


def _estimate_one_stream_alert(operator: OneStreamAlertOperator, source: Flow, context: CostContext) -> CostEstimate:
    """Estimate an alert on one stream: elements wait for the watermark, and those that remain are compared."""
    time = min(source.waiting_time + operator.memory, context.elapsed)
    rows = source.rate * time * context.share_kept()
    raised = filter_rows(Characteristics(1.0, 1.0), source.rate * context.selectivity(SHARE_OF_ALARMS))
    output = Flow(raised, raised, source.head, source.mark + operator.wait)
    kept = [StatePart(rows, rows * (TIMES + row_bytes(operator.input)))]
    return estimate_keeping("alert", (source,), output, context, kept, rows / context.step, source.rate)


def _time_kept(operator: ThresholdAlertOperator, which: int, inputs: Sequence[Flow]) -> float:
    """Return for how long elements of an input are kept: until no later element can be near enough."""
    longest = 0.0
    for plan in operator.plans:
        members = plan.alert.members
        if which in members:
            own = members.index(which)
            for other, member in enumerate(members):
                if other != own:
                    lag = inputs[member].mark - inputs[which].head
                    longest = max(longest, float(plan.nearness.most[other, own]) + lag)
    return longest

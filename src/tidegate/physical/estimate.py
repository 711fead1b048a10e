"""Estimate an operator by the formulas of its feature, which are imported when a plan needs them."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.costs.estimates import CostContext, CostEstimate, Flow
from tidegate.errors import InternalError
from tidegate.physical.common.operator import Operator


def estimate_operator(operator: Operator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    """Return the estimate of an operator, given those of its inputs."""
    match type(operator).__module__.split(".")[2]:
        case "stateless":
            from tidegate.physical.stateless.cost import estimate
        case "shedding":
            from tidegate.physical.shedding.cost import estimate
        case "join":
            from tidegate.physical.join.cost import estimate
        case "aggregate":
            from tidegate.physical.aggregate.cost import estimate
        case "relation":
            from tidegate.physical.relation.cost import estimate
        case "threshold_alert":
            from tidegate.physical.threshold_alert.cost import estimate
        case "subscriptions":
            from tidegate.physical.subscriptions.cost import estimate
        case "keyed_join":
            from tidegate.physical.keyed_join.cost import estimate
        case "similarity_join":
            from tidegate.physical.similarity_join.cost import estimate
        case feature:
            raise InternalError("I330", f"there is no estimate of operators in {feature}")
    return estimate(operator, inputs, context)

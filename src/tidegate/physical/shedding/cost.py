"""Estimate of a sample."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.algebra.plan import EVERY_ROW
from tidegate.costs.characteristics import filter_rows
from tidegate.costs.estimates import CostContext, CostEstimate, Flow
from tidegate.errors import InternalError
from tidegate.physical.common.cost import estimate_stateless
from tidegate.physical.common.operator import Operator
from tidegate.physical.shedding.sample import SampleOperator


def estimate(operator: Operator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    """Return the estimate of an operator of this feature."""
    if not isinstance(operator, SampleOperator):
        raise InternalError("I330", f"there is no estimate of {operator.describe()}")
    rate = operator.rate or context.size(operator.adjusted_by, EVERY_ROW) or EVERY_ROW
    output = inputs[0].map(lambda each: filter_rows(each, rate / EVERY_ROW))
    return estimate_stateless("sample", inputs, output, context)

"""Estimate of a similarity join: valid rows of both sides (22.18), in slots of time that leave as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.costs.characteristics import combine
from tidegate.costs.estimates import CostContext, CostEstimate, Flow
from tidegate.errors import InternalError
from tidegate.expressions.nodes import TRUE
from tidegate.physical.common.cost import TIMES, StatePart, estimate_keeping, row_bytes
from tidegate.physical.common.operator import Operator
from tidegate.physical.similarity_join.operator import SimilarityJoinOperator

SHARE_OF_PAIRS = 0.001
"""Assumed share of the pairs of valid elements that are similar."""

SHARE_OF_EQUAL_KEYS, SHARE_OF_CONDITION = 0.01, 1 / 3
"""Assumed shares of the pairs of valid elements that have equal keys, and of those that fulfil another condition."""

SLOT_BYTES = 16.0
"""Bytes of a row that the kernels keep besides its columns and its validity: its number and its compared values."""


def estimate(operator: Operator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    """Return the estimate of a similarity join."""
    if not isinstance(operator, SimilarityJoinOperator):
        raise InternalError("I330", f"there is no estimate of {operator.describe()}")
    left, right = inputs
    condition = SHARE_OF_CONDITION if operator.predicate != TRUE else 1.0
    share = context.selectivity(SHARE_OF_EQUAL_KEYS * condition if operator.is_keyed else SHARE_OF_PAIRS)
    output = Flow(
        combine(left.characteristics, right.characteristics, share),
        combine(left.whole, right.whole, share),
        min(left.head, right.head),
        max(left.mark, right.mark),
        fills=left.fills and right.fills,
    )
    kept = []
    for flow, other, schema in ((left, right, operator.left), (right, left, operator.right)):
        time = flow.characteristics.length + max(other.mark - flow.head, 0.0) + operator.width / 2.0
        rows = flow.rate * min(time, context.elapsed) * context.share_kept()
        kept.append(StatePart(rows, rows * (TIMES + SLOT_BYTES + row_bytes(schema)), flow.rate))
    looked_at = min(share / condition, 1.0) if operator.is_keyed else 1.0
    compared = combine(left.characteristics, right.characteristics, looked_at).rate
    return estimate_keeping("similarity join", inputs, output, context, kept, compared=compared)

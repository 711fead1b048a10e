"""Estimate of a keyed join.

Derived: with a key, a row meets at most one row of each child, so each valid combination belongs to one row of the
root, and the chain of joins (22.4) follows the edges. Each input keeps its valid rows, less those that can never be
complete or that a constraint lets go: which share stays is learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tidegate.costs.characteristics import Characteristics, combine, filter_rows, window_rows
from tidegate.costs.estimates import CostContext, CostEstimate, Flow
from tidegate.errors import InternalError
from tidegate.physical.common.cost import TIMES, StatePart, estimate_keeping, row_bytes
from tidegate.physical.common.operator import Operator
from tidegate.physical.keyed_join.operator import KeyedJoinOperator

SYNOPSIS_BYTES, SYNOPSIS_ROWS = 25.0, 2.0
"""Bytes of a row in a synopsis besides its columns and validity, with one key: number, key and component; and the
number again with its columns, which are rows of their own.
"""


def estimate(operator: Operator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    """Return the estimate of a keyed join."""
    if not isinstance(operator, KeyedJoinOperator):
        raise InternalError("I330", f"there is no estimate of {operator.describe()}")
    windows = operator.windows
    valid = [
        flow.whole if which not in windows else window_rows(flow.whole, float(windows[which].rows))
        for which, flow in enumerate(inputs)
    ]
    output = _join_inputs(valid, inputs, context)
    kept = []
    for source, flow, schema in zip(valid, inputs, operator.input_schemas, strict=True):
        lag = max(other.mark for other in inputs) - flow.head
        rows = flow.rate * min(max(source.length + lag, 0.0), context.elapsed) * context.share_kept()
        kept.append(StatePart(SYNOPSIS_ROWS * rows, rows * (TIMES + row_bytes(schema) + SYNOPSIS_BYTES), flow.rate))
    return estimate_keeping("keyed join", inputs, output, context, kept, output.rate)


def _join_inputs(valid: Sequence[Characteristics], inputs: Sequence[Flow], context: CostContext) -> Flow:
    """Return the combinations: each parent row is expected to meet its child while that is valid."""

    def join_two(left: Characteristics, right: Characteristics) -> Characteristics:
        keys = max(right.valid_rows, 1.0)
        return combine(left, right, 1.0 / keys)

    found = filter_rows(reduce(join_two, valid), context.selectivity(1.0))
    return Flow(found, found, min(flow.head for flow in inputs), max(flow.mark for flow in inputs))

"""Estimates of operators on relations: LIMIT, semi-joins, changes, coalescing, count windows and views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log1p

from tidegate.costs.characteristics import coalesce, filter_rows, find_changes, limit, semi_join, window_rows_by_group
from tidegate.costs.estimates import CostContext, CostEstimate, Flow, OperatorKnowledge
from tidegate.errors import InternalError
from tidegate.physical.aggregate.cost import USUAL_GROUPS, count_groups, keep_live_elements, live_groups
from tidegate.physical.aggregate.cost import estimate as estimate_aggregate
from tidegate.physical.common.cost import (
    TIMES,
    StatePart,
    emit_elements,
    estimate_keeping,
    estimate_stateless,
    keep_figures,
    keep_until,
    keep_valid,
    keep_waiting,
    row_bytes,
    work_of,
)
from tidegate.physical.common.operator import Operator
from tidegate.physical.join.cost import estimate as estimate_join
from tidegate.physical.relation.changes import ChangelogOperator, ChangesOperator
from tidegate.physical.relation.coalesce import CoalesceOperator
from tidegate.physical.relation.count_window import CountWindowOperator
from tidegate.physical.relation.limit import LimitOperator
from tidegate.physical.relation.prune import PruneOperator
from tidegate.physical.relation.semi_join import SemiJoinOperator, parts_of_semi_join
from tidegate.physical.relation.sets import RepeatOperator
from tidegate.physical.relation.size_columns import SizeColumnsOperator
from tidegate.physical.relation.table_changes import TableChangesOperator
from tidegate.physical.relation.view import ViewOperator
from tidegate.physical.stateless.cost import unite_flows

MOST_MATCHES = 5.0
"""Rows that a row meets on average if all rows meet at least one."""

SHARE_OF_REPEATED = 0.5
"""Assumed number of copies of a row in the result of a set operation, and share of rows with a match."""


def estimate(operator: Operator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    """Return the estimate of an operator of this feature."""
    match operator:
        case RepeatOperator():
            share = context.selectivity(SHARE_OF_REPEATED)
            output = inputs[0].map(lambda each: filter_rows(each, share))
            return estimate_stateless("repeat", inputs, output, context)
        case PruneOperator():
            output = inputs[0].map(lambda each: filter_rows(each, context.selectivity(1.0)))
            return estimate_stateless("prune", inputs, output, context)
        case CoalesceOperator():
            return _estimate_coalesce(operator, inputs, context)
        case ChangesOperator():
            output = inputs[0].map(lambda each: find_changes(each, context.selectivity(1.0)))
            output = Flow(output.whole, output.whole, inputs[0].mark, inputs[0].mark)
            return _estimate_edges("changes", operator, inputs, output, context)
        case TableChangesOperator():
            output = inputs[0].map(lambda each: filter_rows(each, context.selectivity(0.0)))
            kept = keep_valid(inputs[0], TIMES + row_bytes(operator.schema), context)
            return estimate_keeping("changes", inputs, output, context, [kept])
        case ChangelogOperator():
            output = inputs[0].map(lambda each: find_changes(each, 2.0 * context.selectivity(1.0)))
            output = Flow(output.whole, output.whole, inputs[0].mark, inputs[0].mark)
            return _estimate_edges("changes", operator, inputs, output, context)
        case SizeColumnsOperator():
            return _estimate_size_columns(operator, inputs, context)
        case ViewOperator():
            return _estimate_view(operator, inputs, context)
        case LimitOperator():
            return _estimate_limit(operator, inputs, context)
        case CountWindowOperator():
            return _estimate_count_window(operator, inputs, context)
        case SemiJoinOperator():
            return _estimate_semi_join(operator, inputs, context)
    raise InternalError("I330", f"there is no estimate of {operator.describe()}")


def _estimate_coalesce(operator: CoalesceOperator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    """Estimate a coalesce: it puts together what watermarks have cut, and holds the elements that may go on."""
    (source,) = inputs
    pieces = source.whole.distance * source.rate if source.rate else 1.0
    whole = filter_rows(coalesce(source.characteristics, pieces, float(operator.length)), context.selectivity(1.0))
    # An element leaves when nothing can continue it.
    end = source.mark + whole.length
    output = Flow(whole, whole, end, end)
    size = TIMES + row_bytes(operator.schema)
    futures = keep_waiting(source, size, context)
    held = keep_valid(source, size, context)
    return estimate_keeping("coalesce", inputs, output, context, [futures, held, keep_figures(1, futures, held)])


def _estimate_edges(
    kind: str, operator: ChangesOperator | ChangelogOperator, inputs: Sequence[Flow], output: Flow, context: CostContext
) -> CostEstimate:
    """Estimate an operator that holds the ends of elements until the watermark passes them."""
    (source,) = inputs
    names = operator.source if isinstance(operator, ChangelogOperator) else operator.schema
    size = TIMES + row_bytes(names)
    begins = keep_waiting(source, size, context)
    ends = keep_valid(source, size, context, source.mark - source.head)
    return estimate_keeping(kind, inputs, output, context, [begins, ends, keep_figures(1, begins, ends)])


def _estimate_size_columns(operator: SizeColumnsOperator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    """Estimate the columns of sizes: elements wait until the watermark has passed their end."""
    (source,) = inputs
    output = source.delay(source.characteristics.length + operator.lag)
    held = keep_valid(source, TIMES + row_bytes(operator.source), context, source.mark - source.head + operator.lag)
    return estimate_keeping("coalesce", inputs, output, context, [held, keep_figures(1, held)])


def _estimate_view(operator: ViewOperator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    (source,) = inputs
    size = TIMES + row_bytes(operator.schema)
    whole = source.whole
    valid = keep_until(whole.rate, whole.length + source.mark - source.head, size, context)
    ended = keep_until(whole.rate, float(operator.history), size, context)
    # Runs of which most rows are gone are rewritten.
    kept = [valid, ended, keep_figures(1, valid, ended)]
    output = source.map(lambda each: filter_rows(each, 0.0))
    return estimate_keeping("view", inputs, output, context, kept)


def _estimate_limit(operator: LimitOperator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    (source,) = inputs
    groups = context.groups(USUAL_GROUPS) if operator.keys else 1.0
    shown = operator.count * live_groups(source.characteristics, groups)
    whole = filter_rows(limit(source.whole, shown), context.selectivity(1.0))
    output = emit_elements(source, whole, operator.emit, context)
    size, key_size = row_bytes(operator.schema), row_bytes(operator.schema, operator.keys)
    kept = keep_live_elements(source, size, key_size, groups, context)
    if operator.emit.holds_back:
        rows = min(shown, source.characteristics.valid_rows)
        kept.append(StatePart(rows, rows * 16.0))
    # The elements of all groups in which something happens are ordered again.
    return estimate_keeping("limit", inputs, output, context, kept, source.characteristics.valid_rows / context.step)


def _estimate_count_window(operator: CountWindowOperator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    (source,) = inputs
    groups = context.groups(USUAL_GROUPS) if operator.keys else 1.0
    most = context.lasting * source.rate / groups
    own = None if operator.rows is None else float(operator.rows)
    adjusted = getattr(operator, "adjusted_by", None)
    rows = min(most if own is None and adjusted is None else context.size(adjusted, own), most)
    whole = window_rows_by_group(source.whole, rows, groups)
    output = emit_elements(source, whole, operator.emit, context)
    # The content changes with every `slide`-th element.
    elements = groups * rows
    since = 8.0 if operator.emit.holds_back else 0.0
    size = row_bytes(operator.schema)
    futures = keep_waiting(source, TIMES + size, context)
    kept = [
        futures,
        StatePart(elements, elements * size),
        StatePart(groups, groups * (16.0 + row_bytes(operator.schema, operator.keys))),
        StatePart(elements if since else 0.0, elements * since),
        keep_figures(1, futures),
    ]
    return estimate_keeping("count window", inputs, output, context, kept, elements / context.step)


def _share_of_pairs(matched: float, others: float) -> float:
    """Return the selectivity of a join in which a share of the rows meets at least one of some others.

    Derived: with rows that meet others by chance, 1 - exp(-m) of them meet any if they meet m on average.
    """
    if not others:
        return 0.0
    most = min(others, MOST_MATCHES)
    return min(-log1p(-matched), most) / others if matched < 1.0 else most / others


def _estimate_semi_join(operator: SemiJoinOperator, inputs: Sequence[Flow], context: CostContext) -> CostEstimate:
    """Estimate a semi-join as the join and the grouping that it is made of."""
    join, counter = parts_of_semi_join(operator)
    left = inputs[0].characteristics
    rows, share = context.groups(left.valid_rows), context.selectivity(SHARE_OF_REPEATED)
    matched = _share_of_pairs(1.0 - share if operator.anti else share, inputs[1].characteristics.valid_rows)
    paired = estimate_join(join, inputs, replace(context, known=OperatorKnowledge(matched)))
    both = unite_flows([inputs[0], paired.flow])
    # Rows are counted together with their pairs: these make no groups of their own.
    groups = count_groups(both.characteristics, live_groups(left, max(rows, 1.0)))
    counted = estimate_aggregate(counter, [both], replace(context, known=OperatorKnowledge(groups=groups)))
    whole = semi_join(inputs[0].whole, paired.flow.whole, max(rows, 1.0), share)
    output = emit_elements(both, whole, operator.emit, context)
    work = work_of("semi join", inputs, output, context, paired.work.touched + paired.work.rows_out)
    work = replace(work, compared=paired.work.compared, parts=paired.work.parts)
    size = paired.bytes + counted.bytes
    state_rows = paired.rows + counted.rows
    return CostEstimate(output, work, state_rows, size)

"""Weights and thresholds of alerts on totals, which are whole numbers."""

from __future__ import annotations

import pyarrow as pa

from tidegate.algebra.subscriptions import MOST
from tidegate.errors import QueryError, Span
from tidegate.expressions.coercion import coerce
from tidegate.expressions.evaluate import ERRORS, evaluate
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import Expression, Literal, columns_of
from tidegate.expressions.sql_text import to_sql
from tidegate.language.bind.alerts.sources import alert_context
from tidegate.language.bind.alerts.total_when import WrittenTotal
from tidegate.language.bind.names import Scope
from tidegate.language.bind.query.expressions import bind_expression
from tidegate.schema import Type


def weight_of(counted: WrittenTotal, scope: Scope) -> Expression:
    """Return the weight of an element as BIGINT; 1 if elements are only counted."""
    if counted.weight is None:
        return Literal(1, Type.BIGINT, counted.span)
    weight = bind_expression(counted.weight, alert_context(scope, "WHEN"))
    span = counted.weight.span
    if not weight.type.is_integer:
        message = f"weights are whole numbers, but this is {weight.type.name}"
        raise QueryError("Q213", message, span, hint=_weight_hint(weight))
    weight = coerce(weight, Type.BIGINT, span)
    return weight if columns_of(weight) else _evaluate_constant(weight, "a weight", span)


def threshold_of(counted: WrittenTotal, scope: Scope) -> Expression:
    """Return the total that raises an alarm as BIGINT; a literal if it is constant."""
    threshold = bind_expression(counted.threshold, alert_context(scope, "WHEN"))
    span = counted.threshold.span
    if not threshold.type.is_integer:
        message = f"a threshold is a whole number, but this is {threshold.type.name}"
        hint = "totals are whole: write CAST(CEIL(…) AS BIGINT), or a whole number"
        raise QueryError("Q213", message, span, hint=hint)
    threshold = coerce(threshold, Type.BIGINT, span)
    if columns_of(threshold):
        one = Literal(1, Type.BIGINT, span)
        return resolve("+", (threshold, one), span) if counted.beyond else threshold
    known = _evaluate_constant(threshold, "a threshold", span, least=0 if counted.beyond else 1)
    return Literal(_whole_number(known) + 1, Type.BIGINT, span) if counted.beyond else known


def whole_threshold(threshold: Expression) -> int:
    """Return the number of a constant threshold; raise a QueryError if it depends on columns."""
    if columns_of(threshold):
        hint = "write a number; CREATE ALERTS name FROM stream t, subscription r takes thresholds from subscriptions"
        raise QueryError("Q213", "the threshold of CREATE ALERT is constant", threshold.span, hint=hint)
    return _whole_number(threshold)


def _whole_number(threshold: Expression) -> int:
    assert isinstance(threshold, Literal)
    assert isinstance(threshold.value, int)
    return threshold.value


def _evaluate_constant(expression: Expression, what: str, span: Span, *, least: int = 1) -> Literal:
    """Return the value of an expression that reads no columns."""
    found = evaluate(expression, pa.RecordBatch.from_pydict({}), 1)
    if found.errors is not None:
        reason = ERRORS[int(found.errors[0])].replace("_", " ")
        raise QueryError("Q213", f"{what} cannot be computed: {reason}", span, hint="write a whole number, 1 or more")
    value, most = found.values[0].as_py(), MOST - 1 + least
    if value is None or not least <= value <= most:
        message = f"{what} is a whole number from {least} to {most}, but this is {'NULL' if value is None else value}"
        raise QueryError("Q213", message, span, hint="write a number in this range: totals are 64-bit integers")
    return Literal(value, Type.BIGINT, span)


def _weight_hint(weight: Expression) -> str:
    if weight.type.is_floating:
        return f"count in smaller units, for example TOTAL(CAST(ROUND({to_sql(weight)} * 100) AS BIGINT))"
    if weight.type is Type.BOOLEAN:
        return "put the condition into WHERE, and write COUNT(*)"
    return "write COUNT(*) to count elements"

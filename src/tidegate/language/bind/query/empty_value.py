"""The value of a query in an expression while it has no elements: COUNT is 0, other aggregates are NULL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.nodes import Call, Cast, Column, Expression, Literal, columns_of, transform
from tidegate.language import syntax
from tidegate.language.bind.query.groups import BoundAggregate as AggregateCall

_STRICT = frozenset({"+", "-", "*", "/", "%", "div", "negate", "||"})
"""Functions that are NULL if an argument is NULL."""


def value_of_empty(value: Expression, calls: Sequence[AggregateCall], made: Iterable[str]) -> Expression | None:
    """Return the value of a query without GROUP BY over no elements; None if it needs columns of `made`.

    Columns of the elements themselves are NULL.
    """
    counts = {call.result.name: call.function.name == "count" for call in calls}
    kept = frozenset(made)

    def replace_column(part: Expression) -> Expression:
        if not isinstance(part, Column) or part.name in kept:
            return part
        return Literal(0 if counts.get(part.name) else None, part.type, part.span)

    found = transform(value, replace_column)
    if is_null_constant(found):
        return Literal(None, value.type, value.span)
    return None if columns_of(found) else found


def is_null_constant(expression: Expression) -> bool:
    """Return whether a constant is known to be NULL."""
    match expression:
        case Literal(value=value):
            return value is None
        case Cast(argument=argument):
            return is_null_constant(argument)
        case Call(function=function, arguments=arguments) if function in _STRICT:
            return any(map(is_null_constant, arguments))
    return False


def may_be_true(condition: Expression) -> bool:
    """Return whether a condition is true, or may be true because it reads columns or fails."""
    if columns_of(condition):
        return True
    found = evaluate(condition, pa.RecordBatch.from_pylist([{}]), 1)
    return found.errors is not None or bool(found.values[0].as_py())


def without_having(query: syntax.Query) -> syntax.Query:
    """Move the HAVING of a one-value query into the value, which is NULL where there would be no row."""
    match query:
        case syntax.Select(items=(syntax.Item() as item,), group_by=(), having=having) if having is not None:
            case = syntax.CaseWhen(None, ((having, item.expression),), None, item.span)
            return replace(query, items=(replace(item, expression=case),), having=None)
    return query

"""The aggregates and their types."""

from __future__ import annotations

from tidegate.errors import QueryError, Span
from tidegate.schema import Type

AGGREGATES = frozenset({"count", "sum", "avg", "min", "max"})


def aggregate_type(function: str, argument: Type | None, span: Span) -> Type:
    """The type of an aggregate of a column of the given type; None is the ``*`` of ``COUNT(*)``.

    Examples
    --------
    >>> aggregate_type("sum", Type.INT, Span(0, 6)).name
    'BIGINT'
    """
    match function, argument:
        case "count", _:
            return Type.BIGINT
        case "sum", Type.INT | Type.BIGINT:
            return Type.BIGINT
        case (("sum" | "avg"), Type.REAL | Type.DOUBLE):
            return Type.DOUBLE
        case "avg", Type.INT | Type.BIGINT:
            return Type.DOUBLE
        case (("min" | "max"), Type()) if argument is not Type.NULL:
            return argument
    takes = "a number" if function in ("sum", "avg") else "a value of a known type"
    given = "*" if argument is None else argument.name
    raise QueryError("Q121", f"{function.upper()} of {given} is not defined", span, hint=f"it takes {takes}")

"""Type conversions: common types, implicit conversions, and casts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from tidegate.errors import QueryError, Span
from tidegate.expressions.nodes import Cast, Expression, Literal
from tidegate.expressions.parse.values import parse_column
from tidegate.schema import Type

_WIDENINGS = {
    (Type.INT, Type.BIGINT): 1,
    (Type.BIGINT, Type.DOUBLE): 2,
    (Type.INT, Type.DOUBLE): 3,
    (Type.REAL, Type.DOUBLE): 1,
}
"""Implicit conversions, and their distances."""

_READING_A_CONSTANT = 9
_NUMBERS = frozenset({Type.INT, Type.BIGINT, Type.REAL, Type.DOUBLE})


def common_type(a: Type, b: Type) -> Type | None:
    """Return the narrowest type that both types convert to implicitly; None if there is none.

    Examples
    --------
    >>> common_type(Type.INT, Type.REAL).name
    'DOUBLE'
    >>> common_type(Type.INT, Type.STRING) is None
    True
    """
    if a is b or b is Type.NULL:
        return a
    if a is Type.NULL or (a, b) in _WIDENINGS:
        return b
    if (b, a) in _WIDENINGS:
        return a
    if a.parts and len(a.parts) == len(b.parts):
        parts = [common_type(one, other) for one, other in zip(a.parts, b.parts, strict=True)]
        return Type.of_parts(*(part for part in parts if part is not None)) if None not in parts else None
    return Type.DOUBLE if a.is_numeric and b.is_numeric else None


def common_type_of(expressions: Iterable[Expression]) -> Type | None:
    """Return the common type of several expressions; text constants can be read as timestamps."""
    every = list(expressions)
    if any(e.type is Type.TIMESTAMP for e in every):
        every = [e for e in every if not _is_text_constant(e)]
    common: Type | None = Type.NULL
    for each in every:
        common = None if common is None else common_type(common, each.type)
    return common


def conversion_distance(expression: Expression, type_: Type) -> int | None:
    """Return the distance of an expression from a type; None if there is no implicit conversion."""
    if expression.type is type_ or expression.type is Type.NULL:
        return 0
    if type_ is Type.TIMESTAMP and _is_text_constant(expression):
        return _READING_A_CONSTANT
    return _widening_distance(expression.type, type_)


def _widening_distance(source: Type, target: Type) -> int | None:
    """Return the distance of an implicit conversion; for arrays and maps, the sum over their parts."""
    if source is target:
        return 0
    if not source.parts or len(source.parts) != len(target.parts):
        return _WIDENINGS.get((source, target))
    parts = [_widening_distance(one, other) for one, other in zip(source.parts, target.parts, strict=True)]
    return sum(part for part in parts if part is not None) if None not in parts else None


def coerce(expression: Expression, type_: Type, span: Span) -> Expression:
    """Convert the expression implicitly to another type; raise a QueryError if this is impossible."""
    if expression.type is type_:
        return expression
    if conversion_distance(expression, type_) is None:
        message = f"{type_.name} is needed here, but this is {expression.type.name}"
        raise QueryError("Q121", message, span, hint=_cast_hint(expression.type, type_))
    match expression:
        case Literal(value=None):
            return replace(expression, type=type_)
        case Literal(value=str(text)):
            return replace(expression, value=_parse_timestamp(text, span), type=type_)
        case Literal(value=int() | float() as number, type=own) if own is not Type.REAL:
            return replace(expression, value=float(number) if type_ is Type.DOUBLE else number, type=type_)
    return Cast(expression, type_, expression.span)


def unify(expressions: Sequence[Expression], span: Span) -> tuple[Expression, ...] | None:
    """Convert all expressions to their common type; return None if they have none."""
    type_ = common_type_of(expressions)
    return None if type_ is None else tuple(coerce(e, type_, span) for e in expressions)


def cast(expression: Expression, type_: Type, span: Span) -> Expression:
    """Cast the expression to another type, as ``CAST`` does; raise a QueryError if there is no such cast."""
    if expression.type is type_:
        return expression
    match expression:
        case Literal(value=None):
            return Literal(None, type_, span)
    if not can_cast(expression.type, type_):
        message = f"{expression.type.name} cannot be cast to {type_.name}"
        raise QueryError("Q121", message, span, hint=_function_hint(expression.type, type_))
    return Cast(expression, type_, span)


def can_cast(source: Type, target: Type) -> bool:
    """Return whether ``CAST`` can convert between the types."""
    if target is Type.NULL:
        return source is Type.NULL
    if source in (target, Type.NULL, Type.STRING) or target is Type.STRING:
        return True
    if source.is_array and target.is_array:
        return can_cast(source.parts[0], target.parts[0])
    if source.is_map and target.is_map:
        (key, value), (new_key, new_value) = source.parts, target.parts
        # Other casts could merge two keys.
        return _widening_distance(key, new_key) is not None and can_cast(value, new_value)
    return {source, target} <= _NUMBERS | {Type.BOOLEAN}


def cast_can_fail(source: Type, target: Type) -> bool:
    """Return whether the cast fails for some value of a castable type."""
    match source, target:
        case _ if source is target:
            return False
        case Type.STRING, _:
            return True
        case (Type.NULL | Type.BOOLEAN, _) | (_, Type.STRING | Type.BOOLEAN | Type.REAL):
            return False
    if source.parts and target.parts:
        return any(cast_can_fail(one, other) for one, other in zip(source.parts, target.parts, strict=True))
    return (source, target) not in _WIDENINGS


def _is_text_constant(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.type is Type.STRING


def _parse_timestamp(text: str, span: Span) -> datetime:
    values, bad = parse_column(pa.array([text], pa.string()), Type.TIMESTAMP)
    if bad[0]:
        raise QueryError("Q121", f"'{text}' is not a timestamp", span, hint="write for example '2026-08-22 14:30:00Z'")
    try:
        read: datetime = values[0].as_py()
    except (ValueError, OverflowError):
        raise QueryError("Q121", f"'{text}' is out of range", span, hint="years are from 1 to 9999") from None
    return read


def _cast_hint(source: Type, target: Type) -> str | None:
    return f"write CAST(… AS {target.name})" if can_cast(source, target) else _function_hint(source, target)


def _function_hint(source: Type, target: Type) -> str | None:
    if source.is_array and target.is_map:
        return "MAP[keys, values] makes a map of two arrays"
    if source.parts and not target.parts:
        return "read one of its values: a[1] of an array, m['key'] of a map"
    if source in (Type.TIMESTAMP, Type.INTERVAL) and target.is_numeric:
        return "epoch_micros(…) and epoch_seconds(…) give numbers"
    if source.is_numeric and target is Type.TIMESTAMP:
        return "from_epoch_micros(…) gives a timestamp"
    if source.is_numeric and target is Type.INTERVAL:
        return "multiply an interval, for example … * INTERVAL 1 SECOND"
    return None

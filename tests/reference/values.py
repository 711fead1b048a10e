"""Values as plain Python objects: NULL is None, and NaN is one object that equals itself."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidegate.schema import Type

NAN = math.nan
"""The only NaN in canonical rows. Tuples and dicts compare by identity first, so it equals itself there."""

Row = tuple[Any, ...]

INTEGER_RANGES = {Type.INT: (-(2**31), 2**31 - 1), Type.BIGINT: (-(2**63), 2**63 - 1)}


@dataclass(frozen=True, slots=True)
class Failed:
    """No value: the row fails. Any of the kinds may be reported as the reason."""

    kinds: frozenset[str]

    def __or__(self, other: Failed) -> Failed:
        return Failed(self.kinds | other.kinds)


DIVISION_BY_ZERO = Failed(frozenset({"division_by_zero"}))
OVERFLOW = Failed(frozenset({"overflow"}))
INVALID_CAST = Failed(frozenset({"invalid_cast"}))
DOMAIN = Failed(frozenset({"domain"}))


def canonical(value: Any) -> object:
    """One object per value: one NaN, no negative zero, instants in UTC.

    Arrays are tuples of their elements; maps are tuples of pairs, in the order of their keys.
    """
    match value:
        case [(_, _), *_] as pairs:
            return tuple(sorted(((key, canonical(item)) for key, item in pairs), key=lambda pair: pair[0]))
        case list() | tuple() as elements:
            return tuple(map(canonical, elements))
        case float() if math.isnan(value):
            return NAN
        case float():
            return value + 0.0
        case datetime(tzinfo=None):
            return value.replace(tzinfo=UTC)
        case datetime():
            return value.astimezone(UTC)
    return value


def canonical_row(values: Iterable[object]) -> Row:
    return tuple(canonical(v) for v in values)


def order_key(value: Any) -> tuple[bool, Any]:
    """A key that sorts values of one type: NaN is greater than every number."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return (is_nan, 0.0 if is_nan else value)


def row_order(values: Row) -> tuple[tuple[bool, tuple[bool, Any]], ...]:
    """A key that sorts rows by all their columns, ascending, NULLs last."""
    return tuple((v is None, (False, 0) if v is None else order_key(v)) for v in values)


def is_equal(a: object, b: object) -> bool:
    """Whether two values that are not NULL are equal."""
    return order_key(a) == order_key(b)


def is_less(a: object, b: object) -> bool:
    """Whether one value that is not NULL comes before another."""
    return order_key(a) < order_key(b)


def fit(value: Any, type_: Type) -> object:
    """A result as its type holds it: integers in range or failed, REAL rounded to 32 bits."""
    if type_ in INTEGER_RANGES:
        low, high = INTEGER_RANGES[type_]
        return value if low <= value <= high else OVERFLOW
    if type_ is Type.REAL:
        return canonical(ctypes.c_float(value).value)
    return canonical(float(value) if type_ is Type.DOUBLE else value)

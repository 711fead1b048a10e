"""Aggregates of a list of values, by definition. NULLs are ignored."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reference.values import NAN, canonical, fit, order_key
from tidegate.schema import Type

_UNIT = 2**1074
"""Every finite double is a whole number of 1/_UNIT."""


def aggregate(function: str, values: Sequence[object], type_: Type) -> object:
    """The aggregate of the values of a column (for COUNT of no column: of anything not NULL)."""
    known = [v for v in values if v is not None]
    match function.lower():
        case "count":
            return len(known)
        case _ if not known:
            return None
        case "sum":
            return fit(float_sum(known) if type_ is Type.DOUBLE else sum(known), type_)
        case "avg":
            return canonical(_quotient(float_sum(known), len(known)))
        case "min":
            return min(known, key=order_key)
        case "max":
            return max(known, key=order_key)
    raise AssertionError(function)


def float_sum(values: Sequence[object]) -> float:
    """The double nearest to the exact sum: as `math.fsum`, but infinite beyond the range, NaN for inf - inf."""
    wild = [v for v in values if isinstance(v, float) and not math.isfinite(v)]
    if wild:
        return wild[0] if all(v == wild[0] for v in wild) else NAN
    return _quotient(sum(_units(v) for v in values), _UNIT)


def _units(value: object) -> int:
    numerator, denominator = value.as_integer_ratio()  # type: ignore[attr-defined]
    return numerator * (_UNIT // denominator)  # type: ignore[no-any-return]


def _quotient(numerator: float, denominator: int) -> float:
    try:
        return numerator / denominator  # of two ints, Python rounds the exact quotient correctly
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf

"""Aggregates of the rows of a group, by definition. NULLs are ignored; of nothing, all but COUNT are NULL."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from reference.values import NAN, canonical, fit, order_key, row_order
from tidegate.algebra.plan import AggregateCall
from tidegate.schema import Type

_UNIT = 2**1074
"""Every finite double is a whole number of 1/_UNIT."""

Rows = Sequence[tuple[int, Mapping[str, object]]]
"""The rows of a group, each with its own time."""


def called(call: AggregateCall, rows: Rows) -> object:
    """The value of a call for the rows of a group, or a failure.

    FIRST is the value of the element with the smallest (own time, value), LAST that of the one with the
    greatest; where a second column is given, that is the time. ARG_MAX(a, b) is the smallest a (NULL after
    all others) of the rows with the greatest b.
    """
    match call.function:
        case "first" | "last":
            times = (row[call.others[0]] if call.others else start for start, row in rows)
            timed = zip(times, (row[str(call.column)] for _, row in rows), strict=True)
            known = [(time, value) for time, value in timed if value is not None]
            chosen = (min if call.function == "first" else max)(known, key=_by_time, default=(0, None))
            return chosen[1]
        case "arg_max" | "arg_min":
            return _argument(call, [row for _, row in rows])
    values = [1 if call.column is None else row[call.column] for _, row in rows]
    return aggregate(
        call.function, list(dict.fromkeys(values)) if call.distinct else values, call.type, options=call.options
    )


def _by_time(element: tuple[Any, object]) -> tuple[Any, object]:
    return element[0], order_key(element[1])


def _argument(call: AggregateCall, rows: list[Mapping[str, object]]) -> object:
    by = call.others[0]
    known = [row for row in rows if row[by] is not None]
    if not known:
        return None
    best = (max if call.function == "arg_max" else min)(order_key(row[by]) for row in known)
    tied = [row[str(call.column)] for row in known if order_key(row[by]) == best]
    return min(tied, key=lambda value: row_order((value,)))


def aggregate(function: str, values: Sequence[object], type_: Type, *, options: Sequence[Any] = ()) -> object:
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
        case "median":
            return quantile(known, Fraction(1, 2))
        case "quantile":
            return quantile(known, Fraction(str(options[0])))
    return SPREADS[function.lower()](known)


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


def _rounded(exact: Fraction) -> float:
    return _quotient(exact.numerator, exact.denominator)


def variance(values: Sequence[Any], *, fewer: int) -> float | None:
    """The sum of squared distances from the mean over n - fewer, exact and rounded once; NaN if not all are finite."""
    if len(values) <= fewer:
        return None
    if not all(math.isfinite(v) for v in values):
        return NAN
    exact = [Fraction(v) for v in values]
    mean = sum(exact, Fraction()) / len(exact)
    return _rounded(sum(((v - mean) ** 2 for v in exact), Fraction()) / (len(exact) - fewer))


def _root(value: float | None) -> float | None:
    return None if value is None else canonical(math.sqrt(value))  # type: ignore[return-value]


SPREADS: dict[str, Callable[[Sequence[Any]], float | None]] = {
    "variance": lambda values: variance(values, fewer=1),
    "var_pop": lambda values: variance(values, fewer=0),
    "stddev": lambda values: _root(variance(values, fewer=1)),
    "stddev_pop": lambda values: _root(variance(values, fewer=0)),
}


def quantile(values: Sequence[Any], share: Fraction) -> float:
    """Of the n ordered values that at place share·(n - 1), between two places by linear interpolation.

    The share is meant as written: 0.9 is nine tenths. Exact, and rounded once; beside an infinite value
    interpolation gives that value, between two different infinite ones NaN.
    """
    ordered = sorted(values, key=order_key)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    part, below, above = place - low, ordered[low], ordered[min(low + 1, len(ordered) - 1)]
    if part == 0 or order_key(below) == order_key(above):
        return canonical(float(below))  # type: ignore[return-value]
    if math.isfinite(below) and math.isfinite(above):
        return _rounded((1 - part) * Fraction(below) + part * Fraction(above))
    return canonical((below if math.isinf(below) else 0.0) + (0.0 if math.isfinite(above) else above))  # type: ignore[return-value]

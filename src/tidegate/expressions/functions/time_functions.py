"""Functions of timestamps, in UTC and the proleptic Gregorian calendar.

Arrow's calendar ends with the year 32767, so these functions use NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tidegate.expressions.columns import (
    Kernel,
    Numbers,
    Outcome,
    Value,
    constant_value,
    make_column,
    make_outcome,
    null_mask,
    numbers,
)
from tidegate.expressions.failures import Failure
from tidegate.schema import Type
from tidegate.time import MICROSECONDS

_DAY = MICROSECONDS["day"]


def _days(instants: Numbers) -> Numbers:
    return np.floor_divide(instants, _DAY)


def _months(instants: Numbers) -> Numbers:
    """Return the months since January 1970."""
    return _days(instants).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def _start_of_month(months: Numbers) -> Numbers:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _year(instants: Numbers) -> Numbers:
    return _months(instants) // 12 + 1970


def _day(instants: Numbers) -> Numbers:
    return _days(instants) - _start_of_month(_months(instants)) + 1


def _day_of_year(instants: Numbers) -> Numbers:
    return _days(instants) - _start_of_month(_months(instants) // 12 * 12) + 1


def _clock_part(unit: str, count: int) -> Callable[[Numbers], Numbers]:
    """Make a function that returns the whole units elapsed within the next larger unit, which has `count` of them."""
    length = MICROSECONDS[unit]
    return lambda instants: np.floor_divide(instants, length) % count


PARTS: dict[str, Callable[[Numbers], Numbers]] = {
    "year": _year,
    "quarter": lambda instants: _months(instants) % 12 // 3 + 1,
    "month": lambda instants: _months(instants) % 12 + 1,
    "day": _day,
    "dayofweek": lambda instants: (_days(instants) + 4) % 7 + 1,  # 1970 began on a Thursday; 1 is Sunday
    "dayofyear": _day_of_year,
    "hour": _clock_part("hour", 24),
    "minute": _clock_part("minute", 60),
    "second": _clock_part("second", 60),
}


def _part_kernel(compute: Callable[[Numbers], Numbers]) -> Kernel:
    def kernel(arguments: Sequence[Value], type_: Type) -> Outcome:
        return make_column(compute(numbers(arguments[0])), null_mask(arguments[0]), type_), None

    return kernel


def _truncate_to_months(count: int) -> Callable[[Numbers], Numbers]:
    return lambda instants: _start_of_month(_months(instants) // count * count) * _DAY


def _truncate_to_units(length: int, *, offset: int = 0) -> Callable[[Numbers], Numbers]:
    return lambda instants: instants - (instants - offset) % length


TRUNCATIONS: dict[str, Callable[[Numbers], Numbers]] = {
    **{unit: _truncate_to_units(length) for unit, length in MICROSECONDS.items() if unit != "week"},
    "week": _truncate_to_units(MICROSECONDS["week"], offset=4 * _DAY),  # weeks begin on Monday, as 1970-01-05 was
    "month": _truncate_to_months(1),
    "quarter": _truncate_to_months(3),
    "year": _truncate_to_months(12),
}


def _date_trunc(arguments: Sequence[Value], type_: Type) -> Outcome:
    unit, times = arguments
    instants = numbers(times)
    with np.errstate(over="ignore"):
        begun = TRUNCATIONS[constant_value(unit)](instants)
    wrapped = begun > instants  # only at the very beginning of time
    return make_outcome(begun, null_mask(times), wrapped, Failure.OVERFLOW, type_)


def _epoch_seconds(arguments: Sequence[Value], type_: Type) -> Outcome:
    return make_column(numbers(arguments[0]) / 1e6, null_mask(arguments[0]), type_), None


def _reinterpret_bits(arguments: Sequence[Value], type_: Type) -> Outcome:
    """Return the same 64 bits as another type."""
    return arguments[0].view(type_.arrow), None


TIME_FUNCTIONS: dict[str, Kernel] = {
    **{name: _part_kernel(compute) for name, compute in PARTS.items()},
    "date_trunc": _date_trunc,
    "epoch_micros": _reinterpret_bits,
    "epoch_seconds": _epoch_seconds,
    "from_epoch_micros": _reinterpret_bits,
}

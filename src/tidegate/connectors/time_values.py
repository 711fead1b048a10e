"""Convert the values of time columns to times; integers are scaled by the unit of the stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import Mask
from tidegate.catalog.catalog import SourceStream
from tidegate.errors import TidegateWarning
from tidegate.physical.common.batch import Times
from tidegate.time import LATEST, TimeUnit, duration

Spread = tuple[int, int]
"""Smallest and largest of some integers in a time column."""

_YEAR_1990, _YEAR_2100 = duration(631_152_000, "seconds"), duration(4_102_444_800, "seconds")
_FEBRUARY_1970, _YEAR_2200 = duration(31, "days"), duration(7_258_118_400, "seconds")
_YEAR = duration(31_556_952, "seconds")
"""Mean length of a year."""

_NANOSECONDS = 1_000
"""Nanoseconds per microsecond."""


@dataclass(frozen=True, slots=True, eq=False)
class Instants:
    """Times of rows: values, and masks of those that are given, could not be read, and are in range."""

    values: Times
    given: Mask
    bad: Mask
    in_range: Mask

    @staticmethod
    def of(values: pa.Array, bad: Mask, unit: TimeUnit | None) -> Instants:
        counts = values.cast(pa.int64()).fill_null(0).to_numpy()
        given = values.is_valid().to_numpy(zero_copy_only=False)
        times, in_range = scale_to_micros(counts, unit or TimeUnit.MICROSECONDS)
        return Instants(times, given, bad, in_range)

    def with_default(self, value: int) -> Instants:
        """Replace missing times by a value."""
        values, every = np.where(self.given, self.values, value), np.ones_like(self.given)
        return replace(self, values=values, given=every, in_range=self.in_range | ~self.given)

    @staticmethod
    def constant(value: int, rows: int) -> Instants:
        yes = np.ones(rows, np.bool_)
        return Instants(np.full(rows, value, np.int64), yes, ~yes, yes)


def scale_to_micros(counts: Times, unit: TimeUnit) -> tuple[Times, Mask]:
    """Convert numbers of a unit to microseconds; return them with a mask of those in range. Others are arbitrary."""
    if unit is TimeUnit.NANOSECONDS:
        return np.floor_divide(counts, _NANOSECONDS), np.ones(len(counts), np.bool_)
    factor = unit.to_micros(1)
    # Compare before multiplying, because the product may overflow.
    limit = (LATEST - 1) // factor
    in_range = (counts >= -limit) & (counts <= limit)
    return counts if factor == 1 else np.where(in_range, counts, 0) * factor, in_range


def format_in_unit(time: int, unit: TimeUnit) -> str:
    """Format a time as an exact number of units since 1970.

    Examples
    --------
    >>> format_in_unit(1_500_000, TimeUnit.SECONDS), format_in_unit(2_000, TimeUnit.MILLISECONDS)
    ('1.5', '2')
    >>> format_in_unit(7, TimeUnit.NANOSECONDS)
    '7000'
    """
    if unit is TimeUnit.NANOSECONDS:
        return str(time * _NANOSECONDS)
    return f"{(Decimal(time) / unit.to_micros(1)).normalize():f}"


def spread_of(values: pa.Array) -> Spread | None:
    """Return the spread of a time column; None if it has no integers."""
    if not pa.types.is_integer(values.type) or values.null_count == len(values):
        return None
    ends = pc.min_max(values)
    return ends["min"].as_py(), ends["max"].as_py()


def joint_spread(one: Spread, other: Spread | None) -> Spread:
    """Return the spread that covers both."""
    if other is None:
        return one
    return min(one[0], other[0]), max(one[1], other[1])


def unlikely_unit_warning(stream: SourceStream, spread: Spread) -> TidegateWarning | None:
    """Return a warning if times seem to be in another unit than declared.

    Without a declared unit, this is so if times lie in January 1970 or after 2200, or would lie between 1990 and 2100
    in another unit; with a declared unit, only the latter counts. UNIT MICROSECONDS and generators are never doubted.
    """
    if stream.unit is TimeUnit.MICROSECONDS or stream.location.startswith("generator:"):
        return None
    declared = stream.unit or TimeUnit.MICROSECONDS
    likely = next((unit for unit in TimeUnit if _is_plausible(spread, unit)), None)
    if likely is declared or (likely is None and (stream.unit is not None or not _is_implausible(spread))):
        return None
    end = "" if stream.end_column is None else f" TO {stream.end_column}"
    clause = f"{'VALID FROM' if end else 'TIMESTAMP BY'} {stream.time_column}{end} UNIT"
    others = " or ".join(unit.name for unit in (TimeUnit.SECONDS, TimeUnit.MILLISECONDS, TimeUnit.NANOSECONDS))
    unit, example = (likely.name, likely.value) if likely else (others, TimeUnit.SECONDS.value)
    meant = f"; if they are {declared.value}, UNIT {declared.name}" if stream.unit is None else ""
    when, asked = _describe_time(declared.to_micros(spread[1])), (likely or declared).value
    return TidegateWarning(
        "W301",
        f"all times of '{stream.name}' lie {when}: are they {asked}?",
        hint=f'write {clause} {unit} (in Python: unit="{example}"){meant}',
    )


def _is_implausible(spread: Spread) -> bool:
    """Return whether numbers, read as microseconds, lie in January 1970 or after the year 2200."""
    return 0 <= spread[0] <= spread[1] < _FEBRUARY_1970 or spread[0] >= _YEAR_2200


def _is_plausible(spread: Spread, unit: TimeUnit) -> bool:
    first, last = (unit.to_micros(count) for count in spread)
    return first >= _YEAR_1990 and last < _YEAR_2100


def _describe_time(time: int) -> str:
    if 0 <= time < _FEBRUARY_1970:
        return "in January 1970"
    return f"around the year {1970 + time // _YEAR}"

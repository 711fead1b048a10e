"""Application time: integer microseconds, half-open validities, watermarks.

A raw element at `t` is valid in `[t, t + 1)`. A watermark `w` guarantees that no later element of
the stream starts before `w`.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

from tidegate.errors import QueryError, Span, suggest_name

CHRONON = 1
"""The shortest validity: one microsecond."""

FOREVER = 2**62
"""Watermark of a finished stream, and end of a validity that never ends.

It is half of the 64-bit maximum, so that adding a window to the time of a row cannot overflow.
"""

BEGINNING = -(2**62)
"""Watermark of a stream that has not begun, and start of a validity without a beginning."""

EARLIEST, LATEST = -(2**61), 2**61
"""Exclusive bounds of the times of rows; rows with other times are rejected."""

TimeFormat = Literal["iso", "micros"]
"""Format of times in the output: timestamps, which are ISO 8601 in texts, or integer microseconds."""

MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}

_SHORT = {"us": "microsecond", "ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day"}


_NANOSECONDS_PER_MICROSECOND = 1_000


class TimeUnit(Enum):
    """Unit of integers in a time column, which count from 1970; the value is the unit's name in the language."""

    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"

    @staticmethod
    def from_name(word: str) -> TimeUnit | None:
        """Return the unit with this name, which may be plural, singular or short, in any case.

        Examples
        --------
        >>> TimeUnit.from_name("MILLISECONDS") is TimeUnit.from_name("ms") is TimeUnit.from_name("Millisecond")
        True
        >>> TimeUnit.from_name("minutes") is None
        True
        """
        full = {**_SHORT, "ns": "nanosecond"}.get(word.lower(), word.lower())
        return next((unit for unit in TimeUnit if unit.value == f"{full.removesuffix('s')}s"), None)

    def to_micros(self, count: int) -> int:
        """Convert a number of units to microseconds; nanoseconds are rounded down.

        Examples
        --------
        >>> TimeUnit.SECONDS.to_micros(2), TimeUnit.NANOSECONDS.to_micros(-1)
        (2000000, -1)
        """
        if self is TimeUnit.NANOSECONDS:
            return count // _NANOSECONDS_PER_MICROSECOND
        return count * MICROSECONDS[self.value.removesuffix("s")]

    def of_micros(self, time: int) -> int:
        """Convert microseconds to whole units, rounded down."""
        if self is TimeUnit.NANOSECONDS:
            return time * _NANOSECONDS_PER_MICROSECOND
        return time // MICROSECONDS[self.value.removesuffix("s")]


def duration(amount: int, unit: str) -> int:
    """Convert an amount of a unit to microseconds; the unit may be plural, singular or short, in any case.

    Examples
    --------
    >>> duration(10, "SECONDS")
    10000000
    >>> duration(1, "h") == 60 * duration(1, "minute")
    True
    """
    word = unit.lower()
    word = _SHORT.get(word, word)
    word = word if word in MICROSECONDS else word.removesuffix("s")
    if word not in MICROSECONDS:
        raise QueryError("Q110", f"unknown unit of time '{unit}'", hint=suggest_name(word, MICROSECONDS))
    return amount * MICROSECONDS[word]


MOST_DIGITS = 30
"""Maximum number of digits of a duration."""


def parse_duration(text: str) -> int:
    """Parse a duration such as ``5 seconds`` or ``100ms`` to microseconds.

    Examples
    --------
    >>> parse_duration("5 seconds")
    5000000
    >>> parse_duration("100ms")
    100000
    """
    digits = len(text.strip()) - len(text.strip().lstrip("0123456789"))
    number, unit = text.strip()[:digits], text.strip()[digits:].strip()
    if not number or not unit:
        raise QueryError(
            "Q110", f"'{text}' is not a duration", Span(0, len(text)), text=text, hint="write for example '5 seconds'"
        )
    if len(number) > MOST_DIGITS:
        hint = "the longest is about 73,000 years"
        raise QueryError("Q111", "this length of time is too long", Span(0, len(text)), text=text, hint=hint)
    return duration(int(number), unit)

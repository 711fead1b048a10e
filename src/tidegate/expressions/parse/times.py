"""Parsing and formatting of timestamps and intervals.

A timestamp is a date, optionally a time after ``T`` or a space, optionally with a fraction of up to nine digits (cut
off after six) and a zone: ``Z``, ``±hh``, ``±hhmm`` or ``±hh:mm``; without a zone it is in UTC. Years outside 0000 to
9999 have a sign. An interval is an integer and a unit.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import Ints
from tidegate.errors import QueryError
from tidegate.expressions.bisect_errors import apply_by_halves
from tidegate.schema import Type
from tidegate.time import MICROSECONDS, duration

_DATE = r"(?P<year>[0-9]{4}|[+-][0-9]{4,6})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_CLOCK = r"(?P<hour>[0-9]{2})(?::(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?)?"
_ZONE = r"(?:Z|(?P<sign>[+-])(?P<zone_hour>[0-9]{2})(?::?(?P<zone_minute>[0-9]{2}))?)?"
_TIMESTAMP = rf"\A{_DATE}(?:[T ]{_CLOCK}{_ZONE})?\z"
_INTERVAL = r"\A(?P<amount>[+-]?[0-9]{1,18})\s*(?P<unit>[A-Za-z]+)\z"

_ENDS_WITH_ZONE = re.compile(r"[T ].*(Z|[+-][0-9:]+)$")
_NANOSECONDS = re.compile(r"\.[0-9]{7}")

_DAY = MICROSECONDS["day"]
_YEAR_0 = pa.scalar(-719_528 * _DAY, Type.TIMESTAMP.arrow)
_YEAR_10000 = pa.scalar(2_932_897 * _DAY, Type.TIMESTAMP.arrow)


def parse_timestamps(texts: pa.Array) -> pa.Array:
    """Parse timestamps; NULL where a text is invalid."""
    return apply_by_halves(texts, _cast_like_the_first, _parse_carefully)


def _cast_like_the_first(texts: pa.Array) -> pa.Array:
    """Cast with Arrow, which needs a zone in all texts or in none, and the length of fractions in advance."""
    known = texts.drop_null()
    first = known[0].as_py() if len(known) else ""
    zone = "UTC" if _ENDS_WITH_ZONE.search(first) else None
    return _to_micros(texts.cast(pa.timestamp("ns" if _NANOSECONDS.search(first) else "us", zone)))


def _parse_carefully(texts: pa.Array) -> pa.Array:
    trimmed = pc.utf8_trim_whitespace(texts)
    shaped = pc.if_else(pc.match_substring_regex(trimmed, _TIMESTAMP), trimmed, pa.scalar(None, pa.string()))
    try:
        return _cast_like_the_first(shaped)
    except pa.ArrowInvalid:
        return _from_fields(shaped)


def _to_micros(times: pa.Array) -> pa.Array:
    instants = times.cast(pa.int64())
    if times.type.unit == "ns":
        whole = np.floor_divide(instants.fill_null(0).to_numpy(zero_copy_only=False), 1000)
        instants = pa.array(whole, mask=np.asarray(times.is_null().to_numpy(zero_copy_only=False)))
    return instants.cast(Type.TIMESTAMP.arrow)


def _from_fields(texts: pa.Array) -> pa.Array:
    fields = pc.extract_regex(texts, _TIMESTAMP)
    year, month, day = (_field_numbers(fields, name) for name in ("year", "month", "day"))
    hour, minute, second = (_field_numbers(fields, name) for name in ("hour", "minute", "second"))
    zone_hour, zone_minute = _field_numbers(fields, "zone_hour"), _field_numbers(fields, "zone_minute")
    micros = _field_numbers(
        pc.utf8_slice_codeunits(pc.utf8_rpad(_field_texts(fields, "fraction"), 6, padding="0"), 0, 6)
    )
    west = np.where(_field_equals(fields, "sign", "-"), -1, 1)

    months = (year - 1970) * 12 + month - 1
    first = _first_day(months)
    fine = (month >= 1) & (month <= 12) & (day >= 1) & (day <= _first_day(months + 1) - first)
    fine &= (hour < 24) & (minute < 60) & (second < 60) & (zone_hour < 24) & (zone_minute < 60)
    days = first + day - 1
    clock = ((hour - west * zone_hour) * 60 + minute - west * zone_minute) * 60 + second
    fine &= np.abs(days) < 106_751_990  # further away, the microseconds overflow
    instants = np.where(fine, days, 0) * _DAY + clock * 1_000_000 + micros
    bad = ~fine | np.asarray(fields.is_null().to_numpy(zero_copy_only=False))
    return pa.array(instants, mask=bad).cast(Type.TIMESTAMP.arrow)


def _field_texts(fields: pa.Array, name: str) -> pa.Array:
    return pc.struct_field(fields, name)


def _field_equals(fields: pa.Array, name: str, text: str) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.equal(_field_texts(fields, name), text).fill_null(False).to_numpy(zero_copy_only=False))  # noqa: FBT003


def _field_numbers(fields: pa.Array, name: str | None = None) -> Ints:
    """Return a field as integers; 0 where it is absent."""
    texts = fields if name is None else _field_texts(fields, name)
    digits = pc.replace_substring_regex(texts.fill_null(""), r"\A\+?\z|\A\+", "0")
    return np.asarray(digits.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _first_day(months: Ints) -> Ints:
    """Return the days from 1970-01-01 to the first day of a month, counted from January 1970."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def parse_intervals(texts: pa.Array) -> pa.Array:
    """Parse intervals such as ``5 seconds``; NULL where a text is invalid."""
    fields = pc.extract_regex(texts, _INTERVAL)
    units = pc.struct_field(fields, "unit").dictionary_encode()
    lengths = pa.array([_unit_length(u) for u in units.dictionary.to_pylist()], pa.int64())
    length = lengths.take(units.indices)
    amount = _field_numbers(fields, "amount")
    micros = length.fill_null(0).to_numpy(zero_copy_only=False)
    fits = np.abs(amount) <= np.iinfo(np.int64).max // np.maximum(micros, 1)
    missing = np.asarray(length.is_null().to_numpy(zero_copy_only=False)) | ~fits
    return pa.array(np.where(fits, amount, 0) * micros, mask=missing).cast(Type.INTERVAL.arrow)


def _unit_length(unit: str) -> int | None:
    try:
        return duration(1, unit)
    except QueryError:
        return None


def format_timestamps(times: pa.Array) -> pa.Array:
    """Format as ISO 8601 in UTC, with six digits of a fraction if there is one: ``2026-08-22T14:30:00Z``."""
    near = pc.and_(pc.greater_equal(times, _YEAR_0), pc.less(times, _YEAR_10000))
    # Without a zone, which is UTC anyway, Arrow is many times faster.
    plain = pc.if_else(near, times, pa.scalar(None, times.type)).view(pa.int64()).cast(pa.timestamp("us"))
    iso = pc.replace_substring(plain.cast(pa.string()), " ", "T")
    texts = pc.binary_join_element_wise(pc.replace_substring(iso, ".000000", ""), "Z", "")
    return texts if texts.null_count == times.null_count else pc.coalesce(texts, _far_texts(times, near))


def instant_text(instant: int | None) -> str:
    """Return an instant, in microseconds, as `format_timestamps` writes it.

    Examples
    --------
    >>> instant_text(1_767_225_600_500_000), instant_text(None)
    ('2026-01-01T00:00:00.500000Z', 'none')
    """
    return "none" if instant is None else str(format_timestamps(pa.array([instant], Type.TIMESTAMP.arrow))[0])


def _far_texts(times: pa.Array, near: pa.Array) -> pa.Array:
    # Arrow's calendar ends with the year 32767. Times so far away are rare, so they are formatted one at a time.
    instants = pc.if_else(near, pa.scalar(None, pa.int64()), times.view(pa.int64())).to_pylist()
    return pa.array([None if t is None else _far_text(t) for t in instants], pa.string())


def _far_text(time: int) -> str:
    day, micros = divmod(time, _DAY)
    year, month, date = str(np.datetime64(day, "D")).rsplit("-", 2)
    clock = str(np.datetime64(micros, "us"))[len("1970-01-01") :].removesuffix(".000000")
    return f"{int(year):+05}-{month}-{date}{clock}Z"


def format_intervals(intervals: pa.Array) -> pa.Array:
    """Format as an amount of the largest exact unit: ``90 seconds``."""
    amounts = intervals.view(pa.int64()).to_pylist()
    return pa.array([None if a is None else _interval_text(a) for a in amounts], pa.string())


def interval_parts(micros: int) -> tuple[int, str]:
    """Return the amount and the unit, the largest that is exact.

    Examples
    --------
    >>> interval_parts(90_000_000)
    (90, 'second')
    """
    units = [u for u, length in MICROSECONDS.items() if micros % length == 0]
    unit = "second" if micros == 0 else units[-1]
    return micros // MICROSECONDS[unit], unit


def _interval_text(micros: int) -> str:
    amount, unit = interval_parts(micros)
    return f"{amount} {unit}" + ("" if abs(amount) == 1 else "s")

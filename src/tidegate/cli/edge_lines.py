"""Read the fields that a threshold filter needs from lines of CSV or JSON."""

from __future__ import annotations

import csv
import json
import math
import re
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from tidegate.errors import DataError, suggest_name
from tidegate.expressions.parse.times import parse_timestamps
from tidegate.time import EARLIEST, LATEST

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE)


class Columns(NamedTuple):
    time: str
    value: str
    key: tuple[str, ...]


class Fields(NamedTuple):
    """Texts of the needed fields of a row; None where a field is empty or missing."""

    time: str | None
    value: str | None
    key: tuple[str | None, ...]


class Reader(Protocol):
    """Reader of lines in one format."""

    def is_header(self, line: str) -> bool:
        """Return whether the first line is a header; if so, use it."""

    def fields(self, line: str) -> Fields | str:
        """Return the fields of a row, or a description of the error."""


class CsvReader:
    """Reader of CSV; the first line is the header."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._width, self._places = 0, [0]

    def is_header(self, line: str) -> bool:
        names = [name.strip() for name in _split_csv(line)]
        wanted = (self._columns.time, self._columns.value, *self._columns.key)
        for name in wanted:
            if name not in names:
                raise DataError("D103", f"the header has no column '{name}'", hint=suggest_name(name, names))
        self._width, self._places = len(names), [names.index(name) for name in wanted]
        return True

    def fields(self, line: str) -> Fields | str:
        try:
            cells = _split_csv(line)
        except csv.Error as error:
            return f"the line is not CSV ({error})"
        if len(cells) != self._width:
            return f"the line has {len(cells)} fields instead of {self._width}"
        time, value, *key = [cells[place] for place in self._places]
        return Fields(time.strip() or None, value.strip() or None, tuple(cell or None for cell in key))


def _split_csv(line: str) -> list[str]:
    return line.split(",") if '"' not in line else next(csv.reader([line], strict=True))


class JsonReader:
    """Reader of JSON lines; a missing key counts as null."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def is_header(self, line: str) -> bool:
        return False

    def fields(self, line: str) -> Fields | str:
        try:
            row = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
        except json.JSONDecodeError as error:
            return f"the line is not JSON ({error.msg} at character {error.pos + 1})"
        except RecursionError:
            return "the line is nested too deeply"
        if not isinstance(row, dict):
            return "the line is not a JSON object"
        time, value, *key = (
            _field_text(row.get(name)) for name in (self._columns.time, self._columns.value, *self._columns.key)
        )
        return Fields(time, value, tuple(key))


def _field_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def parse_times(texts: list[str | None]) -> list[int | None]:
    """Parse times, written as integer microseconds since 1970 or as timestamps; None if a text is not a valid time."""
    found = [int(text) if text is not None and _INTEGER.fullmatch(text) else None for text in texts]
    others = [i for i, time in enumerate(found) if time is None and texts[i] is not None]
    if others:
        instants = parse_timestamps(pa.array([texts[i] for i in others], pa.string()))
        for i, time in zip(others, instants.cast(pa.int64()).to_pylist(), strict=True):
            found[i] = time
    return [time if time is not None and EARLIEST < time < LATEST else None for time in found]


def parse_number(text: str | None) -> float | None:
    """Parse a number: NaN if there is no text, None if the text is not a number.

    Examples
    --------
    >>> parse_number("1e3"), parse_number(None), parse_number("1_000")
    (1000.0, nan, None)
    """
    if text is None:
        return math.nan
    return float(text) if _NUMBER.fullmatch(text) else None

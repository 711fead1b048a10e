"""Generated streams: ``generator://?rows=100000&seed=7&keys=20&interval=100ms&disorder=2s``.

Every value is a pure function of seed, column and row number, by a counter-based hash (SplitMix64:
Steele, Lea and Flood, 2014). So a stream is the same however it is cut into batches.

Parameters: `rows` (number of rows), `seed`, `keys` (number of distinct integers and strings), `start`
(the first time), `interval` (between two rows), `disorder` (the most by which a row's time may be
earlier than its regular time), `turn` (number of values of a key in one period of the wave that
floating columns follow), `batch` (maximum number of rows in a batch), and for a numeric column `c` the
bounds `c.min` and `c.max`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import ClassVar
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import Ints, Words
from tidegate.catalog.catalog import SourceStream
from tidegate.collection_entries import Entries
from tidegate.connectors.decode import Decoder, requested_schema
from tidegate.connectors.formats import Format, check_options
from tidegate.connectors.ranges import Point, SourcePosition, SourceRange, split_rows
from tidegate.connectors.typed_columns import typed_decoder
from tidegate.errors import DataError, QueryError, suggest_name
from tidegate.schema import Field, Type
from tidegate.time import EARLIEST, LATEST, MICROSECONDS, TimeUnit, parse_duration

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_DEFAULTS = {
    "seed": "0",
    "keys": "10",
    "start": "2026-01-01T00:00:00",
    "interval": "1s",
    "disorder": "0s",
    "turn": "200",
    "batch": "500000",
}
_MOST_ENTRIES = 8
_PARAMETERS = ("rows", *_DEFAULTS)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Parameters of a generator; `ranges` has the smallest and largest value of columns."""

    rows: int
    seed: int
    keys: int
    start: int
    interval: int
    disorder: int
    turn: int
    batch: int
    ranges: tuple[tuple[str, float, float], ...] = ()

    @staticmethod
    def of(stream: SourceStream) -> Recipe:
        """Parse the location of a stream."""
        given = dict(parse_qsl(urlsplit(stream.location).query, keep_blank_values=True))
        _check_parameters(stream, given)
        if "rows" not in given:
            hint = "endless generators are not supported yet: add for example rows=100000"
            raise DataError("D105", f"stream '{stream.name}': the generator has no number of rows", hint=hint)
        try:
            return _parse_recipe(stream, _DEFAULTS | given)
        except (ValueError, QueryError) as error:
            message = f"stream '{stream.name}': {stream.location} cannot be understood: {error}"
            raise DataError("D105", message, hint="for example " + EXAMPLE) from error


EXAMPLE = "generator://?rows=100000&seed=7&keys=20&interval=100ms&start=2026-01-01T00:00:00&disorder=2s"


@dataclass(frozen=True, slots=True)
class GeneratorSource:
    """Source of generated rows."""

    stream: SourceStream
    recipe: Recipe

    format: ClassVar[Format] = Format.GENERATOR
    counts_bytes: ClassVar[bool] = False

    def check(self) -> None:
        check_options(self.stream, ())

    def decoder(self, columns: frozenset[str]) -> Decoder:
        return typed_decoder(self.stream, columns)

    def find_ranges(self, position: SourcePosition, *, growing: bool) -> list[SourceRange]:
        begin = position.of_part("").point
        return [SourceRange("", begin, self.recipe.rows)] if begin.offset < self.recipe.rows else []

    def split_range(self, whole: SourceRange, parts: int) -> list[SourceRange]:
        return split_rows(whole, parts, end=whole.end or self.recipe.rows)

    def read_range(
        self, part: SourceRange, rows: int, *, columns: frozenset[str] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Point]]:
        first, end = part.begin.offset, self.recipe.rows if part.end is None else part.end
        while first < end:
            count = min(rows, self.recipe.batch, end - first)
            batch = generate(self.stream, first, count, columns=columns)
            first += count
            yield batch, Point(first)


def generate(stream: SourceStream, first: int, count: int, *, columns: frozenset[str] | None = None) -> pa.RecordBatch:
    """Generate the rows [first, first + count) of a stream, with all declared columns or the requested ones."""
    recipe = Recipe.of(stream)
    fields = stream.schema if columns is None else requested_schema(stream, columns, time=True)
    rows = np.arange(first, first + count, dtype=np.int64)
    arrays = [_generate_column(recipe, stream, field, rows) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=fields.arrow)


def _generate_column(recipe: Recipe, stream: SourceStream, field: Field, rows: Ints) -> pa.Array:
    hashes = _hashes(recipe.seed, field.name, rows)
    if field.name == stream.time_column:
        return pa.array(_to_unit(_times(recipe, rows, hashes), stream.unit)).cast(field.type.arrow)
    match field.type:
        case Type.INT | Type.BIGINT:
            return pa.array(_integers(recipe, field, hashes)).cast(field.type.arrow)
        case Type.REAL | Type.DOUBLE:
            return pa.array(_wave_values(recipe, stream, field, rows, hashes)).cast(field.type.arrow)
        case Type.TIMESTAMP:
            return pa.array(recipe.start + rows * recipe.interval).cast(field.type.arrow)
        case type_ if type_.parts:
            return _collections(recipe, field, rows, hashes)
    return _random_values(recipe, field.type, hashes)


def _random_values(recipe: Recipe, type_: Type, hashes: Words) -> pa.Array:
    """Generate values that follow neither a wave nor a range."""
    match type_:
        case Type.BOOLEAN:
            return pa.array(hashes >> np.uint64(63) == 1)
        case Type.INTERVAL:
            return pa.array(_integers_below(hashes, MICROSECONDS["minute"])).cast(type_.arrow)
        case Type.TIMESTAMP:
            return pa.array(recipe.start + _integers_below(hashes, recipe.rows) * recipe.interval).cast(type_.arrow)
        case Type.REAL | Type.DOUBLE:
            return pa.array(np.round(100.0 * _fractions(hashes), 3)).cast(type_.arrow)
    return _key_values(_integers_below(hashes, recipe.keys), type_)


def _key_values(numbers: Ints, type_: Type) -> pa.Array:
    """Convert key numbers to integers or strings."""
    if type_ is Type.STRING:
        return pc.binary_join_element_wise("k", pa.array(numbers).cast(pa.string()), "")
    return pa.array(numbers).cast(type_.arrow)


def _collections(recipe: Recipe, field: Field, rows: Ints, hashes: Words) -> pa.Array:
    """Generate arrays and maps with a few entries; the keys of a map are consecutive."""
    sizes = _integers_below(hashes, min(_MOST_ENTRIES, recipe.keys) + 1)
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    number = np.arange(bounds[-1]) - np.repeat(bounds[:-1], sizes)
    each = np.repeat(rows * _MOST_ENTRIES, sizes) + number
    values = _random_values(recipe, field.type.parts[-1], _hashes(recipe.seed, f"{field.name}.values", each))
    keys = None
    if field.type.is_map:
        first = np.repeat(_integers_below(_hashes(recipe.seed, f"{field.name}.keys", rows), recipe.keys), sizes)
        keys = _key_values((first + number) % recipe.keys, field.type.parts[0])
    return Entries(bounds, values, keys, np.zeros(len(rows), np.bool_)).column(field.type.arrow)


def _hashes(seed: int, column: str, rows: Ints) -> Words:
    """Return the output of SplitMix64 for each row; seed and column determine its state."""
    digest = blake2b(f"{seed}/{column}".encode(), digest_size=8).digest()
    state = np.uint64(int.from_bytes(digest, "little"))
    mixed = state + (rows.astype(np.uint64) + np.uint64(1)) * GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _integers_below(hashes: Words, limit: int) -> Ints:
    return (hashes % np.uint64(limit)).astype(np.int64)


def _fractions(hashes: Words) -> npt.NDArray[np.float64]:
    """Convert hashes to numbers in [0, 1)."""
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _times(recipe: Recipe, rows: Ints, hashes: Words) -> Ints:
    return recipe.start + rows * recipe.interval - _integers_below(hashes, recipe.disorder + 1)


def _to_unit(times: Ints, unit: TimeUnit | None) -> Ints:
    if unit is TimeUnit.NANOSECONDS:
        return times * unit.of_micros(1)
    return times if unit is None else times // unit.to_micros(1)


def _integers(recipe: Recipe, field: Field, hashes: Words) -> Ints:
    low, high = _range_of_column(recipe, field.name)
    return int(low) + _integers_below(hashes, int(high) - int(low) + 1)


def _wave_values(
    recipe: Recipe, stream: SourceStream, field: Field, rows: Ints, hashes: Words
) -> npt.NDArray[np.float64]:
    """Generate a slow wave with noise, shifted for each key, within the range of the column (by default [0, 100])."""
    phase = rows / (recipe.turn * recipe.keys) + _key_of(recipe, stream, rows) / recipe.keys
    slope = np.abs(2.0 * (phase - np.floor(phase)) - 1.0)
    # Use a smooth step up and down instead of a sine: its elementary operations give the same result everywhere.
    wave = slope * slope * (3.0 - 2.0 * slope)
    values = np.round(90.0 * wave + 10.0 * _fractions(hashes), 3)
    low, high = _range_of_column(recipe, field.name)
    return values if (low, high) == (0.0, 100.0) else low + (high - low) * (values / 100.0)


def _key_of(recipe: Recipe, stream: SourceStream, rows: Ints) -> Ints:
    """Return the key number of each row, from the first column of strings or integers."""
    keyed = (Type.STRING, Type.INT, Type.BIGINT)
    names = [f.name for f in stream.schema if f.type in keyed and f.name != stream.time_column]
    return (
        _integers_below(_hashes(recipe.seed, names[0], rows), recipe.keys) if names else np.zeros(len(rows), np.int64)
    )


def _range_of_column(recipe: Recipe, name: str) -> tuple[float, float]:
    return next((low, high) for column, low, high in recipe.ranges if column == name)


def _check_parameters(stream: SourceStream, given: Mapping[str, str]) -> None:
    numeric = [f.name for f in stream.schema if f.type.is_numeric and f.name != stream.time_column]
    known = {*_PARAMETERS, *(f"{name}.{end}" for name in numeric for end in ("min", "max"))}
    for name in given:
        if name not in known:
            message = f"stream '{stream.name}': the generator has no parameter '{name}'"
            raise DataError("D105", message, hint=suggest_name(name, known))


def _parse_recipe(stream: SourceStream, given: Mapping[str, str]) -> Recipe:
    rows, keys, turn, batch = (int(given[name]) for name in ("rows", "keys", "turn", "batch"))
    if rows < 0 or not 0 < keys < 2**31 or not 0 < turn < 2**31 or batch < 1:
        raise ValueError("rows must be at least 0; keys, turn and batch at least 1")
    recipe = Recipe(
        rows=rows,
        seed=int(given["seed"]),
        keys=keys,
        start=_parse_instant(given["start"]),
        interval=parse_duration(given["interval"]),
        disorder=parse_duration(given["disorder"]),
        turn=turn,
        batch=batch,
        ranges=tuple(_column_range(f, given, keys) for f in stream.schema if f.type.is_numeric),
    )
    last = recipe.start + recipe.rows * recipe.interval
    if recipe.start - recipe.disorder <= EARLIEST or last >= LATEST:
        raise ValueError("its times are too far from 1970")
    _check_time_fits(stream, recipe.start - recipe.disorder, last)
    return recipe


def _check_time_fits(stream: SourceStream, first: int, last: int) -> None:
    """Raise an error if the time column cannot hold the times in its unit."""
    if stream.time_column is None or stream.unit is None:
        return
    limit = 2 ** (stream.schema.type_of(stream.time_column).arrow.bit_width - 1)
    if not all(-limit <= stream.unit.of_micros(time) < limit for time in (first, last)):
        raise ValueError(f"its times do not fit column '{stream.time_column}' in {stream.unit.value}")


def _column_range(field: Field, given: Mapping[str, str], keys: int) -> tuple[str, float, float]:
    """Return the range of a numeric column; by default integers have one value per key, others a width of 100."""
    number, width = (int, keys - 1) if field.type.is_integer else (float, 100)
    low = number(given.get(f"{field.name}.min", "0"))
    high = number(given.get(f"{field.name}.max", low + width))
    limit = 2**31 if field.type is Type.INT else 2**62
    if not -limit <= low <= high < limit:
        raise ValueError(f"{field.name} cannot lie between {low} and {high}")
    return field.name, low, high


def _parse_instant(text: str) -> int:
    # In a URL a plus sign is decoded to a space; between time and zone, a space must have been a plus sign.
    moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

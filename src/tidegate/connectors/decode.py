"""Decode raw rows to elements, with the same code in every runtime.

Each row that cannot become an element becomes a dead letter, so that for every batch
``rows == len(batch) + dead.num_rows``. The time of a row is checked first. So the late rows and the
watermark do not depend on which other columns a query reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import Mask
from tidegate.catalog.catalog import SourceStream
from tidegate.catalog.domains import describe_domain
from tidegate.connectors.bad_files import bad_file_letter, is_bad_file
from tidegate.connectors.csv_writer import human_duration
from tidegate.connectors.origins import numbers_of, place_of
from tidegate.connectors.time_values import Instants, Spread, format_in_unit, spread_of
from tidegate.errors import InternalError, printable
from tidegate.expressions.column_texts import column_texts, json_rows
from tidegate.expressions.parse.values import parse_column
from tidegate.physical.common.batch import Batch, Times
from tidegate.physical.common.dead_letters import DEAD_LETTER, NO_DEAD_LETTERS, Reason
from tidegate.schema import Domain, Schema, Type
from tidegate.time import BEGINNING, CHRONON, EARLIEST, FOREVER, LATEST, TimeUnit

TIME_TYPES = (Type.TIMESTAMP, Type.BIGINT, Type.INT)
"""Types that a time column may have; integers are microseconds, unless a unit is declared."""


@dataclass(frozen=True, slots=True, eq=False)
class DecodedBatch:
    """Result of decoding a raw batch: elements, dead letters, the largest time, and the number of rows."""

    batch: Batch
    dead: pa.RecordBatch
    latest: int | None
    rows: int
    spread: Spread | None = None
    """Spread of the integers in the time column."""
    late: int = 0
    """Number of late rows."""
    late_from: int | None = None
    """The earliest time of a late row."""
    lacking: frozenset[str] = frozenset()
    """Columns that no row has, in formats in which a row may lack columns."""
    file: str | None = None
    is_begin: bool = False
    """True if the batch is the first of its file."""


@dataclass(frozen=True, slots=True, eq=False)
class ParsedColumn:
    """Values of the declared type, NULL where bad; `given` has the original values, for messages."""

    values: pa.Array
    bad: Mask
    given: pa.Array


@dataclass(frozen=True, slots=True, eq=False)
class ParsedRows:
    """Raw rows parsed by column; `broken` describes the errors of rows that could not be split into columns.

    `places` has the position of each row in the raw batch; None if no row was skipped.
    """

    raw: pa.Array | pa.RecordBatch
    columns: Mapping[str, ParsedColumn]
    broken: Mapping[int, str]
    places: npt.NDArray[np.intp] | None = None
    lacking: frozenset[str] = frozenset()
    """Columns that no row has, in formats in which a row may lack columns."""

    def __len__(self) -> int:
        return len(self.raw) if isinstance(self.raw, pa.Array) else int(self.raw.num_rows)


class Parser(Protocol):
    """Format-specific part of a decoder: a frozen value that can be sent to a worker."""

    def parse(self, raw: pa.RecordBatch) -> ParsedRows: ...


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decoder of the raw batches of one stream; `schema` has the requested columns."""

    stream: SourceStream
    schema: Schema
    parser: Parser

    def decode(self, raw: pa.RecordBatch, watermark: int, now: int = 0) -> DecodedBatch:
        """Decode rows at or after the watermark to elements, and the others to dead letters.

        `now` is the time of rows that are timed by arrival.
        """
        if is_bad_file(raw):
            return DecodedBatch(Batch.empty(self.schema), bad_file_letter(raw, self.stream.name), None, 1)
        parsed = self.parser.parse(raw)
        verdict, place = _judge_rows(self.stream, parsed, watermark, now), place_of(raw)
        columns = [parsed.columns[name].values for name in self.schema.names]
        every = Batch(verdict.starts, verdict.ends, pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow))
        decoded = DecodedBatch(
            every,
            NO_DEAD_LETTERS,
            latest=None
            if self.stream.is_table or not verdict.known.any()
            else int(verdict.starts[verdict.known].max()),
            rows=len(verdict.codes),
            spread=spread_of(parsed.columns[self.stream.time_column].values) if self.stream.time_column else None,
            lacking=parsed.lacking,
            file=place.file,
            is_begin=place.first == 1,
        )
        return self._set_bad_rows_aside(raw, parsed, verdict, decoded) if verdict.codes.any() else decoded

    def _set_bad_rows_aside(
        self, raw: pa.RecordBatch, parsed: ParsedRows, verdict: _Verdict, decoded: DecodedBatch
    ) -> DecodedBatch:
        """Turn the rows that are bad or late into dead letters."""
        late = verdict.rows(Reason.LATE)
        return replace(
            decoded,
            batch=decoded.batch.filter(verdict.codes == 0),
            dead=_dead_letters(self, raw, parsed, verdict),
            late=len(late),
            late_from=int(verdict.starts[late].min()) if late else None,
        )


def requested_schema(stream: SourceStream, columns: frozenset[str], *, time: bool) -> Schema:
    """Return the requested columns in declared order, with the time columns if `time` is set."""
    unknown = columns - frozenset(stream.schema.names)
    if unknown:
        raise InternalError("I301", f"stream '{stream.name}' declares no column {', '.join(sorted(unknown))}")
    for name in stream.times:
        if not any(f.name == name and f.type in TIME_TYPES for f in stream.schema):
            raise InternalError("I301", f"column '{name}' of stream '{stream.name}' cannot be its time")
    if not time:
        return Schema(tuple(f for f in stream.schema if f.name in columns))
    # At least one column is needed, to count the rows.
    wanted = columns | stream.times or frozenset(stream.schema.names[:1])
    return Schema(tuple(f for f in stream.schema if f.name in wanted))


def make_decoder(stream: SourceStream, columns: frozenset[str], parser: Parser) -> Decoder:
    return Decoder(stream, requested_schema(stream, columns, time=False), parser)


def parse_texts(texts: pa.Array, type_: Type, *, is_time: bool) -> ParsedColumn:
    """Parse values from texts; an empty text counts as NULL in a time column only."""
    if is_time:
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    values, bad = parse_column(texts, type_)
    return ParsedColumn(values, bad, texts)


_BY_CODE = (None, Reason.MALFORMED, Reason.NO_TIME, Reason.TIME_RANGE, Reason.LATE, Reason.OUTSIDE_DOMAIN)


@dataclass(frozen=True, slots=True, eq=False)
class _Verdict:
    """Validity of each row, if its time is known, and a code: 0 for an element, else the position in `_BY_CODE`."""

    watermark: int
    starts: Times
    ends: Times
    known: Mask
    codes: npt.NDArray[np.int8]

    def rows(self, reason: Reason) -> list[int]:
        return np.flatnonzero(self.codes == _BY_CODE.index(reason)).tolist()


def _judge_rows(stream: SourceStream, parsed: ParsedRows, watermark: int, now: int) -> _Verdict:
    rows = len(parsed)
    start, end = _validities(stream, parsed, now)
    broken = np.zeros(rows, np.bool_)
    broken[list(parsed.broken)] = True
    bad = np.logical_or.reduce([broken, *(c.bad for c in parsed.columns.values())])
    sensible = start.in_range & end.in_range & (start.values < end.values)
    late = np.zeros(rows, np.bool_) if stream.is_table else start.values < watermark
    outside = np.zeros(rows, np.bool_)
    if stream.domains:
        outside = np.logical_or.reduce([outside, *(o for _, _, o in _values_outside_domain(stream, parsed))])
    conditions = [broken | start.bad | end.bad, ~(start.given & end.given), ~sensible, late, bad, outside]
    codes = np.select(conditions, [1, 2, 3, 4, 1, 5], 0).astype(np.int8)
    return _Verdict(watermark, start.values, end.values, start.given & start.in_range, codes)


def _values_outside_domain(stream: SourceStream, parsed: ParsedRows) -> Iterator[tuple[str, Domain, Mask]]:
    """Yield for each column that is read and has a domain the rows with a value outside it; NULL is never outside."""
    for name, domain in stream.domains:
        if name in parsed.columns:
            values = parsed.columns[name].values
            numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
            if numbers.dtype == np.float32:
                numbers = numbers.astype(np.float64)  # otherwise the bounds would be rounded
            inside = (numbers >= domain.low) & (numbers <= domain.high)  # NaN is outside
            yield name, domain, ~inside & values.is_valid().to_numpy(zero_copy_only=False)


def _validities(stream: SourceStream, parsed: ParsedRows, now: int) -> tuple[Instants, Instants]:
    """Return the start and end of the validity of each row."""
    if stream.is_table:
        return Instants.constant(BEGINNING, len(parsed)), Instants.constant(FOREVER, len(parsed))
    if stream.time_column is None:
        start = Instants.constant(now, len(parsed))
    else:
        times = parsed.columns[stream.time_column]
        start = Instants.of(times.values, times.bad, stream.unit)
    if stream.end_column is not None:
        times = parsed.columns[stream.end_column]
        return start, Instants.of(times.values, times.bad, stream.unit).with_default(FOREVER)
    return start, replace(start, values=start.values + CHRONON)


def _dead_letters(decoder: Decoder, raw: pa.RecordBatch, parsed: ParsedRows, verdict: _Verdict) -> pa.RecordBatch:
    rows = np.flatnonzero(verdict.codes)
    details = _details(decoder.stream, parsed, verdict)
    columns = [
        pa.array([decoder.stream.name] * len(rows), pa.string()),
        pa.array([reason.value for code in verdict.codes[rows] if (reason := _BY_CODE[code])], pa.string()),
        pa.array([details[row] for row in rows.tolist()], pa.string()),
        pa.array(verdict.starts[rows], mask=~verdict.known[rows]),
        _row_texts(parsed, verdict, rows),
        pa.array([place_of(raw).file] * len(rows), pa.string()),
        numbers_of(raw, rows if parsed.places is None else parsed.places[rows]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DEAD_LETTER)


def _details(stream: SourceStream, parsed: ParsedRows, verdict: _Verdict) -> dict[int, str]:
    """Describe the error of each bad row. A row may have several: later assignments take precedence."""
    details: dict[int, str] = {}
    for name, domain, outside in reversed(list(_values_outside_domain(stream, parsed))):
        for row, text in _texts_of(parsed.columns[name].values, outside):
            details[row] = f"column '{name}': {text} is outside its domain: {describe_domain(domain)}"
    for name, column in reversed(list(parsed.columns.items())):
        details.update(_bad_value_details(name, column))
    details.update(parsed.broken)
    for row in verdict.rows(Reason.NO_TIME):
        empty = next(c for c in _time_columns(stream) if not parsed.columns[c].values[row].is_valid)
        details[row] = f"the time column '{empty}' is empty"
    for row in verdict.rows(Reason.TIME_RANGE):
        details[row] = _time_range_detail(stream, parsed, row)
    if stream.time_column is not None:
        details |= _late_details(parsed.columns[stream.time_column].values, verdict, stream.unit)
    return details


def _time_columns(stream: SourceStream) -> tuple[str, ...]:
    return tuple(c for c in (stream.time_column, stream.end_column) if c is not None)


def _time_range_detail(stream: SourceStream, parsed: ParsedRows, row: int) -> str:
    unit = stream.unit or TimeUnit.MICROSECONDS
    for column in _time_columns(stream):
        count = parsed.columns[column].values[row].cast(pa.int64()).as_py()
        if not EARLIEST < unit.to_micros(count) < LATEST:
            return f"column '{column}': {count} {unit.value} is too far from 1970 to be a time"
    return f"the validity is empty: '{stream.end_column}' is not after '{stream.time_column}'"


def _bad_value_details(name: str, column: ParsedColumn) -> Iterator[tuple[int, str]]:
    type_, is_text = Type.of_arrow(column.values.type), pa.types.is_string(column.given.type)
    for row, text in _texts_of(column.given, column.bad):
        shown = printable(repr(text) if is_text else text)
        yield row, f"column '{name}': {shown} is not a valid {type_.name if type_ else 'value'}"


def _texts_of(values: pa.Array, where: Mask) -> Iterator[tuple[int, str]]:
    """Return pairs of row number and value as text, for the rows of a mask."""
    rows = np.flatnonzero(where)
    return zip(rows.tolist(), column_texts(values.take(pa.array(rows))).to_pylist(), strict=True)


def _late_details(times: pa.Array, verdict: _Verdict, unit: TimeUnit | None) -> dict[int, str]:
    rows = verdict.rows(Reason.LATE)
    # Show times as they are in the column, so that a person can find them; a watermark may be a fraction of the unit.
    shown = column_texts(times.take(pa.array(rows, pa.int64()))).to_pylist()
    wide = times.type if pa.types.is_timestamp(times.type) else pa.int64()
    mark = column_texts(pa.array([verdict.watermark], pa.int64()).cast(wide))[0].as_py()
    if unit is not None:
        mark = format_in_unit(verdict.watermark, unit)
    return {
        row: f"late by {human_duration(verdict.watermark - int(verdict.starts[row]))}: "
        f"the time {time} is before the watermark {mark}"
        for row, time in zip(rows, shown, strict=True)
    }


def _row_texts(parsed: ParsedRows, verdict: _Verdict, rows: npt.NDArray[np.intp]) -> pa.Array:
    """Return rows as text: as JSON if they could be read, else the original line."""
    places = pa.array(rows)
    if isinstance(parsed.raw, pa.RecordBatch):
        return json_rows(parsed.raw.take(places))
    unread = pa.array(verdict.codes[rows] == _BY_CODE.index(Reason.MALFORMED))
    columns = {name: column.values.take(places) for name, column in parsed.columns.items()}
    return pc.if_else(unread, parsed.raw.take(places), json_rows(pa.RecordBatch.from_pydict(columns)))

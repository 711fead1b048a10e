"""From raw rows to elements: the same code in every runtime.

What cannot become an element becomes a dead letter, one for each row, so that for every batch
``rows == len(batch) + dead.num_rows``. The time of a row is judged first: neither which rows are
late nor how far the stream has come depends on which other columns a query happens to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.texts import column_texts, human_duration, json_rows, time_text
from tidegate.errors import InternalError
from tidegate.expressions.parse import parse_column
from tidegate.physical.batch import Batch, Times
from tidegate.physical.deadletters import DEAD_LETTER, NO_DEAD_LETTERS, Reason
from tidegate.schema import Schema, Type
from tidegate.time import CHRONON, EARLIEST, LATEST

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Ingested:
    """What a raw batch came to: elements, dead letters, the largest time seen, and its rows."""

    batch: Batch
    dead: pa.RecordBatch
    latest: int | None
    rows: int


@dataclass(frozen=True, slots=True, eq=False)
class ParsedColumn:
    """Values of the declared type, NULL where bad; `given` is what was there, for messages."""

    values: pa.Array
    bad: Mask
    given: pa.Array


@dataclass(frozen=True, slots=True, eq=False)
class Parsed:
    """Raw rows read column by column; `broken` says of rows without structure what is wrong."""

    raw: pa.Array | pa.RecordBatch
    columns: Mapping[str, ParsedColumn]
    broken: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.raw) if isinstance(self.raw, pa.Array) else int(self.raw.num_rows)


class Parser(Protocol):
    """The part of decoding that knows a format: a frozen value that can travel to a worker."""

    def parse(self, raw: pa.RecordBatch) -> Parsed: ...


@dataclass(frozen=True, slots=True)
class Decoder:
    """Makes elements of one stream from raw batches; `schema` has the columns asked for."""

    stream: str
    schema: Schema
    time_column: str
    parser: Parser

    def decode(self, raw: pa.RecordBatch, watermark: int) -> Ingested:
        """Elements at or after the watermark; everything else as dead letters."""
        parsed = self.parser.parse(raw)
        verdict = _Verdict.of(parsed, self.time_column, watermark)
        columns = self._columns(parsed)
        every = Batch(verdict.times, verdict.times + CHRONON, columns)
        return Ingested(every.filter(verdict.codes == 0), _letters(self, parsed, verdict), verdict.latest, len(parsed))

    def _columns(self, parsed: Parsed) -> pa.RecordBatch:
        arrays = [parsed.columns[name].values for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)


def requested(stream: SourceStream, columns: frozenset[str], *, time: bool) -> Schema:
    """The declared columns of these names, in declared order; with the time column if `time`."""
    unknown = columns - frozenset(stream.schema.names)
    if unknown or stream.time_column not in stream.schema:
        missing = ", ".join(sorted(unknown)) or stream.time_column
        raise InternalError("I301", f"stream '{stream.name}' declares no column {missing}")
    wanted = columns | {stream.time_column} if time else columns
    return Schema(tuple(f for f in stream.schema if f.name in wanted))


def make_decoder(stream: SourceStream, columns: frozenset[str], parser: Parser) -> Decoder:
    return Decoder(stream.name, requested(stream, columns, time=False), stream.time_column, parser)


def parse_texts(texts: pa.Array, type_: Type, *, is_time: bool) -> ParsedColumn:
    """Values from their texts; an empty text is a value of its own, but no time."""
    if is_time:
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    values, bad = parse_column(texts, type_)
    return ParsedColumn(values, bad, texts)


_BY_CODE = (None, Reason.MALFORMED, Reason.NO_TIME, Reason.TIME_RANGE, Reason.LATE)


@dataclass(frozen=True, slots=True, eq=False)
class _Verdict:
    """For each row its time, if that is known, and a code: 0 is good, others are reasons of `_BY_CODE`."""

    watermark: int
    times: Times
    known: Mask
    codes: npt.NDArray[np.int8]

    @staticmethod
    def of(parsed: Parsed, time_column: str, watermark: int) -> _Verdict:
        time = parsed.columns[time_column]
        given = time.values.is_valid().to_numpy(zero_copy_only=False)
        times = time.values.cast(pa.int64()).fill_null(0).to_numpy()
        in_range = (times > EARLIEST) & (times < LATEST)
        broken = np.zeros(len(parsed), np.bool_)
        broken[list(parsed.broken)] = True
        bad = np.logical_or.reduce([c.bad for c in parsed.columns.values()])
        conditions = [broken | time.bad, ~given, ~in_range, times < watermark, bad]
        codes = np.select(conditions, [1, 2, 3, 4, 1], 0).astype(np.int8)
        return _Verdict(watermark, times, given & in_range, codes)

    @property
    def latest(self) -> int | None:
        return int(self.times[self.known].max()) if self.known.any() else None


def _letters(decoder: Decoder, parsed: Parsed, verdict: _Verdict) -> pa.RecordBatch:
    rows = np.flatnonzero(verdict.codes)
    if not len(rows):
        return NO_DEAD_LETTERS
    reasons = [reason.value for code in verdict.codes[rows] if (reason := _BY_CODE[code]) is not None]
    columns = [
        pa.array([decoder.stream] * len(rows), pa.string()),
        pa.array(reasons, pa.string()),
        pa.array([_detail(decoder, parsed, verdict, int(row)) for row in rows], pa.string()),
        pa.array(verdict.times[rows], mask=~verdict.known[rows]),
        _shown(parsed, verdict, rows),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DEAD_LETTER)


def _detail(decoder: Decoder, parsed: Parsed, verdict: _Verdict, row: int) -> str:
    """What is wrong with a row, in a sentence."""
    name, time = decoder.time_column, int(verdict.times[row])
    type_ = Type.of_arrow(parsed.columns[name].values.type)
    match _BY_CODE[verdict.codes[row]]:
        case Reason.LATE:
            late, mark = human_duration(verdict.watermark - time), time_text(verdict.watermark, type_)
            return f"late by {late}: the time {time_text(time, type_)} is before the watermark {mark}"
        case Reason.NO_TIME:
            return f"the time column '{name}' is empty"
        case Reason.TIME_RANGE:
            return f"column '{name}': {time} microseconds is too far from 1970 to be a time"
    return parsed.broken.get(row) or _bad_value(parsed, row)


def _bad_value(parsed: Parsed, row: int) -> str:
    name, column = next((n, c) for n, c in parsed.columns.items() if c.bad[row])
    type_, text = Type.of_arrow(column.values.type), column_texts(column.given.slice(row, 1))[0].as_py()
    shown = repr(text) if pa.types.is_string(column.given.type) else text
    return f"column '{name}': {shown} is no {type_.name if type_ else column.values.type}"


def _shown(parsed: Parsed, verdict: _Verdict, rows: npt.NDArray[np.intp]) -> pa.Array:
    """The rows as text: what was read as JSON, a line that could not be read as it came."""
    places = pa.array(rows)
    if isinstance(parsed.raw, pa.RecordBatch):
        return json_rows(parsed.raw.take(places))
    unread = pa.array(verdict.codes[rows] == _BY_CODE.index(Reason.MALFORMED))
    columns = {name: column.values.take(places) for name, column in parsed.columns.items()}
    return pc.if_else(unread, parsed.raw.take(places), json_rows(pa.RecordBatch.from_pydict(columns)))

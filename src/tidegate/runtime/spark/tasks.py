"""Functions that run in Spark's Python workers: they read sources and run stages.

Each `ArrowFunction` maps Arrow batches to Arrow batches and is passed to `mapInArrow`. Only a cache of
decoded state is kept between calls; the state files are authoritative.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.decode import Decoder
from tidegate.connectors.source import FileSource, read_file
from tidegate.connectors.time_values import Spread, joint_spread
from tidegate.physical.common.batch import Batch
from tidegate.runtime.bucket_step import (
    Address,
    Inbox,
    Outbox,
    Parcel,
    PortWatermark,
    run_readers,
    runs_in,
    source_marks,
)
from tidegate.runtime.control import decode_directives, encode_values
from tidegate.runtime.data_warnings import FactsByFile, note_facts, to_report
from tidegate.runtime.figures import add_figures
from tidegate.runtime.job import count_reasons
from tidegate.runtime.outputs import output_rows, result_rows
from tidegate.runtime.pieces import Part, out_of_memory_error, run_part
from tidegate.runtime.reload import forget_tables
from tidegate.runtime.spark.directives import (
    Setup,
    StepDirective,
    StepStart,
    arrivals_after,
    read_announcement,
    task_context,
    watermarks_after,
)
from tidegate.runtime.spark.rows import PayloadKind, Row, batch_row, read_rows, value_row, write_rows
from tidegate.runtime.state import StateStore, Version

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_CACHE: dict[tuple[str, int, int], Version] = {}
"""The newest version of the state that this process wrote, by store, stage and bucket."""


ROWS_PER_BATCH = 200_000
"""Number of rows of a file or table that are processed together."""

WANTED = "wanted__"
"""Column in which Spark marks the rows that some stage needs."""


def unwrap_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read raw batches from travelling rows."""
    return (row.batch for row in read_rows(batches))


def rows_of_files(source: FileSource, columns: frozenset[str]) -> ArrowFunction:
    """Return a function that reads raw batches from the incoming file paths."""

    def read_paths(paths: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path in (path for batch in paths for path in batch.column(0).to_pylist()):
            yield from read_file(source, path, ROWS_PER_BATCH, columns=columns)

    return read_paths


def convert_memory_errors(function: ArrowFunction) -> ArrowFunction:
    """Convert a MemoryError to a Tidegate error, whose message the driver shows."""

    def run_guarded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from function(batches)
        except MemoryError as error:
            raise out_of_memory_error() from error

    return run_guarded


def read_stream(setup: Setup, stream: str, decoder: Decoder, raw: ArrowFunction = iter) -> ArrowFunction:
    """Return a function that decodes the raw rows of a stream and runs the stages that read it."""

    def reading(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = _Task(setup, read_announcement(), f"read_{_partition_id():05d}")
        for batch in raw(batches):
            if batch.num_rows:
                task.read(stream, decoder, batch)
        yield from write_rows(task.outgoing_rows(range(setup.buckets)))

    return convert_memory_errors(reading)


def read_wanted(setup: Setup, stream: str, decoder: Decoder, times: Decoder) -> ArrowFunction:
    """Return a variant of `read_stream` for rows with the column `WANTED`; of unmarked rows only the times are set."""

    def reading(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = _Task(setup, read_announcement(), f"read_{_partition_id():05d}")
        for batch in batches:
            wanted, rows = batch.column(WANTED), batch.drop_columns([WANTED])
            task.read(stream, decoder, rows.filter(wanted))
            task.skim(stream, times, rows.filter(pc.invert(wanted)))
        yield from write_rows(task.outgoing_rows(range(setup.buckets)))

    return convert_memory_errors(reading)


def read_table(
    setup: Setup, directive: StepDirective, stream: str, decoder: Decoder, batches: Iterable[pa.RecordBatch]
) -> pa.Table:
    """Run the stages that read a table and return their output as travelling rows; runs in the driver."""
    task = _Task(setup, directive, f"table_{setup.streams.index(stream):05d}")
    for batch in batches:
        task.read(stream, decoder, batch)
    return pa.Table.from_batches(write_rows(task.outgoing_rows(range(setup.buckets))))


def run_levels(setup: Setup, start: StepStart, levels: range) -> ArrowFunction:
    """Return a function that runs the stages of some levels in the bucket of its partition.

    Several levels can run together only if there is a single bucket.
    """
    parts = [Part.of(stages, setup.buckets, setup.most_pairs) for stages in setup.graph.parts(levels)]

    def running(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bucket, directive = _partition_id(), read_announcement()
        task = _Task(setup, directive, f"level_{levels[0]}_{bucket:05d}")
        inbox, forwarded = Inbox(bucket), []
        numbers = {s.number for level in levels for s in setup.graph.stages_at(level)}
        for row in read_rows(batches):
            if row.kind is PayloadKind.LATEST:
                task.note_time(setup.streams[row.number], row.value)
            elif row.kind is PayloadKind.ARRIVED:
                task.arrived[setup.streams[row.number]] += row.value
            elif row.kind is PayloadKind.ELEMENTS and row.number in numbers:
                inbox.add_parcel(Parcel((row.number, row.port), bucket, Batch.from_arrow(row.batch)))
            elif row.kind is PayloadKind.MARK and row.number in numbers:
                inbox.add_mark(PortWatermark((row.number, row.port), row.value))
            elif row.kind is not PayloadKind.NOTHING:
                forwarded.append(row)
        for mark in source_marks(setup.graph, watermarks_after(setup, directive, task.latest)):
            inbox.add_mark(mark)
        inbox.directives = decode_directives(setup.graph, start.directives)
        inbox.arrived = arrivals_after(setup, directive, task.arrived)
        for part in parts:
            task.run(part, inbox, start.files)
        yield from write_rows([*forwarded, *task.outgoing_rows([bucket])])

    return convert_memory_errors(running)


class _Task:
    """Output and figures of one task."""

    def __init__(self, setup: Setup, directive: StepDirective, name: str) -> None:
        self.setup, self.directive, self.name = setup, directive, name
        self.outbox = Outbox()
        self.latest: dict[str, int] = {}
        self.arrived: Counter[str] = Counter()
        self.rows = self.written = 0
        self.out: Counter[str] = Counter()
        self.spreads: dict[str, Spread] = {}
        self.found: FactsByFile = {}
        self.files: dict[str, str] = {}
        self.state_bytes = self.state_rows = self.cold_bytes = 0
        self.began = perf_counter()
        self.reading = 0.0

    def note_time(self, stream: str, time: int) -> None:
        self.latest[stream] = max(time, self.latest.get(stream, time))

    def read(self, stream: str, decoder: Decoder, raw: pa.RecordBatch) -> None:
        """Decode raw rows of a stream and run the stages that read it."""
        elements = self.decode_rows(stream, decoder, raw)
        self.collect(run_readers(self.setup.graph, stream, elements, self.setup.buckets))
        self.reading = perf_counter() - self.began

    def skim(self, stream: str, times: Decoder, raw: pa.RecordBatch) -> None:
        """Decode only the times of rows that no stage needs: they count for the watermark, or become dead letters."""
        self.decode_rows(stream, times, raw)

    def decode_rows(self, stream: str, decoder: Decoder, raw: pa.RecordBatch) -> Batch:
        """Decode raw rows to elements; note dead letters, times and counts."""
        ingested = decoder.decode(raw, self.directive.watermarks[stream], self.directive.now)
        note_facts(self.found, stream, ingested)
        self.arrived[stream] += ingested.rows
        self.rows += ingested.rows
        if ingested.spread is not None:
            self.spreads[stream] = joint_spread(ingested.spread, self.spreads.get(stream))
        if ingested.latest is not None:
            self.note_time(stream, ingested.latest)
        if ingested.dead.num_rows:
            self.outbox.dead.append(ingested.dead)
        return ingested.batch

    def collect(self, outbox: Outbox) -> None:
        self.outbox.parcels += outbox.parcels
        self.outbox.results += outbox.results
        self.outbox.dead += outbox.dead
        add_figures(self.outbox.figures, outbox.figures)

    def run(self, part: Part, inbox: Inbox, files: Mapping[str, str]) -> None:
        """Run stages from the state files that the driver named, and write their new states."""
        setup, directive, bucket = self.setup, self.directive, inbox.bucket
        before, states = {}, {}
        for stage in (each for each in part.stages if runs_in(each, bucket)):
            key = (stage.number, bucket)
            before[key] = _load_version(setup.store, *key, files.get(_state_key(*key)))
            known = before[key].chunks
            states[key] = (
                forget_tables(setup.graph, stage, known, directive.again, setup.tables) if directive.again else known
            )
        states, last = run_part(part, [inbox], states, self.take_piece, self._marks_before)
        self.collect(last)
        self.outbox.marks += last.marks
        self.outbox.reports += last.reports
        for key, version in before.items() if not directive.finishing else ():
            self.keep_version(key, setup.store.save(*key, directive.step, states[key], version))

    def take_piece(self, outbox: Outbox) -> None:
        """Collect the output of a piece; write results for file sinks now, not at the end of the step."""
        staged = [each for each in outbox.results if each[0] in self.setup.sinks]
        for query, batch in staged:
            self.out[query] += len(batch)
            self._write(query, result_rows(batch, self.setup.times))
        outbox.results = [each for each in outbox.results if each[0] not in self.setup.sinks]
        self.collect(outbox)

    def keep_version(self, key: tuple[int, int], version: Version) -> None:
        """Note the new version of a stage's state, to report and to cache it."""
        _CACHE[self.setup.store.root, *key] = version
        assert version.file is not None
        self.files[_state_key(*key)] = version.file
        self.state_bytes += version.bytes
        self.state_rows += version.rows
        self.cold_bytes += version.cold_bytes

    def _marks_before(self) -> dict[Address, int]:
        """Return the watermarks after the previous step, of the ports that source-reading stages feed."""
        return {mark.to: mark.watermark for mark in source_marks(self.setup.graph, self.directive.watermarks)}

    def outgoing_rows(self, buckets: range | list[int]) -> Iterator[Row]:
        """Yield all rows that leave the task; times and counts of streams go to each of the buckets."""
        setup = self.setup
        for parcel in self.outbox.parcels:
            number, port = parcel.to
            yield batch_row(parcel.bucket, PayloadKind.ELEMENTS, number, parcel.batch.to_arrow(), port=port)
        for mark in self.outbox.marks:
            for bucket in range(setup.buckets):
                yield value_row(bucket, PayloadKind.MARK, mark.to[0], mark.watermark, port=mark.to[1])
        for stream, time in self.latest.items():
            for bucket in buckets:
                yield value_row(bucket, PayloadKind.LATEST, setup.streams.index(stream), time)
        for stream, rows in self.arrived.items():
            for bucket in buckets:
                yield value_row(bucket, PayloadKind.ARRIVED, setup.streams.index(stream), rows)
        if not self.latest:
            # Every bucket must run, if only to report.
            yield from (value_row(bucket, PayloadKind.NOTHING, 0, None) for bucket in buckets)
        yield from self._deliver_output(buckets[0])
        yield value_row(buckets[0], PayloadKind.REPORT, 0, self._report())

    def _deliver_output(self, bucket: int) -> Iterator[Row]:
        """Write the output of file sinks; yield the other output as rows for the driver."""
        for name, rows in output_rows(self.outbox, self.setup.times):
            if name in self.setup.sinks:
                self._write(name, rows)
            else:
                yield batch_row(bucket, PayloadKind.RESULT, self.setup.outputs.index(name), rows)

    def _write(self, name: str, rows: pa.RecordBatch) -> None:
        """Write rows to a file sink; the driver publishes them."""
        part = f"{self.name}_{self.written:05d}"
        self.setup.sinks[name].write(self.directive.label, self.directive.tokens[name], part, rows)
        self.written += 1

    def _report(self) -> dict[str, object]:
        reasons: dict[str, int] = {}
        for dead in self.outbox.dead:
            for reason, count in count_reasons(dead).items():
                reasons[reason] = reasons.get(reason, 0) + count
        out = Counter(self.out)
        for query, batch in self.outbox.results:
            out[query] += len(batch)
        return {
            "rows": self.rows,
            "out": out,
            "dead": reasons,
            "files": self.files,
            "seconds_reading": self.reading,
            "state_bytes": self.state_bytes,
            "state_rows": self.state_rows,
            "cold_bytes": self.cold_bytes,
            "control": {place: each for some in self.outbox.reports for place, each in encode_values(some).items()},
            "operators": self.outbox.figures,
            "spreads": self.spreads,
            "found": to_report(self.found),
        }


def _state_key(stage: int, bucket: int) -> str:
    return f"{stage}/{bucket}"


def _load_version(store: StateStore, stage: int, bucket: int, file: str | None) -> Version:
    cached = _CACHE.get((store.root, stage, bucket))
    if cached is not None and file is not None and cached.file == file:
        return cached
    return store.load(stage, bucket, file)


def _partition_id() -> int:
    return task_context().partitionId()

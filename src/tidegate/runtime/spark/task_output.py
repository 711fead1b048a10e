"""What one Spark task reads, runs and sends on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.decode import Decoder
from tidegate.connectors.ranges import RangeEnd, SourceRange
from tidegate.connectors.source import RangeReader
from tidegate.connectors.time_values import Spread, joint_spread
from tidegate.physical.common.batch import Batch
from tidegate.runtime.bucket_step import Inbox, Outbox, run_readers, runs_in, source_marks
from tidegate.runtime.control import encode_values
from tidegate.runtime.data_warnings import FactsByFile, merge_facts, note_facts, to_report
from tidegate.runtime.figures import OperatorPlace, PhaseClock, add_figures
from tidegate.runtime.job import count_reasons
from tidegate.runtime.outputs import output_rows, result_rows
from tidegate.runtime.pieces import Part, run_part
from tidegate.runtime.reload import forget_tables
from tidegate.runtime.spark.directives import Setup, StepDirective
from tidegate.runtime.spark.inbox import WANTED
from tidegate.runtime.spark.rows import PayloadKind, Row, batch_row, value_row
from tidegate.runtime.stage import Address
from tidegate.runtime.state import StateSize, StateStore, Version

ROWS_PER_BATCH = 200_000
"""Number of rows of a range or table that are processed together."""

_CACHE: dict[tuple[str, int, int], Version] = {}
"""The newest version of the state that this process wrote or loaded, by store, stage and bucket."""


class TaskOutput:
    """Output and figures of one task. Only a cache of decoded state is kept after it; the state files are the truth."""

    def __init__(self, setup: Setup, directive: StepDirective, name: str) -> None:
        self.setup, self.directive = setup, directive
        # A step may run the stages of phases that end once more, and both write to the same sinks.
        self.name = f"final_{name}" if directive.finishing else name
        self.outbox = Outbox()
        self.latest: dict[str, int] = {}
        self.arrived: Counter[str] = Counter()
        self.rows = self.written = 0
        self.out: Counter[str] = Counter()
        self.spreads: dict[str, Spread] = {}
        self.found: FactsByFile = {}
        self.files: dict[str, str] = {}
        self.ends: list[tuple[str, RangeEnd]] = []
        self.sizes: dict[OperatorPlace, StateSize] = {}
        self.phases = PhaseClock()

    def note_time(self, stream: str, time: int) -> None:
        self.latest[stream] = max(time, self.latest.get(stream, time))

    def read_ranges(self, ranges: Iterable[tuple[str, SourceRange]]) -> None:
        """Read ranges of streams, and run the stages that read them."""
        for stream, each in ranges:
            source, columns = self.setup.sources[stream], self.setup.graph.columns(stream)
            reader = RangeReader(source, each, ROWS_PER_BATCH, columns, repeated=self.directive.repeated)
            batches = iter(reader)
            while (batch := self._read_next(batches)) is not None:
                self.read_rows(stream, batch)
            self.ends.append((stream, reader.end))

    def _read_next(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        with self.phases.measure("read"):
            return next(batches, None)

    def read_rows(self, stream: str, raw: pa.RecordBatch, only: Collection[int] | None = None) -> None:
        """Decode raw rows of a stream, and run the stages that read it; `only` selects some of them by number.

        Of rows that Spark did not mark as wanted, only the times count: for the watermark, or as late.
        """
        if WANTED in raw.schema.names:
            wanted, raw = raw.column(WANTED), raw.drop_columns([WANTED])
            times = self.setup.sources[stream].decoder(frozenset())
            self._decode(stream, times, raw.filter(pc.invert(wanted)))
            raw = raw.filter(wanted)
        with self.phases.measure("decode"):
            elements = self._decode(stream, self.setup.decoder(stream), raw)
        with self.phases.measure("run"):
            sizes = self.directive.sizes
            self.collect(run_readers(self.setup.graph, stream, elements, self.setup.buckets, only, sizes=sizes))

    def _decode(self, stream: str, decoder: Decoder, raw: pa.RecordBatch) -> Batch:
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
        self.outbox.reaches += outbox.reaches
        add_figures(self.outbox.figures, outbox.figures)

    def add(self, read: TaskOutput) -> None:
        """Add what another thread of the same task has read."""
        self.collect(read.outbox)
        for stream, time in read.latest.items():
            self.note_time(stream, time)
        for stream, spread in read.spreads.items():
            self.spreads[stream] = joint_spread(spread, self.spreads.get(stream))
        self.arrived.update(read.arrived)
        self.rows += read.rows
        self.found = merge_facts([self.found, read.found])
        self.ends += read.ends
        self.phases.add(read.phases)

    def run(self, part: Part, inboxes: Sequence[Inbox], files: Mapping[str, str]) -> None:
        """Run stages from the state files that the driver named, and write their new states."""
        setup, directive = self.setup, self.directive
        before, states = {}, {}
        places = [(stage, inbox.bucket) for stage in part.stages for inbox in inboxes]
        for stage, bucket in ((stage, bucket) for stage, bucket in places if runs_in(stage, bucket)):
            key = (stage.number, bucket)
            before[key] = _load_version(setup.store, *key, files.get(_state_key(*key)))
            known = before[key].chunks
            if directive.again:
                known = forget_tables(setup.graph, stage, known, directive.again, setup.tables, now=directive.now)
            states[key] = known
        with self.phases.measure("run"):
            states, last = run_part(part, inboxes, states, self.take_piece, self._marks_before)
        self.collect(last)
        self.outbox.marks += last.marks
        self.outbox.reports += last.reports
        if directive.finishing:
            return
        with self.phases.measure("save"):
            for key, version in before.items():
                self._keep_version(key, setup.store.save(*key, directive.step, states[key], version))

    def take_piece(self, outbox: Outbox) -> None:
        """Collect the output of a piece; write results for file sinks now, not at the end of the step."""
        staged = [each for each in outbox.results if each[0] in self.setup.sinks]
        for query, batch in staged:
            self.out[query] += len(batch)
            self._write(query, result_rows(batch, self.setup.times))
        outbox.results = [each for each in outbox.results if each[0] not in self.setup.sinks]
        self.collect(outbox)

    def _keep_version(self, key: tuple[int, int], version: Version) -> None:
        """Note the new version of a stage's state, to report and to cache it."""
        _CACHE[self.setup.store.root, *key] = version
        assert version.file is not None
        self.files[_state_key(*key)] = version.file
        stage, bucket = key
        self.sizes |= {OperatorPlace(stage, n, bucket): size for n, size in version.operator_sizes().items()}

    def _marks_before(self) -> dict[Address, int]:
        """Return the watermarks after the previous step, of the ports that source-reading stages feed."""
        marks = source_marks(self.setup.graph, self.directive.watermarks, self.directive.sizes)
        return {mark.to: mark.watermark for mark in marks}

    def outgoing_rows(self, buckets: Sequence[int]) -> Iterator[Row]:
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
        yield from self._deliver_output(buckets[0])
        yield value_row(buckets[0], PayloadKind.REPORT, 0, self._report())

    def _deliver_output(self, bucket: int) -> Iterator[Row]:
        """Write the output of file sinks; yield the other output as rows for the driver."""
        read = [each for each in self.outbox.results if each[0] not in self.directive.unread]
        for name, rows in output_rows(Outbox(results=read, dead=self.outbox.dead), self.setup.times):
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
            "out": dict(out),
            "dead": reasons,
            "files": self.files,
            "ends": self.ends,
            "state": self.sizes,
            "phases": self.phases.take(),
            "control": [encode_values(some) for some in self.outbox.reports],
            "operators": self.outbox.figures,
            "spreads": self.spreads,
            "found": to_report(self.found),
            "reaches": self.outbox.reaches if self.setup.is_live else [],
        }


def _state_key(stage: int, bucket: int) -> str:
    return f"{stage}/{bucket}"


def _load_version(store: StateStore, stage: int, bucket: int, file: str | None) -> Version:
    cached = _CACHE.get((store.root, stage, bucket))
    if cached is not None and file is not None and cached.file == file:
        return cached
    return store.load(stage, bucket, file, known=cached)

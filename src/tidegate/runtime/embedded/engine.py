"""Run the stages and buckets of a job in this process, step by step. The runner reads input and delivers results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from time import perf_counter

import pyarrow as pa

from tidegate.connectors.decode import DecodedBatch, Decoder
from tidegate.connectors.time_values import Spread, joint_spread
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.control import ControlRecord, Report
from tidegate.physical.common.sizes import NO_SIZES, SizeHistories
from tidegate.runtime.bucket_step import Inbox, Outbox, PortWatermark, merge_reaches, run_readers, runs_in, source_marks
from tidegate.runtime.control import add_counts, decide_after_step, directives_of, records_of_stages
from tidegate.runtime.data_warnings import FactsByFile, FileWatch, note_facts
from tidegate.runtime.figures import OperatorPlace, PhaseClock, add_figures
from tidegate.runtime.held_back import holds_back
from tidegate.runtime.job import Job
from tidegate.runtime.pieces import Part, States, run_part
from tidegate.runtime.placement import Placement
from tidegate.runtime.reload import compares_tables, forget_tables
from tidegate.runtime.stage import Address
from tidegate.runtime.stage_graph import StageGraph
from tidegate.runtime.state import StateSize, StateStore, Version, is_cold
from tidegate.runtime.threads import map_in_threads
from tidegate.runtime.watermarks import NO_STREAMS, advance_watermarks
from tidegate.time import FOREVER

NO_READERS: Mapping[str, Collection[int]] = {}


@dataclass(slots=True)
class Engine:
    """Executor of a job: each step takes raw rows of streams and returns results and dead letters."""

    job: Job
    store: StateStore | None = None
    watermarks: dict[str, int] = field(default_factory=dict)
    state: dict[tuple[int, int], Version] = field(default_factory=dict)
    step_number: int = 0
    arrived: dict[str, int] = field(default_factory=dict)
    """Number of raw rows of each stream so far."""
    control: dict[str, ControlRecord] = field(default_factory=dict)
    """The newest record of each steered operator, by ``stage/operator``."""
    reaches: dict[str, int] = field(default_factory=dict)
    """The largest end of an element that each stage and query gave so far."""
    sizes: SizeHistories = field(default_factory=lambda: NO_SIZES)
    """Histories of the sizes of windows and granularities; those without one have the best size."""
    decoders: dict[str, Decoder] = field(default_factory=dict)
    watch: FileWatch = field(default_factory=FileWatch)
    spreads: dict[str, Spread] = field(default_factory=dict)
    """Spread of the numbers in the time column of each stream in the last step."""
    on_piece: Callable[[Outbox], None] | None = None
    """Receives the output of each piece when it is done. If None, output is collected until the step ends."""
    phases: PhaseClock = field(default_factory=PhaseClock)
    _groups: tuple[frozenset[str], ...] = field(init=False)
    _saved: dict[tuple[int, int], Version] = field(init=False)
    """The state that was last written to the store."""
    _parts: tuple[Part, ...] = field(init=False)
    _holds_back: bool = field(init=False)

    def __post_init__(self) -> None:
        self.watermarks = self.watermarks or self.job.first_watermarks()
        self.arrived = self.arrived or dict.fromkeys(self.job.graph.streams, 0)
        self.decoders = {s: self.job.decoder(s) for s in self.job.graph.streams}
        self._groups, self._holds_back = self.job.meeting_streams, holds_back(self.job.graph)
        self._saved = dict(self.state)
        parts = self.job.graph.parts(range(1, self.job.graph.levels))
        self._parts = tuple(Part.of(stages, self.job.buckets, self.job.most_pairs) for stages in parts)
        self._lay_out()

    def _lay_out(self) -> None:
        """Compute once what every step needs of the stages."""
        for stream in self.job.graph.streams:
            for stage in self.job.graph.readers[stream]:
                stage.place(Placement(buckets=self.job.buckets))
        for part, bucket in product(self._parts, range(self.job.buckets)):
            for stage in part.stages:
                stage.place(Placement(bucket, self.job.buckets, part.most_pairs))
        source_marks(self.job.graph, self.watermarks)

    def step(
        self,
        raw: Mapping[str, list[pa.RecordBatch]],
        now: int | None = None,
        idle: Mapping[str, int] = NO_STREAMS,
        again: Collection[str] = (),
        only: Mapping[str, Collection[int]] = NO_READERS,
    ) -> tuple[Outbox, int]:
        """Process new raw rows; return the output and the number of input rows.

        `now` is the time of rows that are timed by arrival; by default the time of the clock. `again` names the tables
        that are read again: their new rows replace the old ones. `only` has the tables whose rows go to some stages.
        """
        began = perf_counter()
        elements: list[tuple[str, Batch]] = []
        dead: list[pa.RecordBatch] = []
        latest: dict[str, int] = {}
        found: FactsByFile = {}
        arrived = dict.fromkeys(raw, 0)
        now = self.job.arrival_time(self.watermarks) if now is None else now
        if again:
            self._forget_tables(again, now)
        self.spreads = {}
        arriving = [(stream, batch) for stream, batches in raw.items() for batch in batches]
        rows = sum(batch.num_rows for _, batch in arriving)
        with self.phases.measure("decode"):
            decode = partial(self._decode, now=now)
            decoded = list(map_in_threads(decode, arriving, rows=rows))
        for (stream, _), ingested in zip(arriving, decoded, strict=True):
            elements.append((stream, ingested.batch))
            dead += [ingested.dead] if ingested.dead.num_rows else []
            arrived[stream] += ingested.rows
            note_facts(found, stream, ingested)
            if ingested.spread is not None:
                known = self.spreads.get(stream)
                self.spreads[stream] = ingested.spread if known is None else joint_spread(known, ingested.spread)
            if ingested.latest is not None:
                latest[stream] = max(ingested.latest, latest.get(stream, ingested.latest))
        self.watch.add(found)
        out = self.advance(elements, self._next_watermarks(latest, idle), arrived, began, only)
        out.dead[:0] = dead
        return out, sum(arrived.values())

    def _decode(self, arriving: tuple[str, pa.RecordBatch], now: int) -> DecodedBatch:
        stream, batch = arriving
        return self.decoders[stream].decode(batch, self.watermarks[stream], now)

    def advance(
        self,
        elements: Iterable[tuple[str, Batch]],
        watermarks: dict[str, int],
        arrived: Mapping[str, int] | None = None,
        began: float | None = None,
        only: Mapping[str, Collection[int]] = NO_READERS,
    ) -> Outbox:
        """Process new elements of streams, with the watermarks that hold after them.

        `arrived` counts the raw rows of each stream, by default one per element. `began` is the start time of the step.
        """
        with self.phases.measure("run"):
            out = self._run_step(elements, watermarks, self.on_piece, arrived, began, only=only)
        self._save_state()
        return out

    def pass_time(self, idle: Mapping[str, int], *, is_counted: bool = False) -> Outbox | None:
        """Advance the watermarks without new rows; return the output, or None if there is none.

        A step without output changes the state in memory only: it is neither written nor counted, unless `is_counted`.
        """
        marks = self._next_watermarks({}, idle)
        if marks == self.watermarks:
            return None
        out = self._run_step([], marks, None)
        if not out.results and not out.dead and not is_counted:
            return None
        self._save_state()
        return out

    def _next_watermarks(self, latest: Mapping[str, int], idle: Mapping[str, int]) -> dict[str, int]:
        return advance_watermarks(self.watermarks, latest, self.job.delays, idle, self._groups)

    def _run_step(
        self,
        elements: Iterable[tuple[str, Batch]],
        watermarks: dict[str, int],
        deliver: Callable[[Outbox], None] | None,
        arrived: Mapping[str, int] | None = None,
        began: float | None = None,
        *,
        only: Mapping[str, Collection[int]] = NO_READERS,
    ) -> Outbox:
        began = perf_counter() if began is None else began
        boxes, rows, elements = _StepBoxes(self.job), Counter[str](), list(elements)
        for stream, batch in elements:
            rows[stream] += len(batch)
        graph, buckets = self.job.graph, self.job.buckets
        for outbox in map_in_threads(
            lambda each: run_readers(graph, *each, buckets, only.get(each[0]), sizes=self.sizes),
            elements,
            rows=rows.total(),
        ):
            boxes.accept(outbox)
        self.arrived = add_counts(self.arrived, rows if arrived is None else arrived)
        self._run_levels(boxes, watermarks, deliver, keep=True)
        self.watermarks = watermarks
        if self.job.is_live:
            self.reaches = merge_reaches(self.reaches, boxes.out.reaches)
        if boxes.reports:
            self.control = decide_after_step(self.job.graph, self.control, boxes.reports, perf_counter() - began)
        return boxes.out

    def _save_state(self) -> None:
        self.step_number += 1
        if self.store is None:
            return
        with self.phases.measure("save"):
            for place, version in self.state.items():
                before = self._saved.get(place, Version())
                self._saved[place] = self.store.save(*place, self.step_number, version.chunks, before)
        self.state = dict(self._saved)

    def _forget_tables(self, again: Collection[str], now: int) -> None:
        graph, buckets = self.job.graph, range(self.job.buckets)
        # What is kept of no row is compared, too.
        compared = {(s.number, b) for s in graph.stages if compares_tables(s) for b in buckets if runs_in(s, b)}
        for number, bucket in sorted(compared | self.state.keys()):
            version = self.state.get((number, bucket), Version())
            stage = graph.by_number[number]
            chunks = forget_tables(graph, stage, version.chunks, again, self.job.tables, now=now)
            self.state[number, bucket] = replace(version, chunks=chunks)

    def finish(self) -> Outbox:
        """Return the output that is still held back, as if the streams had ended. The state does not change."""
        if not self._holds_back:
            return Outbox()
        boxes = _StepBoxes(self.job)
        self._run_levels(boxes, dict.fromkeys(self.watermarks, FOREVER), self.on_piece, keep=False)
        return boxes.out

    def flush(self, graph: StageGraph) -> Outbox:
        """Return the results that the stages of a part of the graph hold back, as `finish` does for all stages."""
        part = replace(self, job=replace(self.job, graph=graph), on_piece=None)
        # Dead letters appear again where the stages go on.
        return Outbox(results=part.finish().results)

    def with_job(self, job: Job, forgotten: Collection[str] = ()) -> Engine:
        """Return the engine for another job, with the state of the stages that both have.

        `forgotten` are streams that were dropped: a new stream of the same name starts at its beginning.
        """
        numbers = job.graph.numbers
        marks = {stream: mark for stream, mark in self.watermarks.items() if stream not in forgotten}
        arrived = {stream: rows for stream, rows in self.arrived.items() if stream not in forgotten}
        after = replace(
            self,
            job=job,
            watermarks={**job.first_watermarks(), **marks},
            state={place: version for place, version in self.state.items() if place[0] in numbers},
            arrived={**dict.fromkeys(job.graph.streams, 0), **arrived},
            control=records_of_stages(self.control, numbers),
        )
        # Not the current state: a step without output changes it, but is not written.
        after.note_saved({place: version for place, version in self._saved.items() if place[0] in numbers})
        return after

    def add_states(self, files: Mapping[str, str]) -> None:
        """Load the states of new stages, which are in files by ``stage/bucket``."""
        assert self.store is not None
        for name, file in files.items():
            stage, bucket = map(int, name.split("/"))
            if (stage, bucket) not in self.state:
                self.state[stage, bucket] = self._saved[stage, bucket] = self.store.load(stage, bucket, file)

    def note_saved(self, saved: dict[tuple[int, int], Version]) -> None:
        """Set the state that was last written."""
        self._saved = saved

    def _run_levels(
        self, boxes: _StepBoxes, watermarks: Mapping[str, int], deliver: Callable[[Outbox], None] | None, *, keep: bool
    ) -> None:
        boxes.add_marks(source_marks(self.job.graph, watermarks, self.sizes))
        directives = directives_of(self.control) if self.control else {}
        for inbox in boxes.inboxes:
            inbox.directives, inbox.arrived, inbox.sizes = directives, self.arrived, self.sizes

        def accept(piece: Outbox) -> None:
            self.reaches = merge_reaches(self.reaches, piece.reaches)
            (deliver or boxes.accept)(piece)

        for part in self._parts:
            numbers = {stage.number for stage in part.stages}
            states = {key: version.chunks for key, version in self.state.items() if key[0] in numbers}
            states, last = run_part(part, boxes.inboxes, states, accept, self._port_marks)
            boxes.accept(last)
            if keep:
                self._keep_states(states)

    def _port_marks(self) -> dict[Address, int]:
        """Return the watermarks that ports had after the previous step."""
        return {mark.to: mark.watermark for mark in source_marks(self.job.graph, self.watermarks, self.sizes)}

    def _keep_states(self, states: States) -> None:
        for key, chunks in states.items():
            self.state[key] = replace(self.state.get(key, Version()), chunks=chunks)

    def state_size(self) -> StateSize:
        """Return the size of the state of all stages and buckets."""
        size = rows = cold = 0
        for version in self.state.values():
            for name, chunk in version.chunks.items():
                if is_cold(name):
                    cold += chunk.nbytes
                else:
                    size, rows = size + chunk.nbytes, rows + chunk.num_rows
        return StateSize(size, rows, cold)

    def state_sizes(self) -> dict[OperatorPlace, StateSize]:
        """Return the size of the state of each operator in each bucket."""
        # Other threads ask, too: the run replaces entries of the dict meanwhile.
        versions = self.state.copy().items()
        return {
            OperatorPlace(stage, number, bucket): size
            for (stage, bucket), version in versions
            for number, size in version.operator_sizes().items()
        }


class _StepBoxes:
    """Inboxes of all buckets in one step, and the output of the job."""

    def __init__(self, job: Job) -> None:
        self.inboxes = [Inbox(bucket) for bucket in range(job.buckets)]
        self.out = Outbox()
        self.reports: list[dict[str, Report]] = []
        """Reports of steered operators; those of one stage are in the order of buckets."""

    def accept(self, outbox: Outbox) -> None:
        for parcel in outbox.parcels:
            self.inboxes[parcel.bucket].add_parcel(parcel)
        self.add_marks(outbox.marks)
        self.out.results.extend(outbox.results)
        self.out.dead.extend(outbox.dead)
        add_figures(self.out.figures, outbox.figures)
        self.out.reaches += outbox.reaches
        self.reports += outbox.reports

    def add_marks(self, marks: list[PortWatermark]) -> None:
        for mark in marks:
            for inbox in self.inboxes:
                inbox.add_mark(mark)

"""Run the stages and buckets of a job in this process, step by step. The runner reads input and delivers results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter

import pyarrow as pa

from tidegate.connectors.decode import Decoder
from tidegate.connectors.time_values import Spread, joint_spread
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import Facts
from tidegate.runtime.control import decided, summed
from tidegate.runtime.file_facts import FileWatch, Found, note
from tidegate.runtime.pieces import Part, States, run_part
from tidegate.runtime.port import Job
from tidegate.runtime.reload import forget
from tidegate.runtime.state import StateStore, Version, is_cold
from tidegate.runtime.watermarks import NO_STREAMS, advanced
from tidegate.runtime.work import Address, Inbox, Mark, Outbox, Parcel, read, source_marks
from tidegate.time import FOREVER


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
    orders: dict[str, Facts] = field(default_factory=dict)
    """Orders of steered operators for the next step, by ``stage/operator``."""
    decoders: dict[str, Decoder] = field(default_factory=dict)
    watch: FileWatch = field(default_factory=FileWatch)
    spreads: dict[str, Spread] = field(default_factory=dict)
    """Spread of the numbers in the time column of each stream in the last step."""
    on_piece: Callable[[Outbox], None] | None = None
    """Receives the output of each piece when it is done. If None, output is collected until the step ends."""
    _groups: tuple[frozenset[str], ...] = field(init=False)
    _saved: dict[tuple[int, int], Version] = field(init=False)
    """The state that was last written to the store."""
    _parts: tuple[Part, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.watermarks = self.watermarks or self.job.first_watermarks()
        self.arrived = self.arrived or dict.fromkeys(self.job.graph.streams, 0)
        self.decoders = {s: self.job.decoder(s) for s in self.job.graph.streams}
        self._groups = self.job.meeting_streams
        self._saved = dict(self.state)
        parts = self.job.graph.parts(range(1, self.job.graph.levels))
        self._parts = tuple(Part.of(stages, self.job.buckets, self.job.most_pairs) for stages in parts)

    def step(
        self, raw: Mapping[str, list[pa.RecordBatch]], idle: Mapping[str, int] = NO_STREAMS, again: Collection[str] = ()
    ) -> tuple[Outbox, int]:
        """Process new raw rows; return the output and the number of input rows.

        `again` names the tables that are read again: their new rows replace the old ones.
        """
        began = perf_counter()
        self._forget(again)
        elements: list[tuple[str, Batch]] = []
        dead: list[pa.RecordBatch] = []
        latest: dict[str, int] = {}
        found: Found = {}
        arrived, now = dict.fromkeys(raw, 0), self.job.arrival(self.watermarks)
        self.spreads = {}
        for stream, batch in ((s, b) for s, batches in raw.items() for b in batches):
            ingested = self.decoders[stream].decode(batch, self.watermarks[stream], now)
            elements.append((stream, ingested.batch))
            dead += [ingested.dead] if ingested.dead.num_rows else []
            arrived[stream] += ingested.rows
            note(found, stream, ingested)
            if ingested.spread is not None:
                self.spreads[stream] = joint_spread(ingested.spread, self.spreads.get(stream))
            if ingested.latest is not None:
                latest[stream] = max(ingested.latest, latest.get(stream, ingested.latest))
        self.watch.add(found)
        out = self.advance(elements, self._marks(latest, idle), arrived, began)
        out.dead[:0] = dead
        return out, sum(arrived.values())

    def advance(
        self,
        elements: Iterable[tuple[str, Batch]],
        watermarks: dict[str, int],
        arrived: Mapping[str, int] | None = None,
        began: float | None = None,
    ) -> Outbox:
        """Process new elements of streams, with the watermarks that hold after them.

        `arrived` counts the raw rows of each stream, by default one per element. `began` is the start time of the step.
        """
        out = self._advance(elements, watermarks, self.on_piece, arrived, began)
        self._save()
        return out

    def pass_time(self, idle: Mapping[str, int]) -> Outbox | None:
        """Advance the watermarks without new rows; return the output, or None if there is none.

        A step without output changes the state in memory only: it is neither written nor counted.
        """
        marks = self._marks({}, idle)
        if marks == self.watermarks:
            return None
        out = self._advance([], marks, None)
        if not out.results and not out.dead:
            return None
        self._save()
        return out

    def _marks(self, latest: Mapping[str, int], idle: Mapping[str, int]) -> dict[str, int]:
        return advanced(self.watermarks, latest, self.job.delays, idle, self._groups)

    def _advance(
        self,
        elements: Iterable[tuple[str, Batch]],
        watermarks: dict[str, int],
        deliver: Callable[[Outbox], None] | None,
        arrived: Mapping[str, int] | None = None,
        began: float | None = None,
    ) -> Outbox:
        began = perf_counter() if began is None else began
        boxes, rows = _Boxes(self.job), Counter[str]()
        for stream, batch in elements:
            boxes.accept(read(self.job.graph, stream, batch, self.job.buckets))
            rows[stream] += len(batch)
        self.arrived = summed(self.arrived, rows if arrived is None else arrived)
        self._levels(boxes, watermarks, deliver, keep=True)
        self.watermarks = watermarks
        self.orders = decided(self.job.graph, self.orders, boxes.reports, perf_counter() - began)
        return boxes.out

    def _save(self) -> None:
        self.step_number += 1
        if self.store is None:
            return
        for place, version in self.state.items():
            before = self._saved.get(place, Version())
            self._saved[place] = self.store.save(*place, self.step_number - 1, version.chunks, before)
        self.state = dict(self._saved)

    def _forget(self, again: Collection[str]) -> None:
        for (number, bucket), version in self.state.items() if again else ():
            stage = self.job.graph.stages[number]
            chunks = forget(self.job.graph, stage, version.chunks, again, self.job.tables)
            self.state[number, bucket] = replace(version, chunks=chunks)

    def finish(self) -> Outbox:
        """Return the output that is still held back, as if the streams had ended. The state does not change."""
        boxes = _Boxes(self.job)
        self._levels(boxes, dict.fromkeys(self.watermarks, FOREVER), self.on_piece, keep=False)
        return boxes.out

    def _levels(
        self, boxes: _Boxes, watermarks: Mapping[str, int], deliver: Callable[[Outbox], None] | None, *, keep: bool
    ) -> None:
        boxes.mark(source_marks(self.job.graph, watermarks))
        boxes.steer(self.orders, self.arrived)
        for part in self._parts:
            numbers = {stage.number for stage in part.stages}
            states = {key: version.chunks for key, version in self.state.items() if key[0] in numbers}
            states, last = run_part(part, boxes.inboxes, states, deliver or boxes.accept, self._port_marks)
            boxes.accept(last)
            if keep:
                self._keep(states)

    def _port_marks(self) -> dict[Address, int]:
        """Return the watermarks that ports had after the previous step."""
        return {mark.to: mark.watermark for mark in source_marks(self.job.graph, self.watermarks)}

    def _keep(self, states: States) -> None:
        for key, chunks in states.items():
            self.state[key] = replace(self.state.get(key, Version()), chunks=chunks)

    @property
    def state_bytes(self) -> int:
        return sum(chunk.nbytes for name, chunk in self._chunks() if not is_cold(name))

    @property
    def cold_bytes(self) -> int:
        return sum(chunk.nbytes for name, chunk in self._chunks() if is_cold(name))

    @property
    def state_rows(self) -> int:
        return sum(version.rows for version in self.state.values())

    def _chunks(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        return (each for version in self.state.values() for each in version.chunks.items())


class _Boxes:
    """Inboxes of all buckets in one step, and the output of the job."""

    def __init__(self, job: Job) -> None:
        self.inboxes = [Inbox(bucket) for bucket in range(job.buckets)]
        self.out = Outbox()
        self.reports: list[dict[str, Facts]] = []
        """Reports of steered operators; those of one stage are in the order of buckets."""

    def steer(self, orders: Mapping[str, Facts], arrived: Mapping[str, int]) -> None:
        for inbox in self.inboxes:
            inbox.orders, inbox.arrived = orders, arrived

    def accept(self, outbox: Outbox) -> None:
        for parcel in outbox.parcels:
            self.put(parcel)
        self.mark(outbox.marks)
        self.out.results.extend(outbox.results)
        self.out.dead.extend(outbox.dead)
        self.reports += outbox.reports

    def put(self, parcel: Parcel) -> None:
        self.inboxes[parcel.bucket].put(parcel)

    def mark(self, marks: list[Mark]) -> None:
        for mark in marks:
            for inbox in self.inboxes:
                inbox.mark(mark)

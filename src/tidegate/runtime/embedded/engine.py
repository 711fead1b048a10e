"""A job in this process, one step after the other: stages and buckets, without reading and delivering."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter

import pyarrow as pa

from tidegate.connectors.decode import Decoder
from tidegate.physical.batch import Batch
from tidegate.physical.operator import Facts
from tidegate.runtime.port import Job
from tidegate.runtime.reload import forget
from tidegate.runtime.stage import Stage
from tidegate.runtime.state import StateStore, Version, is_cold
from tidegate.runtime.steering import decided, summed
from tidegate.runtime.watermarks import advanced
from tidegate.runtime.work import Inbox, Mark, Outbox, Parcel, read, run, runs_in, source_marks
from tidegate.time import FOREVER


@dataclass(slots=True)
class Engine:
    """A job step by step: give it raw rows of streams, it gives results and dead letters."""

    job: Job
    store: StateStore | None = None
    watermarks: dict[str, int] = field(default_factory=dict)
    state: dict[tuple[int, int], Version] = field(default_factory=dict)
    step_number: int = 0
    arrived: dict[str, int] = field(default_factory=dict)
    """Raw rows of each stream so far."""
    orders: dict[str, Facts] = field(default_factory=dict)
    """What steered operators are told in the next step."""
    decoders: dict[str, Decoder] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watermarks = self.watermarks or self.job.first_watermarks()
        self.arrived = self.arrived or dict.fromkeys(self.job.graph.streams, 0)
        self.decoders = {s: self.job.decoder(s) for s in self.job.graph.streams}

    def step(
        self, raw: Mapping[str, list[pa.RecordBatch]], idle: Collection[str] = (), again: Collection[str] = ()
    ) -> tuple[Outbox, int]:
        """Take in new rows of any streams; answers what came out, and how many rows went in.

        The rows of tables that are read `again` replace those that they had before.
        """
        began = perf_counter()
        self._forget(again)
        elements: list[tuple[str, Batch]] = []
        dead: list[pa.RecordBatch] = []
        latest: dict[str, int] = {}
        arrived, now = dict.fromkeys(raw, 0), self.job.arrival(self.watermarks)
        for stream, batch in ((s, b) for s, batches in raw.items() for b in batches):
            ingested = self.decoders[stream].decode(batch, self.watermarks[stream], now)
            elements.append((stream, ingested.batch))
            dead += [ingested.dead] if ingested.dead.num_rows else []
            arrived[stream] += ingested.rows
            if ingested.latest is not None:
                latest[stream] = max(ingested.latest, latest.get(stream, ingested.latest))
        out = self.advance(elements, advanced(self.watermarks, latest, self.job.delays, idle), arrived, began)
        out.dead[:0] = dead
        return out, sum(arrived.values())

    def advance(
        self,
        elements: Iterable[tuple[str, Batch]],
        watermarks: dict[str, int],
        arrived: Mapping[str, int] | None = None,
        began: float | None = None,
    ) -> Outbox:
        """Take in new elements of streams, and the watermarks that hold after them.

        `arrived` are the rows that they were made of; where nothing else is said, as many. `began` is when the
        step did.
        """
        began = perf_counter() if began is None else began
        boxes, rows = _Boxes(self.job), Counter[str]()
        for stream, batch in elements:
            boxes.accept(read(self.job.graph, stream, batch, self.job.buckets))
            rows[stream] += len(batch)
        self.watermarks = watermarks
        self.arrived = summed(self.arrived, rows if arrived is None else arrived)
        self._levels(boxes, watermarks, keep=True)
        self.orders = decided(self.job.graph, self.orders, boxes.reports, perf_counter() - began)
        self.step_number += 1
        return boxes.out

    def _forget(self, again: Collection[str]) -> None:
        for (number, bucket), version in self.state.items() if again else ():
            stage = self.job.graph.stages[number]
            chunks = forget(self.job.graph, stage, version.chunks, again, self.job.tables)
            self.state[number, bucket] = replace(version, chunks=chunks)

    def finish(self) -> Outbox:
        """All that is still held back, as if the streams had ended; the state stays as it was."""
        boxes = _Boxes(self.job)
        self._levels(boxes, dict.fromkeys(self.watermarks, FOREVER), keep=False)
        return boxes.out

    def _levels(self, boxes: _Boxes, watermarks: Mapping[str, int], *, keep: bool) -> None:
        boxes.mark(source_marks(self.job.graph, watermarks))
        boxes.steer(self.orders, self.arrived)
        for level in range(1, self.job.graph.levels):
            for stage in self.job.graph.at(level):
                for bucket in range(self.job.buckets):
                    if runs_in(stage, bucket):
                        self._run(stage, bucket, boxes, keep=keep)

    def _run(self, stage: Stage, bucket: int, boxes: _Boxes, *, keep: bool) -> None:
        outbox = Outbox()
        before = self.state.get((stage.number, bucket), Version())
        chunks = run(stage, before.chunks, boxes.inboxes[bucket], outbox, self.job.buckets)
        if keep:
            self.state[stage.number, bucket] = (
                self.store.save(stage.number, bucket, self.step_number, chunks, before)
                if self.store
                else Version(None, chunks)
            )
        boxes.accept(outbox)

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
    """The inboxes of all buckets in one step, and what leaves the job."""

    def __init__(self, job: Job) -> None:
        self.inboxes = [Inbox(bucket) for bucket in range(job.buckets)]
        self.out = Outbox()
        self.reports: list[dict[str, Facts]] = []
        """What steered operators saw: of each stage in the order of its buckets."""

    def steer(self, orders: Mapping[str, Facts], arrived: Mapping[str, int]) -> None:
        for inbox in self.inboxes:
            inbox.orders, inbox.arrived = orders, arrived

    def accept(self, outbox: Outbox) -> None:
        for parcel in outbox.parcels:
            self.put(parcel)
        self.mark(outbox.marks)
        self.out.results.extend(outbox.results)
        self.out.dead.extend(outbox.dead)
        self.reports.append(outbox.reports)

    def put(self, parcel: Parcel) -> None:
        self.inboxes[parcel.bucket].put(parcel)

    def mark(self, marks: list[Mark]) -> None:
        for mark in marks:
            for inbox in self.inboxes:
                inbox.mark(mark)

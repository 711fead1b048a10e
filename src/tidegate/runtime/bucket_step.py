"""The work of one bucket in one step, the same in every runtime.

Stages send each other *parcels* (elements for one bucket of a stage's port) and *marks* (the
watermark of one sender). This module creates and consumes them; a runtime moves them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np
import pyarrow as pa

from tidegate.physical.common.batch import Batch, concat
from tidegate.physical.common.control import Report
from tidegate.physical.common.kernels.hashing import bucket_of, hash_columns
from tidegate.physical.common.operator import NO_STATE, Chunks, MovesTime, adjust_operator
from tidegate.physical.common.sizes import NO_SIZES, SizeHistories
from tidegate.runtime.control import NO_DIRECTIVES, Directives, directives_for_stage, reports_of
from tidegate.runtime.figures import NO_BUCKET, FiguresByPlace, OperatorPlace, add_figures
from tidegate.runtime.placement import Placement
from tidegate.runtime.stage import Address, Stage, StageStep, StepContext, ToQuery
from tidegate.runtime.stage_graph import StageGraph
from tidegate.time import BEGINNING


@dataclass(frozen=True, slots=True, eq=False)
class Parcel:
    """Elements for one bucket of a port."""

    to: Address
    bucket: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class PortWatermark:
    """Watermark of one sender of a port; it goes to all buckets."""

    to: Address
    watermark: int


@dataclass(slots=True)
class Inbox:
    """Input of the stages of one bucket."""

    bucket: int = 0
    batches: dict[Address, list[Batch]] = field(default_factory=dict)
    watermarks: dict[Address, int] = field(default_factory=dict)
    directives: Directives = field(default_factory=lambda: NO_DIRECTIVES)
    arrived: Mapping[str, int] = field(default_factory=Counter)
    """Number of raw rows of each source stream so far, including this step."""
    sizes: SizeHistories = field(default_factory=lambda: NO_SIZES)
    """Histories of the sizes of windows and granularities."""

    def copy(self) -> Inbox:
        """Return an inbox that can be filled without changing this one."""
        batches = {address: list(some) for address, some in self.batches.items()}
        return replace(self, batches=batches, watermarks=dict(self.watermarks))

    def count_rows(self, stage: int) -> int:
        """Return the number of elements for a stage."""
        return sum(len(batch) for (number, _), some in self.batches.items() if number == stage for batch in some)

    def add_parcel(self, parcel: Parcel) -> None:
        self.batches.setdefault(parcel.to, []).append(parcel.batch)

    def add_mark(self, mark: PortWatermark) -> None:
        """Add a sender's watermark; with several senders of one port, the lowest counts."""
        self.watermarks[mark.to] = min(mark.watermark, self.watermarks.get(mark.to, mark.watermark))


@dataclass(slots=True)
class Outbox:
    """Output of one bucket in one step."""

    parcels: list[Parcel] = field(default_factory=list)
    marks: list[PortWatermark] = field(default_factory=list)
    results: list[tuple[str, Batch]] = field(default_factory=list)
    dead: list[pa.RecordBatch] = field(default_factory=list)
    reports: list[dict[str, Report]] = field(default_factory=list)
    """Reports of steered operators by ``stage/operator``: one dict per stage and bucket, in the order they ran."""
    figures: FiguresByPlace = field(default_factory=dict)
    pairs: int = 0
    """The largest number of pairs that one operator made."""
    reaches: list[tuple[str, int]] = field(default_factory=list)
    """The largest end of an element that a stage or a query gave, for each of its outputs."""

    def send(self, stage: Stage, step: StageStep, placement: Placement, bucket: int = NO_BUCKET) -> None:
        """Add the output of a stage: results, parcels and marks for the stages that its outlets feed, and dead letters.

        A stage that reads a stream has no bucket, and sends no marks: `source_marks` sends them, with or without rows.
        """
        for outlet, (output, mark) in zip(stage.outlets, step.outputs, strict=True):
            target = outlet.target
            if not isinstance(target, ToQuery):
                to, parts = (target.stage, target.port), split_by_bucket(output, target.keys, placement.buckets)
                self.parcels += [Parcel(to, number, part) for number, part in parts]
                if bucket != NO_BUCKET:
                    self.marks.append(PortWatermark(to, mark))
            elif len(output):
                self.results.append((target.query, output))
                self.reaches.append((f"query {target.query}", int(output.end.max())))
        self.dead += step.dead
        if step.reach > BEGINNING:
            self.reaches.append((f"stage {stage.number}", step.reach))
        place = partial(OperatorPlace, stage.number, bucket=bucket)
        add_figures(self.figures, {place(number): each for number, each in step.figures.items()})
        self.pairs = max(self.pairs, step.pairs)


def reach_of_stage(number: int) -> str:
    """Return the key of a stage among reaches."""
    return f"stage {number}"


def reach_of_query(query: str) -> str:
    """Return the key of a query among reaches."""
    return f"query {query}"


def merge_reaches(known: Mapping[str, int], more: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the largest reach of each giver."""
    merged = dict(known)
    for giver, end in more:
        merged[giver] = max(end, merged.get(giver, end))
    return merged


def run_readers(
    graph: StageGraph,
    stream: str,
    batch: Batch,
    buckets: int,
    only: Collection[int] | None = None,
    *,
    sizes: SizeHistories = NO_SIZES,
) -> Outbox:
    """Run the stages that read a source stream over its new elements; `only` selects some of them by number."""
    outbox, placement = Outbox(), Placement(buckets=buckets)
    context = StepContext(placement, sizes=sizes)
    for stage in graph.readers[stream]:
        if only is not None and stage.number not in only:
            continue
        step = stage.step(NO_STATE, [batch.select(stage.port_schemas[0].names)], [0], context)
        outbox.send(stage, step, placement)
    return outbox


def run_stage(stage: Stage, state: Chunks, inbox: Inbox, outbox: Outbox, placement: Placement) -> Chunks:
    """Run a stage in one bucket over its inbox, add its output to the outbox, and return its new state."""
    inputs, watermarks = [], []
    for port, schema in stage.port_schemas.items():
        address = (stage.number, port)
        inputs.append(concat([Batch.empty(schema), *inbox.batches.get(address, [])]))
        watermarks.append(inbox.watermarks[address])
    directives = directives_for_stage(stage, inbox.directives) if inbox.directives else {}
    step = stage.step(state, inputs, watermarks, StepContext(placement, directives, inbox.arrived, inbox.sizes))
    outbox.send(stage, step, placement, inbox.bucket)
    outbox.reports += [reports_of(stage, step)] if step.reports else []
    return step.state


def runs_in(stage: Stage, bucket: int) -> bool:
    """Return whether the stage runs in a bucket."""
    return bucket == 0 or not stage.is_single


def source_marks(
    graph: StageGraph, watermarks: Mapping[str, int], sizes: SizeHistories = NO_SIZES
) -> list[PortWatermark]:
    """Return the marks that stages which read source streams send, given the streams' watermarks."""
    marks: list[PortWatermark] = []
    for stream, stage in graph.stream_readers:
        mark = watermarks[stream]
        for operator in stage.time_movers:
            mover = adjust_operator(operator, sizes) if sizes else operator
            mark = cast("MovesTime", mover).watermark_after(mark)
        marks += [PortWatermark(address, mark) for address in stage.addresses]
    return marks


def split_by_bucket(batch: Batch, keys: tuple[str, ...] | None, buckets: int) -> Iterator[tuple[int, Batch]]:
    """Split a batch by bucket. Without keys, bucket 0 gets all of it; if `keys` is None, every bucket does."""
    if not len(batch):
        return
    if keys is None:
        yield from ((bucket, batch) for bucket in range(buckets))
        return
    if not keys or buckets == 1:
        yield 0, batch
        return
    bucket = bucket_of(hash_columns([batch.column(k) for k in keys]), buckets)
    # NumPy sorts small integers by their digits, many times as fast as others.
    sorted_rows = batch.take(np.argsort(bucket.astype(np.min_scalar_type(buckets - 1)), kind="stable"))
    ends = np.cumsum(np.bincount(bucket, minlength=buckets))
    for number, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        if end > begin:
            part = slice(begin, end)
            columns = sorted_rows.columns.slice(begin, end - begin)
            yield number, Batch(sorted_rows.start[part], sorted_rows.end[part], columns)

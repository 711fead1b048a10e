"""Functions that run in Spark's Python workers: they read ranges and run stages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import pyarrow as pa

from tidegate.connectors.ranges import SourceRange
from tidegate.physical.common.batch import Batch
from tidegate.runtime.bucket_step import Inbox, Parcel, PortWatermark, source_marks
from tidegate.runtime.control import decode_directives
from tidegate.runtime.pieces import Part, out_of_memory_error
from tidegate.runtime.spark.directives import (
    Setup,
    ShippedSetup,
    StepDirective,
    StepStart,
    arrivals_after,
    watermarks_after,
)
from tidegate.runtime.spark.rows import PayloadKind, Row
from tidegate.runtime.spark.task_output import TaskOutput
from tidegate.runtime.threads import FEWEST_ROWS, map_in_threads

KeyedRow = tuple[int, Row]
"""A row and its bucket, as a shuffle needs it."""


T = TypeVar("T")


def convert_memory_errors(function: Callable[[], Iterable[T]]) -> Iterator[T]:
    """Convert a MemoryError to a Tidegate error, whose message the driver shows."""
    try:
        yield from function()
    except MemoryError as error:
        raise out_of_memory_error() from error


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Read ranges, and run the stages that read source streams. Partition n reads ``ranges[n]``."""

    shipped: ShippedSetup
    directive: StepDirective
    ranges: Sequence[Sequence[tuple[str, SourceRange]]]

    def __call__(self, partition: int, _: Iterable[object]) -> Iterator[KeyedRow]:
        return convert_memory_errors(lambda: self._run(partition))

    def _run(self, partition: int) -> Iterator[KeyedRow]:
        setup = self.shipped.setup
        task = TaskOutput(setup, self.directive, f"read_{partition:05d}")
        task.read_ranges(self.ranges[partition])
        yield from ((row.bucket, row) for row in task.outgoing_rows(range(setup.buckets)))


@dataclass(frozen=True, slots=True)
class LevelTask:
    """Run the stages of some levels in the bucket of a partition, over the rows that were sent to it.

    Several levels can run together only if there is a single bucket.
    """

    shipped: ShippedSetup
    directive: StepDirective
    start: StepStart
    levels: range

    def __call__(self, bucket: int, rows: Iterable[KeyedRow]) -> Iterator[KeyedRow]:
        return convert_memory_errors(lambda: self._run(bucket, (row for _, row in rows)))

    def _run(self, bucket: int, rows: Iterable[Row]) -> Iterator[KeyedRow]:
        setup = self.shipped.setup
        task = TaskOutput(setup, self.directive, f"level_{self.levels[0]}_{bucket:05d}")
        inbox, forwarded = _fill_inbox(setup, task, bucket, rows, self.levels)
        run_levels(task, [inbox], self.start, self.levels)
        yield from ((row.bucket, row) for row in (*forwarded, *task.outgoing_rows([bucket])))


class WholeStep(NamedTuple):
    """A whole step for one task."""

    directive: StepDirective
    start: StepStart
    shares: Sequence[Sequence[tuple[str, SourceRange]]]
    """The ranges to read; each share is read in a thread."""
    more: Sequence[Row] = ()
    """Rows that the driver made, from tables."""


@dataclass(frozen=True, slots=True)
class WholeTask:
    """Run a whole step in one task: read all ranges, and run all levels of all buckets."""

    shipped: ShippedSetup
    step: WholeStep

    def __call__(self, _: int, __: Iterable[object]) -> Iterator[KeyedRow]:
        return convert_memory_errors(self._run)

    def _run(self) -> Iterator[KeyedRow]:
        setup = self.shipped.setup
        task, levels = TaskOutput(setup, self.step.directive, "whole"), range(1, setup.graph.levels)
        filled = [_fill_inbox(setup, task, b, self._more_for_bucket(b), levels) for b in range(setup.buckets)]
        # The driver makes several shares only if there are many rows.
        for read in map_in_threads(self._read_share, self.step.shares, rows=FEWEST_ROWS):
            task.add(read)
        inboxes = [inbox for inbox, _ in filled]
        for parcel in task.outbox.parcels:
            inboxes[parcel.bucket].add_parcel(parcel)
        task.outbox.parcels = []
        run_levels(task, inboxes, self.step.start, levels)
        forwarded = (row for _, rows in filled for row in rows)
        yield from ((row.bucket, row) for row in (*forwarded, *task.outgoing_rows([0])))

    def _read_share(self, share: Sequence[tuple[str, SourceRange]]) -> TaskOutput:
        read = TaskOutput(self.shipped.setup, self.step.directive, "read")
        read.read_ranges(share)
        return read

    def _more_for_bucket(self, bucket: int) -> list[Row]:
        """Return the rows of the driver for a bucket; times and counts, which go to every bucket, are noted once."""
        rows = (row for row in self.step.more if row.bucket == bucket)
        return [row for row in rows if bucket == 0 or row.kind not in (PayloadKind.LATEST, PayloadKind.ARRIVED)]


def _fill_inbox(
    setup: Setup, task: TaskOutput, bucket: int, rows: Iterable[Row], levels: range
) -> tuple[Inbox, list[Row]]:
    """Put rows for the stages of some levels into an inbox; return it with the rows for others."""
    inbox, forwarded = Inbox(bucket), []
    numbers = {stage.number for level in levels for stage in setup.graph.stages_at(level)}
    for row in rows:
        if row.kind == PayloadKind.LATEST:
            task.note_time(setup.streams[row.number], row.payload)
        elif row.kind == PayloadKind.ARRIVED:
            task.arrived[setup.streams[row.number]] += row.payload
        elif row.kind == PayloadKind.ELEMENTS and row.number in numbers:
            inbox.add_parcel(Parcel((row.number, row.port), bucket, Batch.from_arrow(row.batch)))
        elif row.kind == PayloadKind.MARK and row.number in numbers:
            inbox.add_mark(PortWatermark((row.number, row.port), row.payload))
        else:
            forwarded.append(row)
    return inbox, forwarded


def run_levels(task: TaskOutput, inboxes: Sequence[Inbox], start: StepStart, levels: range) -> None:
    """Run the stages of some levels over the inboxes of some buckets, which have all that the task has received."""
    setup, directive = task.setup, task.directive
    marks = source_marks(setup.graph, watermarks_after(setup, directive, task.latest), directive.sizes)
    directives, arrived = (
        decode_directives(setup.graph, start.directives),
        arrivals_after(setup, directive, task.arrived),
    )
    for inbox in inboxes:
        for mark in marks:
            inbox.add_mark(mark)
        inbox.directives, inbox.arrived, inbox.sizes = directives, arrived, directive.sizes
    for stages in setup.graph.parts(levels):
        task.run(Part.of(stages, setup.buckets, setup.most_pairs), inboxes, start.files)


def read_table(
    setup: Setup,
    directive: StepDirective,
    stream: str,
    batches: Iterable[pa.RecordBatch],
    only: Collection[int] | None = None,
) -> list[Row]:
    """Run the stages that read a table, or only some of them, and return their output as rows; runs in the driver."""
    task = TaskOutput(setup, directive, f"table_{setup.streams.index(stream):05d}")
    for batch in batches:
        task.read_rows(stream, batch, only)
    return list(task.outgoing_rows(range(setup.buckets)))

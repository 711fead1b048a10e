"""Functions that run in Spark's Python workers: they read ranges and run stages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

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
        run_levels(task, inbox, self.start, self.levels)
        yield from ((row.bucket, row) for row in (*forwarded, *task.outgoing_rows([bucket])))


@dataclass(frozen=True, slots=True)
class WholeTask:
    """Run a whole step in one task: read all ranges and run all levels. It needs a single bucket."""

    shipped: ShippedSetup
    directive: StepDirective
    start: StepStart
    ranges: Sequence[tuple[str, SourceRange]]
    more: Sequence[Row] = ()
    """Rows that the driver made, from tables."""

    def __call__(self, _: int, __: Iterable[object]) -> Iterator[KeyedRow]:
        return convert_memory_errors(self._run)

    def _run(self) -> Iterator[KeyedRow]:
        setup = self.shipped.setup
        task, levels = TaskOutput(setup, self.directive, "whole"), range(1, setup.graph.levels)
        inbox, forwarded = _fill_inbox(setup, task, 0, self.more, levels)
        task.read_ranges(self.ranges)
        for parcel in task.outbox.parcels:
            inbox.add_parcel(parcel)
        task.outbox.parcels = []
        run_levels(task, inbox, self.start, levels)
        yield from ((row.bucket, row) for row in (*forwarded, *task.outgoing_rows([0])))


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


def run_levels(task: TaskOutput, inbox: Inbox, start: StepStart, levels: range) -> None:
    """Run the stages of some levels over an inbox that has everything the task has read or received."""
    setup, directive = task.setup, task.directive
    for mark in source_marks(setup.graph, watermarks_after(setup, directive, task.latest)):
        inbox.add_mark(mark)
    inbox.directives = decode_directives(setup.graph, start.directives)
    inbox.arrived = arrivals_after(setup, directive, task.arrived)
    for stages in setup.graph.parts(levels):
        task.run(Part.of(stages, setup.buckets, setup.most_pairs), inbox, start.files)


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

"""Read a stream in this process, range by range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from tidegate.connectors.ranges import Source, SourcePosition, SourceRange
from tidegate.connectors.source import RangeReader, step_limits


class StepInput(NamedTuple):
    """Raw batches that a step reads from a stream, and the ranges that hold them."""

    batches: list[pa.RecordBatch]
    ranges: tuple[SourceRange, ...]


class StreamInput:
    """Input of one stream. A step may end in the middle of a range, whose file then stays open."""

    def __init__(self, source: Source, position: SourcePosition, columns: frozenset[str]) -> None:
        self.source, self.position, self.columns = source, position, columns
        self.limits = step_limits(source)
        self._waiting: list[SourceRange] = []
        self._reader: RangeReader | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())

    @property
    def reading(self) -> str | None:
        """Name of the part that is being read, if any."""
        return None if self._reader is None else self._reader.range.part

    def read_next(self, rows: int, *, growing: bool) -> StepInput:
        """Read about `rows` rows: at most half as many more, and at least half, unless fewer are available."""
        batches: list[pa.RecordBatch] = []
        ranges: list[SourceRange] = []
        left = rows = min(rows, self.limits.rows or rows)
        while 2 * left >= rows and len(ranges) != self.limits.ranges:
            reader = self._open_next(rows, growing=growing)
            if reader is None:
                break
            before = reader.end.reached
            while 2 * left >= rows and (batch := next(self._batches, None)) is not None:
                batches.append(batch)
                left -= batch.num_rows
            self.position = self.position.after([reader.end])
            if reader.end.reached != before or reader.end.is_bad:
                ranges.append(replace(reader.end.read, begin=before))
            if reader.end.is_exhausted or reader.end.is_bad:
                self._reader = None
        return StepInput(batches, tuple(ranges))

    def read_again(self, ranges: Sequence[SourceRange], rows: int) -> StepInput:
        """Read the ranges of an interrupted step again; raise an error if they can no longer be read."""
        batches: list[pa.RecordBatch] = []
        for each in ranges:
            reader = RangeReader(self.source, each, rows, self.columns, repeated=True)
            batches += reader
            self.position = self.position.after([reader.end])
        return StepInput(batches, tuple(ranges))

    def forget_listing(self) -> None:
        """Stop reading, and list the source again before the next step."""
        self._waiting, self._reader, self._batches = [], None, iter(())

    def _open_next(self, rows: int, *, growing: bool) -> RangeReader | None:
        """Return the reader of the current range, or of the next one; None if everything was read."""
        if self._reader is None:
            self._waiting = self._waiting or self.source.find_ranges(self.position, growing=growing)
            if not self._waiting:
                return None
            self._reader = RangeReader(self.source, self._waiting.pop(0), rows, self.columns)
            self._batches = iter(self._reader)
        return self._reader

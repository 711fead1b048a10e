"""Results of keyed joins with windows of rows, reported in pieces while the end of a row is open.

An open row is valid at least up to the watermark of its input. While any of its rows is open, a result is reported up
to that watermark, and continues from there in the next step. The end of a row becomes known in the step in which the
watermark passes it, before any result is reported beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch, concat_columns
from tidegate.physical.keyed_join.count_windows import CLOSED, CountWindowProgress
from tidegate.schema import Schema
from tidegate.time import FOREVER

_START, _END = "start", "end"


@dataclass(frozen=True, slots=True, eq=False)
class OpenResults:
    """Combinations with the start of the part not yet reported, their ends as far as known, and their rows.

    `rows` are the numbers of rows in windows of rows, by input.
    """

    elements: Batch
    rows: Mapping[int, Ints]

    def __len__(self) -> int:
        return len(self.elements)

    @staticmethod
    def empty(schema: Schema, counted: Sequence[int]) -> OpenResults:
        return OpenResults(Batch.empty(schema), {stream: np.empty(0, np.int64) for stream in counted})

    def with_more(self, more: OpenResults) -> OpenResults:
        if not len(self) or not len(more):
            return more if len(more) else self
        one, other = self.elements, more.elements
        start, end = np.append(one.start, other.start), np.append(one.end, other.end)
        elements = Batch(start, end, concat_columns([one.columns, other.columns]))
        return OpenResults(elements, {s: np.append(rows, more.rows[s]) for s, rows in self.rows.items()})

    def split_reportable(self, windows: Mapping[int, CountWindowProgress]) -> tuple[Batch, OpenResults]:
        """Return what can be reported now, and what continues or may start later."""
        if not len(self):
            return self.elements, self
        start, end = self.elements.start, np.minimum(self.elements.end, FOREVER)
        until, rows = np.full(len(self), FOREVER), {}
        for stream, window in windows.items():
            ends, is_open = window.ends_of(self.rows[stream])
            end = np.minimum(end, ends)
            until = np.where(is_open, np.minimum(until, window.watermark), until)
            rows[stream] = np.where(is_open, self.rows[stream], CLOSED)
        now = np.minimum(end, until)
        output = Batch(start, now, self.elements.columns).filter(start < now)
        rest = np.maximum(start, until)
        left = np.flatnonzero(rest < end)
        after = OpenResults(Batch(rest, end, self.elements.columns), rows)
        return output, self if self._is_same_as(after) and len(left) == len(self) else after._take_rows(left)

    def _is_same_as(self, other: OpenResults) -> bool:
        """Return whether nothing has changed."""
        one, two = self.elements, other.elements
        pairs = [(one.start, two.start), (one.end, two.end), *((rows, other.rows[s]) for s, rows in self.rows.items())]
        return all(np.array_equal(*pair) for pair in pairs)

    def _take_rows(self, some: Ints) -> OpenResults:
        return OpenResults(self.elements.take(some), {stream: rows[some] for stream, rows in self.rows.items()})

    def chunk(self) -> pa.RecordBatch:
        own = [self.elements.start, self.elements.end, *self.rows.values()]
        names = [_START, _END, *(f"row{stream}" for stream in self.rows), *self.elements.columns.schema.names]
        return pa.RecordBatch.from_arrays([*map(pa.array, own), *self.elements.columns.columns], names)

    @staticmethod
    def load(chunk: pa.RecordBatch, schema: Schema, counted: Sequence[int]) -> OpenResults:
        start, end, *rest = chunk.columns
        columns = pa.RecordBatch.from_arrays(rest[len(counted) :], schema=schema.arrow)
        rows = {stream: rest[at].to_numpy() for at, stream in enumerate(counted)}
        return OpenResults(Batch(start.to_numpy(), end.to_numpy(), columns), rows)

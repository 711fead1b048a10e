"""Elements in columns: validities as NumPy arrays, the payload as one Arrow record batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.physical.common.arrays import Ints
from tidegate.schema import Schema

Times = Ints

VALID_FROM, VALID_TO = "valid_from", "valid_to"

CHANGE = "changelog:op"
"""First column of a changelog. No column of a query has this name."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Elements of one stream, in no particular order, each valid in [start, end)."""

    start: Times
    end: Times
    columns: pa.RecordBatch
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)
    """What readers of the batch computed of its columns and share; it can always be computed again."""

    def __len__(self) -> int:
        return len(self.start)

    @staticmethod
    @lru_cache(maxsize=1024)
    def empty(schema: Schema) -> Batch:
        none = np.empty(0, np.int64)
        return Batch(none, none, pa.RecordBatch.from_pylist([], schema=schema.arrow))

    def column(self, name: str) -> pa.Array:
        return self.columns.column(name)

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Batch:
        return Batch(self.start[rows], self.end[rows], take(self.columns, rows))

    def take_ascending(self, rows: Ints) -> Batch:
        """Return rows by position, in ascending order; consecutive rows are not copied."""
        if not len(rows) or rows[-1] - rows[0] + 1 != len(rows):
            return self.take(rows)
        here = slice(int(rows[0]), int(rows[-1]) + 1)
        return Batch(self.start[here], self.end[here], self.columns.slice(here.start, len(rows)))

    def filter(self, mask: npt.NDArray[np.bool_]) -> Batch:
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def select(self, names: Sequence[str]) -> Batch:
        """Return the batch with some of its columns."""
        return Batch(self.start, self.end, self.columns.select(names), self.memo)

    def with_columns(self, columns: pa.RecordBatch) -> Batch:
        return Batch(self.start, self.end, columns)

    def to_arrow(self) -> pa.RecordBatch:
        """Return one record batch: valid_from, valid_to, then the payload."""
        names = [VALID_FROM, VALID_TO, *self.columns.schema.names]
        return pa.RecordBatch.from_arrays([pa.array(self.start), pa.array(self.end), *self.columns.columns], names)

    @staticmethod
    def from_arrow(rows: pa.RecordBatch) -> Batch:
        """Return the batch that `to_arrow` turned into these rows."""
        payload = pa.RecordBatch.from_arrays(rows.columns[2:], schema=pa.schema(list(rows.schema)[2:]))
        return Batch(rows.column(0).to_numpy(), rows.column(1).to_numpy(), payload)


def take(columns: pa.RecordBatch, rows: npt.NDArray[np.integer[Any]]) -> pa.RecordBatch:
    """Return rows of a record batch by position; the batch may have no columns."""
    return columns.take(pa.array(rows)) if columns.num_columns else columns


def concat(batches: Sequence[Batch]) -> Batch:
    """Concatenate the elements of one or more batches of one schema."""
    full = [b for b in batches if len(b)] or [batches[0]]
    if len(full) == 1:
        return full[0]
    return Batch(
        np.concatenate([b.start for b in full]),
        np.concatenate([b.end for b in full]),
        concat_columns([b.columns for b in full]),
    )


def concat_columns(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate the rows of record batches of one schema."""
    if len(parts) == 1:
        return parts[0]
    arrays = [pa.concat_arrays([p.column(i) for p in parts]) for i in range(parts[0].num_columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=parts[0].schema)

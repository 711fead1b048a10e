"""Columns of kept elements, found by row number, in segments that never change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.errors import InternalError
from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.batch import concat_columns, take

ROW = "row"
_MOST_SEGMENTS = 12
"""Number of segments above which the smaller ones are merged."""


class Segment(NamedTuple):
    """Elements in the order of their row numbers."""

    ids: Ints
    columns: pa.RecordBatch

    @staticmethod
    def of(rows: pa.RecordBatch) -> Segment:
        """Return the segment of a chunk, whose first column has the row numbers."""
        columns = pa.RecordBatch.from_arrays(rows.columns[1:], schema=pa.schema(list(rows.schema)[1:]))
        return Segment(rows.column(0).to_numpy(), columns)

    def chunk(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [pa.array(self.ids), *self.columns.columns], [ROW, *self.columns.schema.names]
        )


def gather(ids: Ints, segments: Iterable[Segment], schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of the elements with these row numbers, in this order; each must be in one of the segments."""
    if not len(ids):
        return pa.RecordBatch.from_pylist([], schema=schema)
    left, places, parts = np.arange(len(ids)), [], []
    least, greatest = int(ids.min()), int(ids.max())
    for segment in segments:
        if not len(left):
            break
        if not len(segment.ids) or segment.ids[-1] < least or segment.ids[0] > greatest:
            continue
        where = _positions(segment.ids, ids[left])
        found = where >= 0
        if found.all():
            places.append(left)
            parts.append(take(segment.columns, where))
            left = left[:0]
        elif found.any():
            places.append(left[found])
            parts.append(take(segment.columns, where[found]))
            left = left[~found]
    if len(left):
        raise InternalError("I341", f"the columns of {len(left)} kept elements are missing")
    together = concat_columns(parts)
    if len(parts) == 1:
        return together
    order = np.empty(len(ids), np.int64)
    order[np.concatenate(places)] = np.arange(len(ids))
    return take(together, order)


def _positions(ids: Ints, wanted: Ints) -> Ints:
    """Return the positions of the wanted row numbers among sorted ones, or -1."""
    if not len(ids):
        return np.full(len(wanted), -1)
    first, last = int(ids[0]), int(ids[-1])
    inside = (wanted >= first) & (wanted <= last)
    if last - first + 1 == len(ids):
        return np.where(inside, wanted - first, -1)
    where = np.full(len(wanted), -1)
    some = np.searchsorted(ids, wanted[inside])
    where[inside] = np.where(ids[some] == wanted[inside], some, -1)
    return where


@dataclass(slots=True, eq=False)
class HeldSegment:
    """Segment with its chunk, a mask of the elements that are still kept, and their number."""

    number: int
    segment: Segment
    chunk: pa.RecordBatch
    lives: Mask
    alive: int

    def remove(self, ids: Ints) -> None:
        if ids[0] <= self.segment.ids[-1] and ids[-1] >= self.segment.ids[0]:
            where = _positions(self.segment.ids, ids)
            where = where[where >= 0]
            self.alive -= int(np.count_nonzero(self.lives[where]))
            self.lives[where] = False


@dataclass(slots=True, eq=False)
class RowStore:
    """Columns of the kept elements of one input."""

    schema: pa.Schema
    held: list[HeldSegment] = field(default_factory=list)
    segments_made: int = 0

    @property
    def segments(self) -> list[Segment]:
        return [each.segment for each in reversed(self.held)]

    def add(self, ids: Ints, columns: pa.RecordBatch) -> None:
        """Keep elements, given in the order of their row numbers."""
        if len(ids):
            segment = Segment(ids, columns)
            lives = np.ones(len(ids), np.bool_)
            self.held = [*self.held, HeldSegment(self.segments_made, segment, segment.chunk(), lives, len(ids))]
            self.segments_made += 1

    def remove(self, ids: Ints) -> None:
        """Remove elements; rewrite segments that are mostly dead, and merge the smaller ones if there are too many."""
        if len(ids):
            ids = np.sort(ids)
            for each in self.held:
                each.remove(ids)
            self.held = [each for each in self.held if each.alive]
        some = [each for each in self.held if 2 * each.alive < len(each.lives)]
        if len(self.held) - len(some) > _MOST_SEGMENTS:
            rest = sorted((each for each in self.held if each not in some), key=lambda each: each.alive)
            some += rest[: len(rest) // 2 + 1]
        if some:
            together = np.sort(np.concatenate([each.segment.ids[each.lives] for each in some]))
            columns = gather(together, [each.segment for each in reversed(some)], self.schema)
            self.held = [each for each in self.held if each not in some]
            self.add(together, columns)

    def chunks(self, name: str) -> dict[str, pa.RecordBatch]:
        return {f"{name}.{each.number}": each.chunk for each in self.held}

    @staticmethod
    def load(name: str, schema: pa.Schema, chunks: Mapping[str, pa.RecordBatch], numbered: int, kept: Ints) -> RowStore:
        store = RowStore(schema, segments_made=numbered)
        own = sorted((int(n.removeprefix(f"{name}.")), c) for n, c in chunks.items() if n.startswith(f"{name}."))
        for number, chunk in own:
            segment = Segment.of(chunk)
            lives = _positions(kept, segment.ids) >= 0
            store.held.append(HeldSegment(number, segment, chunk, lives, int(np.count_nonzero(lives))))
        return store

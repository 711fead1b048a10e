"""The columns of kept elements, by row, in segments that never change."""

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
_MOST = 12
"""So many segments there may be before the smaller ones become one."""


class Segment(NamedTuple):
    """Elements in the order of their rows."""

    ids: Ints
    columns: pa.RecordBatch

    @staticmethod
    def of(rows: pa.RecordBatch) -> Segment:
        """A segment from a chunk, whose first column has the rows."""
        columns = pa.RecordBatch.from_arrays(rows.columns[1:], schema=pa.schema(list(rows.schema)[1:]))
        return Segment(rows.column(0).to_numpy(), columns)

    def chunk(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [pa.array(self.ids), *self.columns.columns], [ROW, *self.columns.schema.names]
        )


def gather(ids: Ints, segments: Iterable[Segment], schema: pa.Schema) -> pa.RecordBatch:
    """The columns of elements, in the order of these rows; each is in one of the segments."""
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
    """Where wanted rows are among sorted ones, or -1."""
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
class Held:
    """A segment as a chunk, which of its elements are still kept, and how many."""

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
    """The columns of the elements of one input that are kept."""

    schema: pa.Schema
    held: list[Held] = field(default_factory=list)
    numbered: int = 0

    @property
    def segments(self) -> list[Segment]:
        return [each.segment for each in reversed(self.held)]

    def add(self, ids: Ints, columns: pa.RecordBatch) -> None:
        """Keep elements, in the order of their rows."""
        if len(ids):
            segment = Segment(ids, columns)
            lives = np.ones(len(ids), np.bool_)
            self.held = [*self.held, Held(self.numbered, segment, segment.chunk(), lives, len(ids))]
            self.numbered += 1

    def remove(self, ids: Ints) -> None:
        """Let elements go that are not kept any more, and write anew what is mostly dead, or in too many pieces."""
        if len(ids):
            ids = np.sort(ids)
            for each in self.held:
                each.remove(ids)
            self.held = [each for each in self.held if each.alive]
        some = [each for each in self.held if 2 * each.alive < len(each.lives)]
        if len(self.held) - len(some) > _MOST:
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
        store = RowStore(schema, numbered=numbered)
        own = sorted((int(n.removeprefix(f"{name}.")), c) for n, c in chunks.items() if n.startswith(f"{name}."))
        for number, chunk in own:
            segment = Segment.of(chunk)
            lives = _positions(kept, segment.ids) >= 0
            store.held.append(Held(number, segment, chunk, lives, int(np.count_nonzero(lives))))
        return store

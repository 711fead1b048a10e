"""Piece of the batch method in one dimension: running totals of the cells between the ends of its ranges.

The total of a subscription is the difference of two sums of cells. Similar subscriptions lie in one block. The weight
that falls in the cover of a block bounds the weight that falls in any of its ranges. So a subscription that lacks r is
not checked before the weight in the cover has grown by r. With keys, cells are in the order of key, then of place, and
a range lies within the cells of its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.kernels.journal import Journal
from tidegate.physical.subscriptions.kernels import batch_counting, batch_keys
from tidegate.physical.subscriptions.kernels.batch_counting import GROUP, Cells, Dues, Queries
from tidegate.physical.subscriptions.kernels.batch_keys import Keys
from tidegate.physical.subscriptions.kernels.batch_model import GONE, Found, Settings, nothing
from tidegate.physical.subscriptions.kernels.batch_saved import LEFT, Saved, saved_from
from tidegate.physical.subscriptions.kernels.batch_search import levels_of
from tidegate.physical.subscriptions.kernels.cells import Boxes, Points, packed

_FEW = 32
"""Number of completed subscriptions up to which the batch is searched directly."""

_SAME = ("queries", "boundaries", "keys")


@dataclass(slots=True, eq=False)
class CellPiece:
    """Subscriptions, which never change, and their totals, targets and due weights, which do."""

    number: int
    queries: Queries
    keys: Keys | None
    cells: Cells
    dues: Dues
    block: int
    repeats: bool
    saved: Saved

    @property
    def ids(self) -> Ints:
        return self.queries.id

    @property
    def live(self) -> int:
        return int(self.dues.rest[0])

    @property
    def start(self) -> int | None:
        """Return the position from which the log is needed to restore the piece from what is saved, or None."""
        return self.saved.start if self.saved.totals is not None else None

    def copy(self) -> CellPiece:
        cells = Cells(self.cells.boundary, *(column.copy() for column in self.cells[1:]))
        dues = Dues(*(column.copy() for column in self.dues))
        return replace(self, cells=cells, dues=dues, saved=self.saved.copy())

    def absorb(self, points: Points, log: Journal) -> Found:
        cell = self._counted(points)
        if self.dues.rest[1] > 0:
            return nothing()
        row = batch_counting.look(self.queries, self.cells, self.dues, self.block)
        if len(row) == 0:
            return nothing()
        if self.repeats:
            return self._repeated(row, cell, points.weight)
        self.saved.leave(row)
        some = self.queries, self.cells, self.dues.target, row
        if len(row) <= _FEW:
            return Found(row, *batch_counting.one_by_one(*some, cell, points.weight))
        return Found(row, *batch_counting.all_at_once(*some, levels_of(cell, points.weight), points.weight))

    def _counted(self, points: Points) -> Ints:
        if self.keys is None:
            return batch_counting.counted(self.cells, points.place[0], points.weight, self.dues.rest)
        places = points.place[0], points.place[1]
        return batch_counting.counted_by_key(self.cells, self.keys, *places, points.weight, self.dues.rest)

    def _repeated(self, row: Ints, cell: Ints, weight: Ints) -> Found:
        piece = self.queries, self.cells, self.dues, self.block
        found = Found(*batch_counting.again_and_again(*piece, row, levels_of(cell, weight), weight))
        self.saved.note(row, self.dues.target[row])
        return found

    def settled(self, log: Journal) -> CellPiece:
        """Return the piece; let it save its totals again once the elements since then take half as much room."""
        columns = 2 if self.keys is None else 3
        if 2 * columns * (log.end - self.saved.start) > len(self.cells.weight):
            self.saved.totals = None
        return self

    def slim(self, number: int, log: Journal) -> CellPiece:
        """Return the piece without subscriptions that are gone, and without ends that only they had."""
        row = np.flatnonzero(self.dues.due != GONE)
        kept = self.queries.first[row] - 1, self.queries.last[row] - 1
        used = np.zeros(len(self.cells.boundary), np.bool_)
        used[kept[0]] = used[kept[1]] = True
        new, total = np.cumsum(used, dtype=np.int32), np.cumsum(self.cells.weight)
        count = np.diff(total[:-1][used], prepend=0, append=total[-1])
        queries = Queries(self.queries.id[row], new[kept[0]], new[kept[1]], self.queries.threshold[row])
        keys = self.keys and batch_keys.keys_kept(self.keys, used)
        place = _Place(number, keys, self.cells.boundary[used], self.block, self.repeats)
        return _filed(place, queries, self.dues.target[row], count)

    def forget(self, rows: Ints) -> None:
        """Terminate these rows, which must be live."""
        self.dues.due[rows] = GONE
        self.dues.rest[0] -= len(rows)
        self.saved.leave(rows)

    def alive(self, rows: Ints) -> Mask:
        return self.dues.due[rows] != GONE

    def boxes(self, log: Journal) -> Boxes:
        """Return the live subscriptions and what they lack."""
        batch_counting.summed(self.cells)
        row = np.flatnonzero(self.dues.due != GONE)
        first, last = self.queries.first[row], self.queries.last[row]
        missing = self.dues.target[row] - batch_counting.totals_of(self.cells, first, last)
        low, high = self.cells.boundary[first - 1], self.cells.boundary[last - 1]
        ends = low[None], high[None]
        if self.keys is not None:
            key = batch_keys.key_at(self.keys, first - 1)
            ends = np.stack([key, low]), np.stack([key + 1, high])
        return Boxes(self.queries.id[row], *ends, self.queries.threshold[row], missing)

    def to_columns(self, log: Journal) -> dict[str, Columns]:
        if self.saved.aims is None:
            self.saved.begin(self.dues.target, self.dues.due == GONE)
        if self.saved.totals is None:
            self.saved.totals, self.saved.start = {"weight": self.cells.weight.copy()}, log.end
        return self.saved.to_columns()


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Parameters of a piece that do not depend on its subscriptions' totals."""

    number: int
    keys: Keys | None
    boundary: Ints
    block: int
    repeats: bool


def piece_of(number: int, boxes: Boxes, settings: Settings, *, repeats: bool) -> CellPiece:
    keyed, low, high = len(boxes.low) == 2, boxes.low[-1], boxes.high[-1]
    if keyed:
        order = batch_keys.packed_by_key(boxes.low[0], np.stack([low, high]), settings.block)
        key = np.concatenate([boxes.low[0][order]] * 2)
        keys, boundary, rank = batch_keys.ranked(key, np.concatenate([low[order], high[order]]))
        first, last = np.split(rank, 2)
    else:
        order, keys = packed(np.stack([low, high]), settings.block), None
        boundary = np.unique(np.concatenate([low, high]))
        first, last = np.searchsorted(boundary, low[order]), np.searchsorted(boundary, high[order])
    cells = (first + 1).astype(np.int32), (last + 1).astype(np.int32)
    queries = Queries(boxes.id[order], *cells, boxes.threshold[order])
    place = _Place(number, keys, boundary, settings.block, repeats)
    return _filed(place, queries, boxes.missing[order], np.zeros(len(boundary) + 1, np.int64))


def piece_from(
    number: int, parts: Mapping[str, Columns], start: int, log: Journal, settings: Settings, *, repeats: bool
) -> CellPiece:
    saved, target = saved_from(parts, _SAME, start)
    columns = parts["queries"]
    queries = Queries(*(np.require(columns[name], requirements=["C", "W"]) for name in Queries._fields))
    boundary = np.require(parts["boundaries"]["boundary"], requirements=["C", "W"])
    keys = batch_keys.keys_from(parts["keys"], len(boundary)) if "keys" in parts else None
    place = _Place(number, keys, boundary, settings.block, repeats)
    piece = _unfiled(place, queries, target, np.array(parts["totals"]["weight"], np.int64), saved)
    *axes, weight = log.since(start)
    if len(weight):
        piece._counted(Points(np.stack(axes), np.require(weight, requirements=["C", "W"])))  # noqa: SLF001 - of its own
    batch_counting.look(piece.queries, piece.cells, piece.dues, piece.block)
    return piece


def _filed(place: _Place, queries: Queries, target: Ints, count: Ints) -> CellPiece:
    same: dict[str, Columns] = {"queries": queries._asdict(), "boundaries": {"boundary": place.boundary}}
    if place.keys is not None:
        same["keys"] = batch_keys.to_columns(place.keys)
    piece = _unfiled(place, queries, target, count, Saved(same, 0))
    batch_counting.look(piece.queries, piece.cells, piece.dues, piece.block)
    return piece


def _unfiled(place: _Place, queries: Queries, target: Ints, count: Ints, saved: Saved) -> CellPiece:
    """Return a piece whose subscriptions are all due; a target of LEFT marks one that is gone."""
    starts = np.arange(0, len(queries.id), place.block)
    groups = -(-(len(count) + 1) // GROUP)
    padded = np.zeros(groups * GROUP, np.int64)
    padded[: len(count)] = count
    cells = Cells(place.boundary, count, padded.reshape(groups, GROUP).sum(axis=1), np.zeros(groups + 1, np.int64))
    first = np.minimum.reduceat(queries.first, starts).astype(np.int64) // GROUP
    last = -(-np.maximum.reduceat(queries.last, starts).astype(np.int64) // GROUP)
    due = np.where(target == LEFT, GONE, 0)
    rest = np.array([np.count_nonzero(target != LEFT), 0], np.int64)
    dues = Dues(target, due, np.zeros(len(starts), np.int64), first, last, rest)
    return CellPiece(place.number, queries, place.keys, cells, dues, place.block, place.repeats, saved)

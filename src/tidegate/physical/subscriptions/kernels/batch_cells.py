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
from tidegate.physical.subscriptions.kernels.batch_counting import GROUP, CellWeights, DueWeights, SubscriptionCells
from tidegate.physical.subscriptions.kernels.batch_keys import Keys
from tidegate.physical.subscriptions.kernels.batch_model import GONE, BatchSettings, PieceCompletions, no_completions
from tidegate.physical.subscriptions.kernels.batch_saved import GONE_AIM, SavedParts, restore_saved_parts
from tidegate.physical.subscriptions.kernels.batch_search import levels_of
from tidegate.physical.subscriptions.kernels.boxes import Boxes, Points, order_for_blocks

_FEW = 32
"""Number of completed subscriptions up to which the batch is searched directly."""

_SAME = ("queries", "boundaries", "keys")


@dataclass(slots=True, eq=False)
class CellPiece:
    """Subscriptions, which never change, and their totals, targets and due weights, which do."""

    number: int
    subscriptions: SubscriptionCells
    keys: Keys | None
    cells: CellWeights
    dues: DueWeights
    block: int
    repeats: bool
    saved: SavedParts

    @property
    def ids(self) -> Ints:
        return self.subscriptions.id

    @property
    def live(self) -> int:
        return int(self.dues.live_and_slack[0])

    @property
    def start(self) -> int | None:
        """Return the position from which the log is needed to restore the piece from what is saved, or None."""
        return self.saved.start if self.saved.totals is not None else None

    def copy(self) -> CellPiece:
        cells = CellWeights(self.cells.boundary, *(column.copy() for column in self.cells[1:]))
        dues = DueWeights(*(column.copy() for column in self.dues))
        return replace(self, cells=cells, dues=dues, saved=self.saved.copy())

    def absorb(self, points: Points, log: Journal) -> PieceCompletions:
        cell = self._count_points(points)
        if self.dues.live_and_slack[1] > 0:
            return no_completions()
        row = batch_counting.check_due_rows(self.subscriptions, self.cells, self.dues, self.block)
        if len(row) == 0:
            return no_completions()
        if self.repeats:
            return self._complete_repeating(row, cell, points.weight)
        self.saved.mark_gone(row)
        some = self.subscriptions, self.cells, self.dues.target, row
        if len(row) <= _FEW:
            return PieceCompletions(row, *batch_counting.search_backwards(*some, cell, points.weight))
        return PieceCompletions(
            row, *batch_counting.search_levels(*some, levels_of(cell, points.weight), points.weight)
        )

    def _count_points(self, points: Points) -> Ints:
        if self.keys is None:
            return batch_counting.count_points(self.cells, points.place[0], points.weight, self.dues.live_and_slack)
        places = points.place[0], points.place[1]
        return batch_counting.count_points_by_key(
            self.cells, self.keys, *places, points.weight, self.dues.live_and_slack
        )

    def _complete_repeating(self, row: Ints, cell: Ints, weight: Ints) -> PieceCompletions:
        piece = self.subscriptions, self.cells, self.dues, self.block
        found = PieceCompletions(*batch_counting.search_repeating(*piece, row, levels_of(cell, weight), weight))
        self.saved.note_aims(row, self.dues.target[row])
        return found

    def settle_if_due(self, log: Journal) -> CellPiece:
        """Return the piece; let it save its totals again once the elements since then take half as much room."""
        columns = 2 if self.keys is None else 3
        if 2 * columns * (log.end - self.saved.start) > len(self.cells.weight):
            self.saved.totals = None
        return self

    def without_gone(self, number: int, log: Journal) -> CellPiece:
        """Return the piece without subscriptions that are gone, and without ends that only they had."""
        row = np.flatnonzero(self.dues.due != GONE)
        kept = self.subscriptions.first[row] - 1, self.subscriptions.last[row] - 1
        used = np.zeros(len(self.cells.boundary), np.bool_)
        used[kept[0]] = used[kept[1]] = True
        new, total = np.cumsum(used, dtype=np.int32), np.cumsum(self.cells.weight)
        count = np.diff(total[:-1][used], prepend=0, append=total[-1])
        queries = SubscriptionCells(
            self.subscriptions.id[row], new[kept[0]], new[kept[1]], self.subscriptions.threshold[row]
        )
        keys = self.keys and batch_keys.keys_of_used(self.keys, used)
        place = _PieceParameters(number, keys, self.cells.boundary[used], self.block, self.repeats)
        return _build_piece(place, queries, self.dues.target[row], count)

    def terminate_rows(self, rows: Ints) -> None:
        """Terminate these rows, which must be live."""
        self.dues.due[rows] = GONE
        self.dues.live_and_slack[0] -= len(rows)
        self.saved.mark_gone(rows)

    def are_live(self, rows: Ints) -> Mask:
        return self.dues.due[rows] != GONE

    def live_boxes(self, log: Journal) -> Boxes:
        """Return the live subscriptions and what they lack."""
        batch_counting.update_group_sums(self.cells)
        row = np.flatnonzero(self.dues.due != GONE)
        first, last = self.subscriptions.first[row], self.subscriptions.last[row]
        missing = self.dues.target[row] - batch_counting.totals_of(self.cells, first, last)
        low, high = self.cells.boundary[first - 1], self.cells.boundary[last - 1]
        ends = low[None], high[None]
        if self.keys is not None:
            key = batch_keys.key_at(self.keys, first - 1)
            ends = np.stack([key, low]), np.stack([key + 1, high])
        return Boxes(self.subscriptions.id[row], *ends, self.subscriptions.threshold[row], missing)

    def to_columns(self, log: Journal) -> dict[str, Columns]:
        if self.saved.aims is None:
            self.saved.save_aims(self.dues.target, self.dues.due == GONE)
        if self.saved.totals is None:
            self.saved.totals, self.saved.start = {"weight": self.cells.weight.copy()}, log.end
        return self.saved.to_columns()


@dataclass(frozen=True, slots=True, eq=False)
class _PieceParameters:
    """Parameters of a piece that do not depend on its subscriptions' totals."""

    number: int
    keys: Keys | None
    boundary: Ints
    block: int
    repeats: bool


def piece_of(number: int, boxes: Boxes, settings: BatchSettings, *, repeats: bool) -> CellPiece:
    keyed, low, high = len(boxes.low) == 2, boxes.low[-1], boxes.high[-1]
    if keyed:
        order = batch_keys.order_for_blocks_by_key(boxes.low[0], np.stack([low, high]), settings.block)
        key = np.concatenate([boxes.low[0][order]] * 2)
        keys, boundary, rank = batch_keys.rank_pairs(key, np.concatenate([low[order], high[order]]))
        first, last = np.split(rank, 2)
    else:
        order, keys = order_for_blocks(np.stack([low, high]), settings.block), None
        boundary = np.unique(np.concatenate([low, high]))
        first, last = np.searchsorted(boundary, low[order]), np.searchsorted(boundary, high[order])
    cells = (first + 1).astype(np.int32), (last + 1).astype(np.int32)
    queries = SubscriptionCells(boxes.id[order], *cells, boxes.threshold[order])
    place = _PieceParameters(number, keys, boundary, settings.block, repeats)
    return _build_piece(place, queries, boxes.missing[order], np.zeros(len(boundary) + 1, np.int64))


def restore_piece(
    number: int, parts: Mapping[str, Columns], start: int, log: Journal, settings: BatchSettings, *, repeats: bool
) -> CellPiece:
    saved, target = restore_saved_parts(parts, _SAME, start)
    columns = parts["queries"]
    queries = SubscriptionCells(
        *(np.require(columns[name], requirements=["C", "W"]) for name in SubscriptionCells._fields)
    )
    boundary = np.require(parts["boundaries"]["boundary"], requirements=["C", "W"])
    keys = batch_keys.restore_keys(parts["keys"], len(boundary)) if "keys" in parts else None
    place = _PieceParameters(number, keys, boundary, settings.block, repeats)
    piece = _piece_with_all_due(place, queries, target, np.array(parts["totals"]["weight"], np.int64), saved)
    *axes, weight = log.columns_since(start)
    if len(weight):
        piece._count_points(Points(np.stack(axes), np.require(weight, requirements=["C", "W"])))  # noqa: SLF001 - of its own
    batch_counting.check_due_rows(piece.subscriptions, piece.cells, piece.dues, piece.block)
    return piece


def _build_piece(place: _PieceParameters, queries: SubscriptionCells, target: Ints, count: Ints) -> CellPiece:
    same: dict[str, Columns] = {"queries": queries._asdict(), "boundaries": {"boundary": place.boundary}}
    if place.keys is not None:
        same["keys"] = batch_keys.to_columns(place.keys)
    piece = _piece_with_all_due(place, queries, target, count, SavedParts(same, 0))
    batch_counting.check_due_rows(piece.subscriptions, piece.cells, piece.dues, piece.block)
    return piece


def _piece_with_all_due(
    place: _PieceParameters, queries: SubscriptionCells, target: Ints, count: Ints, saved: SavedParts
) -> CellPiece:
    """Return a piece whose subscriptions are all due; a target of LEFT marks one that is gone."""
    starts = np.arange(0, len(queries.id), place.block)
    groups = -(-(len(count) + 1) // GROUP)
    padded = np.zeros(groups * GROUP, np.int64)
    padded[: len(count)] = count
    cells = CellWeights(
        place.boundary, count, padded.reshape(groups, GROUP).sum(axis=1), np.zeros(groups + 1, np.int64)
    )
    first = np.minimum.reduceat(queries.first, starts).astype(np.int64) // GROUP
    last = -(-np.maximum.reduceat(queries.last, starts).astype(np.int64) // GROUP)
    due = np.where(target == GONE_AIM, GONE, 0)
    rest = np.array([np.count_nonzero(target != GONE_AIM), 0], np.int64)
    dues = DueWeights(target, due, np.zeros(len(starts), np.int64), first, last, rest)
    return CellPiece(place.number, queries, place.keys, cells, dues, place.block, place.repeats, saved)

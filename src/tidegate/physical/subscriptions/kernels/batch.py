"""Track totals in ranges batch by batch: subscriptions lie in pieces by size, each with totals of its own.

New subscriptions are checked one by one until there are enough for a piece. A piece that is not much larger than what
follows it is merged with it, and a piece that has lost half of its subscriptions is rebuilt. So a registration rewrites
little, and an element meets few pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.kernels.journal import Journal
from tidegate.physical.subscriptions.kernels import batch_boxes, batch_cells, batch_state
from tidegate.physical.subscriptions.kernels.batch_ids import IdIndex, index_ids, rows_of
from tidegate.physical.subscriptions.kernels.batch_model import BatchSettings
from tidegate.physical.subscriptions.kernels.batch_state import BatchTrackerKind, Piece, empty_log
from tidegate.physical.subscriptions.kernels.boxes import (
    Boxes,
    Points,
    boxes_of,
    complete_boxes,
    complete_repeating_boxes,
    concat_boxes,
    no_boxes,
    points_of,
    ranges_of,
    slice_points,
    take_boxes,
)
from tidegate.physical.subscriptions.kernels.model import (
    CompletedSubscriptions,
    Subscriptions,
    WeightedElements,
    merge_completions,
)

_DEFAULT = BatchSettings()


@dataclass(slots=True, eq=False)
class BatchTracker:
    """Tracker that counts elements in batches; it is changed in place."""

    kind: BatchTrackerKind
    settings: BatchSettings
    fresh: Boxes
    pieces: list[Piece]
    log: Journal
    """Elements that some piece has not yet counted for all of its subscriptions, or that its saved totals lack."""
    pushed: int = 0
    """Number of pieces made so far; it numbers them."""
    by_id: dict[int, IdIndex] = field(default_factory=dict)
    """Index of a piece by id, built when an id is first looked up."""
    written: dict[str, Columns] = field(default_factory=dict)
    """Small parts as they were last saved."""

    @classmethod
    def empty(
        cls, dimensions: int, settings: BatchSettings = _DEFAULT, *, keyed: bool = False, repeats: bool = False
    ) -> BatchTracker:
        """Return an empty tracker of ranges with this number of dimensions.

        If it is keyed, the first dimension is a key: there, every range is closed and both of its ends are equal.
        """
        return cls(
            BatchTrackerKind(dimensions, keyed, repeats), settings, no_boxes(dimensions), [], empty_log(dimensions)
        )

    def __len__(self) -> int:
        return len(self.fresh.id) + sum(piece.live for piece in self.pieces)

    def copy(self) -> BatchTracker:
        fresh, pieces = self.fresh._replace(missing=self.fresh.missing.copy()), [piece.copy() for piece in self.pieces]
        by_id, log, written = dict(self.by_id), self.log.copy(), dict(self.written)
        return replace(self, fresh=fresh, pieces=pieces, by_id=by_id, log=log, written=written)

    def register(self, ranges: Subscriptions) -> BatchTracker:
        return self.resume(ranges, ranges.threshold)

    def resume(self, ranges: Subscriptions, missing: Ints) -> BatchTracker:
        """Register subscriptions that lack only the weight in `missing`."""
        if len(ranges):
            self._add_fresh(boxes_of(ranges)._replace(missing=np.array(missing, np.int64)))
        return self

    def live_subscriptions(self) -> tuple[Subscriptions, Ints]:
        """Return the live subscriptions, with ends as places, and what they lack, for another tracker to resume."""
        boxes = concat_boxes([*(piece.live_boxes(self.log) for piece in self.pieces), self.fresh])
        return ranges_of(boxes), boxes.missing

    def are_live(self, ids: Ints) -> Mask:
        """Return which of the ids are live."""
        found = np.isin(ids, self.fresh.id)
        for piece in self.pieces:
            row = self._rows_of_ids(piece, ids)
            found |= (row >= 0) & piece.are_live(row)
        return found

    def terminate(self, ids: Ints) -> tuple[BatchTracker, Mask]:
        """Drop the subscriptions with these ids; return which were live, only the first time for a repeated id."""
        first = np.zeros(len(ids), np.bool_)
        first[np.unique(ids, return_index=True)[1]] = True
        found = first & np.isin(ids, self.fresh.id)
        if found.any():
            self.fresh = take_boxes(self.fresh, ~np.isin(self.fresh.id, ids))
        for piece in self.pieces:
            row = self._rows_of_ids(piece, ids)
            here = first & (row >= 0) & piece.are_live(row)
            piece.terminate_rows(row[here])
            found |= here
        self._tidy_pieces()
        return self, found

    def absorb(self, elements: WeightedElements) -> tuple[BatchTracker, CompletedSubscriptions]:
        return self, self._absorb_points(points_of(elements), no_boxes(self.kind.dimensions), np.empty(0, np.int64))

    def absorb_with(
        self, elements: WeightedElements, ranges: Subscriptions, position: Ints
    ) -> tuple[BatchTracker, CompletedSubscriptions]:
        """Count the next elements, and register ranges among them, each before the element at its position.

        Positions are ascending. The result is the same as if the batch were cut at all positions.
        """
        return self, self._absorb_points(points_of(elements), boxes_of(ranges), position)

    def to_columns(self) -> Mapping[str, Columns]:
        """Return the state in named parts that never change; a part that is as it was last time is the same object."""
        parts, self.written = batch_state.to_columns(
            self.kind, self.pushed, self.fresh, self.pieces, self.log, self.written
        )
        return parts

    @classmethod
    def from_columns(cls, parts: Mapping[str, Columns], settings: BatchSettings = _DEFAULT) -> BatchTracker:
        kind, pushed, fresh, pieces, log = batch_state.from_columns(parts, settings)
        written = {name: parts[name] for name in batch_state.SMALL}
        return cls(kind, settings, fresh, pieces, log, pushed, written=written)

    def _absorb_points(self, points: Points, new: Boxes, position: Ints) -> CompletedSubscriptions:
        answers: list[CompletedSubscriptions] = []
        rows = len(points.weight)
        for begin in range(0, rows, self.settings.cut):
            end = min(begin + self.settings.cut, rows)
            part = slice_points(points, begin, end)
            found = self._absorb_cut(part)
            first, last = np.searchsorted(position, [begin, end])
            here = np.arange(first, last)
            found += self._register_among(take_boxes(new, here), part, position[here] - begin)
            answers += [CompletedSubscriptions(each.id, each.element + begin, each.total) for each in found]
        behind = np.arange(np.searchsorted(position, rows), len(position))
        if len(behind):
            self._add_fresh(take_boxes(new, behind))
        return merge_completions(answers)

    def _absorb_cut(self, points: Points) -> list[CompletedSubscriptions]:
        answers: list[CompletedSubscriptions] = []
        if any(piece.start is not None for piece in self.pieces):
            self.log.append(*points.place, points.weight)
        else:
            self.log.skip(len(points.weight))
        for piece in self.pieces:
            found = piece.absorb(points, self.log)
            if len(found.row):
                answers.append(CompletedSubscriptions(piece.ids[found.row], found.element, found.total))
        self._tidy_pieces()
        if len(self.fresh.id):
            self.fresh, found_fresh = self._check_one_by_one(self.fresh, points, np.zeros(len(self.fresh.id), np.int64))
            answers.append(found_fresh)
        return answers

    def _register_among(self, new: Boxes, points: Points, position: Ints) -> list[CompletedSubscriptions]:
        """Register subscriptions among the points, which all others have counted already."""
        if len(new.id) == 0:
            return []
        cut = max(1, self.settings.pairs // len(new.id))
        if 2 * cut < len(points.weight):
            return [self._register_many_among(new, points, position, cut)]
        rest, found = self._check_one_by_one(new, points, position)
        self._add_fresh(rest)
        return [found]

    def _register_many_among(self, new: Boxes, points: Points, position: Ints, cut: int) -> CompletedSubscriptions:
        """Register many subscriptions in a tracker of their own, which cuts the points into small parts."""
        settings, dimensions = replace(self.settings, cut=cut), self.kind.dimensions
        others = BatchTracker(self.kind, settings, no_boxes(dimensions), [], empty_log(dimensions))
        found = others._absorb_points(points, new, position)
        self._add_fresh(concat_boxes([*(piece.live_boxes(others.log) for piece in others.pieces), others.fresh]))
        return found

    def _check_one_by_one(self, boxes: Boxes, points: Points, position: Ints) -> tuple[Boxes, CompletedSubscriptions]:
        """Return the subscriptions that are live after these points, and those that are complete."""
        if self.kind.repeats:
            row, element, total = complete_repeating_boxes(boxes, points, position)
            return boxes, CompletedSubscriptions(boxes.id[row], element, total)
        element, total = complete_boxes(boxes, points, position)
        done = element >= 0
        rest = take_boxes(boxes, ~done) if done.any() else boxes
        return rest, CompletedSubscriptions(boxes.id[done], element[done], total[done])

    def _add_fresh(self, boxes: Boxes) -> None:
        self.fresh = concat_boxes([self.fresh, boxes])
        if len(self.fresh.id) > self.settings.fresh:
            boxes, self.fresh = self.fresh, no_boxes(self.kind.dimensions)
            self._push_piece(boxes)

    def _push_piece(self, boxes: Boxes) -> None:
        """Make a piece of these subscriptions and of the pieces that are not much larger than all that follow them."""
        place, behind = len(self.pieces), len(boxes.id)
        for at in reversed(range(len(self.pieces))):
            live = self.pieces[at].live
            place = at if live <= self.settings.share * behind else place
            behind += live
        parts = [piece.live_boxes(self.log) for piece in self.pieces[place:]]
        self._drop_indexes(self.pieces[place:])
        self.pieces = [*self.pieces[:place], self._make_piece(concat_boxes([*parts, boxes]))]

    def _make_piece(self, boxes: Boxes) -> Piece:
        self.pushed += 1
        if self.kind.has_cells:
            return batch_cells.piece_of(self.pushed, boxes, self.settings, repeats=self.kind.repeats)
        kind = {"keyed": self.kind.keyed, "repeats": self.kind.repeats}
        return batch_boxes.piece_of(self.pushed, boxes, self.log, self.settings, **kind)

    def _drop_indexes(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            self.by_id.pop(piece.number, None)

    def _tidy_pieces(self) -> None:
        """Rebuild pieces that have lost half of their subscriptions; count the log where it has become long."""
        lean = [piece for piece in self.pieces if 2 * piece.live < len(piece.ids)]
        if lean:
            self._drop_indexes(lean)
            self.pieces = [
                self._rebuild_piece(piece) if piece in lean else piece for piece in self.pieces if piece.live
            ]
        if len(self.log):
            self.pieces = [piece.settle_if_due(self.log) for piece in self.pieces]
            batch_state.forget_unused(self.log, self.pieces)

    def _rebuild_piece(self, piece: Piece) -> Piece:
        self.pushed += 1
        return piece.without_gone(self.pushed, self.log)

    def _rows_of_ids(self, piece: Piece, ids: Ints) -> Ints:
        if piece.number not in self.by_id:
            self.by_id[piece.number] = index_ids(piece.ids)
        return rows_of(self.by_id[piece.number], ids)

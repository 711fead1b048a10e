"""Tracking ranges by batches: registered queries in pieces by size, each with totals of its own.

New queries are looked at one by one until there are enough of them for a piece; a piece that is not much
larger than what comes behind it is merged with it, and one that has lost half of its queries is made anew.
So a registration rewrites little, and an element meets few pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate.physical.kernels.compiled import compiled
from tidegate.physical.kernels.ranges import batch_boxes, batch_cells
from tidegate.physical.kernels.ranges.batch_boxes import BoxPiece
from tidegate.physical.kernels.ranges.batch_cells import CellPiece
from tidegate.physical.kernels.ranges.batch_model import Settings
from tidegate.physical.kernels.ranges.cells import (
    Boxes,
    Points,
    boxes_of,
    complete,
    joined,
    no_boxes,
    points_from,
    points_of,
    ranges_of,
    taken,
)
from tidegate.physical.kernels.ranges.model import Columns, Elements, Ints, Mask, Matured, Ranges, in_order

Piece = CellPiece | BoxPiece
Answers = list[tuple[Ints, Ints, Ints]]

_DEFAULT = Settings()


@dataclass(slots=True, eq=False)
class BatchTracker:
    """A tracker that takes elements in by batches; it is changed in place."""

    dimensions: int
    settings: Settings
    fresh: Boxes
    pieces: list[Piece]
    log: Points
    """Elements that some piece of boxes has not yet counted for all of its queries."""
    pushed: int = 0
    """Pieces that there have been; each has its number."""
    by_id: dict[int, Ints] = field(default_factory=dict)
    """The rows of a piece in order of id, once somebody has asked for an id."""

    @classmethod
    def empty(cls, dimensions: int, settings: Settings = _DEFAULT) -> BatchTracker:
        return cls(dimensions, settings, no_boxes(dimensions), [], _no_points(dimensions))

    def __len__(self) -> int:
        return len(self.fresh.id) + sum(piece.live for piece in self.pieces)

    def copy(self) -> BatchTracker:
        fresh = self.fresh._replace(missing=self.fresh.missing.copy())
        return replace(self, fresh=fresh, pieces=[piece.copy() for piece in self.pieces], by_id=dict(self.by_id))

    def register(self, ranges: Ranges) -> BatchTracker:
        return self.resume(ranges, ranges.threshold)

    def resume(self, ranges: Ranges, missing: Ints) -> BatchTracker:
        """Register queries that lack no more than this."""
        if len(ranges):
            self._take(boxes_of(ranges)._replace(missing=np.array(missing, np.int64)))
        return self

    def rest(self) -> tuple[Ranges, Ints]:
        """The live queries and what they lack: what another tracker can resume."""
        boxes = joined([*(piece.boxes(self.log) for piece in self.pieces), self.fresh])
        return ranges_of(boxes), boxes.missing

    def known(self, ids: Ints) -> Mask:
        """Which of the ids are live."""
        found = np.isin(ids, self.fresh.id)
        for piece in self.pieces:
            row = self._rows(piece, ids)
            found |= (row >= 0) & piece.alive(row)
        return found

    def terminate(self, ids: Ints) -> tuple[BatchTracker, Mask]:
        """Forget these; of an id that is given twice, only the first one was known."""
        first = np.zeros(len(ids), np.bool_)
        first[np.unique(ids, return_index=True)[1]] = True
        found = first & np.isin(ids, self.fresh.id)
        if found.any():
            self.fresh = taken(self.fresh, ~np.isin(self.fresh.id, ids))
        for piece in self.pieces:
            row = self._rows(piece, ids)
            here = first & (row >= 0) & piece.alive(row)
            piece.forget(row[here])
            found |= here
        self._tidy()
        return self, found

    def absorb(self, elements: Elements) -> tuple[BatchTracker, Matured]:
        return self, self._absorbed(points_of(elements), no_boxes(self.dimensions), np.empty(0, np.int64))

    def absorb_with(self, elements: Elements, ranges: Ranges, position: Ints) -> tuple[BatchTracker, Matured]:
        """Count the next elements, and register ranges among them: each before the element at its position.

        Positions are ascending. This is what cutting the batch at all positions would do.
        """
        return self, self._absorbed(points_of(elements), boxes_of(ranges), position)

    def to_columns(self) -> Mapping[str, Columns]:
        """The state in named parts, which share memory with this tracker."""
        numbers = np.array([piece.number for piece in self.pieces], np.int64)
        parts: dict[str, Columns] = {
            "tracker": {"dimensions": np.array([self.dimensions]), "pushed": np.array([self.pushed])},
            "pieces": {"number": numbers},
            "fresh": {**_by_axis("low", self.fresh.low), **_by_axis("high", self.fresh.high)}
            | {name: getattr(self.fresh, name) for name in ("id", "threshold", "missing")},
            "log": {**_by_axis("place", self.log.place), "weight": self.log.weight},
        }
        for piece in self.pieces:
            parts |= {f"piece {piece.number} {name}": columns for name, columns in piece.to_columns().items()}
        return parts

    @classmethod
    def from_columns(cls, parts: Mapping[str, Columns], settings: Settings = _DEFAULT) -> BatchTracker:
        dimensions = int(parts["tracker"]["dimensions"][0])
        fresh, log = parts["fresh"], parts["log"]
        plain = {name: np.array(fresh[name], np.int64) for name in ("id", "threshold", "missing")}
        ends = {end: _axes(end, fresh, dimensions) for end in ("low", "high")}
        points = Points(_axes("place", log, dimensions), np.array(log["weight"], np.int64))
        pieces: list[Piece] = []
        for number in parts["pieces"]["number"].tolist():
            prefix = f"piece {number} "
            own = {name.removeprefix(prefix): columns for name, columns in parts.items() if name.startswith(prefix)}
            if dimensions == 1:
                pieces.append(batch_cells.piece_from(number, own, settings))
            else:
                pieces.append(batch_boxes.piece_from(number, own, points, settings))
        pushed = int(parts["tracker"]["pushed"][0])
        return cls(dimensions, settings, Boxes(**plain, **ends), pieces, points, pushed)

    def _absorbed(self, points: Points, new: Boxes, position: Ints) -> Matured:
        answers: Answers = []
        rows = len(points.weight)
        for begin in range(0, rows, self.settings.cut):
            end = min(begin + self.settings.cut, rows)
            part = points_from(points, begin, end)
            found = self._absorbed_at_once(part)
            first, last = np.searchsorted(position, [begin, end])
            here = np.arange(first, last)
            found += self._joining(taken(new, here), part, position[here] - begin)
            answers += [(ids, element + begin, total) for ids, element, total in found]
        behind = np.arange(np.searchsorted(position, rows), len(position))
        if len(behind):
            self._take(taken(new, behind))
        return in_order(*(np.concatenate([np.empty(0, np.int64), *column]) for column in _columns(answers)))

    def _absorbed_at_once(self, points: Points) -> Answers:
        answers: Answers = []
        if self.dimensions > 1 and self.pieces:
            place = np.concatenate([self.log.place, points.place], axis=1)
            self.log = Points(place, np.concatenate([self.log.weight, points.weight]))
        for piece in self.pieces:
            found = piece.absorb(points, self.log)
            if len(found.row):
                answers.append((piece.ids[found.row], found.element, found.total))
        self._tidy()
        if len(self.fresh.id):
            self.fresh, found_fresh = _completed(self.fresh, points, np.zeros(len(self.fresh.id), np.int64))
            answers.append(found_fresh)
        return answers

    def _joining(self, new: Boxes, points: Points, position: Ints) -> Answers:
        """Register queries among the points, which all others have met."""
        if len(new.id) == 0:
            return []
        rest, found = _completed(new, points, position)
        self._take(rest)
        return [found]

    def _take(self, boxes: Boxes) -> None:
        self.fresh = joined([self.fresh, boxes])
        if len(self.fresh.id) > self.settings.fresh:
            boxes, self.fresh = self.fresh, no_boxes(self.dimensions)
            self._push(boxes)

    def _push(self, boxes: Boxes) -> None:
        """Make a piece of these and of the pieces that are not much larger than all behind them."""
        place, behind = len(self.pieces), len(boxes.id)
        for at in reversed(range(len(self.pieces))):
            live = self.pieces[at].live
            place = at if live <= self.settings.share * behind else place
            behind += live
        parts = [piece.boxes(self.log) for piece in self.pieces[place:]]
        self._drop(self.pieces[place:])
        self.pieces = [*self.pieces[:place], self._piece(joined([*parts, boxes]))]

    def _piece(self, boxes: Boxes) -> Piece:
        self.pushed += 1
        if self.dimensions == 1:
            return batch_cells.piece_of(self.pushed, boxes, self.settings)
        return batch_boxes.piece_of(self.pushed, boxes, self.log, self.settings)

    def _drop(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            self.by_id.pop(piece.number, None)

    def _tidy(self) -> None:
        """Make pieces anew that have lost half of their queries; bring boxes up to date that have waited long."""
        lean = [piece for piece in self.pieces if 2 * piece.live < len(piece.ids)]
        if lean:
            self._drop(lean)
            self.pieces = [self._slim(piece) if piece in lean else piece for piece in self.pieces if piece.live]
        if self.dimensions > 1 and len(self.log.weight):
            self._settle()

    def _slim(self, piece: Piece) -> Piece:
        self.pushed += 1
        return piece.slim(self.pushed, self.log)

    def _settle(self) -> None:
        end = len(self.log.weight)
        boxes = [piece for piece in self.pieces if isinstance(piece, BoxPiece)]
        boxes = [piece.settled(self.log) if end - piece.start >= piece.patience else piece for piece in boxes]
        begin = min((piece.start for piece in boxes), default=end)
        if begin:
            self.log = points_from(self.log, begin)
        self.pieces = [replace(piece, start=piece.start - begin) if begin else piece for piece in boxes]

    def _rows(self, piece: Piece, ids: Ints) -> Ints:
        if piece.number not in self.by_id:
            self.by_id[piece.number] = np.argsort(piece.ids).astype(np.int32)
        return _found(piece.ids, self.by_id[piece.number], np.ascontiguousarray(ids, np.int64))


def _completed(boxes: Boxes, points: Points, position: Ints) -> tuple[Boxes, tuple[Ints, Ints, Ints]]:
    """Those that are not complete after these points, and those that are."""
    element, total = complete(boxes, points, position)
    done = element >= 0
    if not done.any():
        none = np.empty(0, np.int64)
        return boxes, (none, none, none)
    return taken(boxes, ~done), (boxes.id[done], element[done], total[done])


def _columns(answers: Answers) -> list[list[Ints]]:
    return [[answer[part] for answer in answers] for part in range(3)]


def _no_points(dimensions: int) -> Points:
    return Points(np.empty((dimensions, 0), np.int64), np.empty(0, np.int64))


def _by_axis(name: str, rows: Ints) -> Columns:
    return {f"{name}{axis}": row for axis, row in enumerate(rows)}


def _axes(name: str, columns: Columns, dimensions: int) -> Ints:
    return np.stack([columns[f"{name}{axis}"] for axis in range(dimensions)])


@compiled
def _found(ids: Ints, order: Ints, wanted: Ints) -> Ints:
    """The rows that have the ids, or -1."""
    rows = np.full(len(wanted), -1, np.int64)
    for each in range(len(wanted)):
        begin, end = 0, len(order)
        while begin < end:
            middle = (begin + end) // 2
            if ids[order[middle]] < wanted[each]:
                begin = middle + 1
            else:
                end = middle
        if begin < len(order) and ids[order[begin]] == wanted[each]:
            rows[each] = order[begin]
    return rows

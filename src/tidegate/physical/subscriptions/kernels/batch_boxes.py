"""A piece of the batch method in several dimensions: boxes, and the elements since they were brought up to date.

As in one dimension, queries that are alike lie in one block, and the weight in the cover of a block says
which of them are due. Of a query that is due all elements since the piece's start are counted; from time
to time all queries are, and the piece starts anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.journal import Journal
from tidegate.physical.subscriptions.kernels.batch_keys import packed_by_key
from tidegate.physical.subscriptions.kernels.batch_model import GONE, Found, Settings, nothing
from tidegate.physical.subscriptions.kernels.batch_saved import LEFT, Saved, saved_from
from tidegate.physical.subscriptions.kernels.batch_sweep import completing, weights_in
from tidegate.physical.subscriptions.kernels.cells import Boxes, Points, complete_again, packed, taken

_LONGEST = 131_072
"""Elements of the log after which all boxes are brought up to date."""


class Covers(NamedTuple):
    """Of each block: the box around its boxes, the weight in it since the start, the least due weight."""

    low: Ints
    high: Ints
    weight: Ints
    least: Ints


@dataclass(slots=True, eq=False)
class BoxPiece:
    """Queries with what they lacked at the start; due is when to look at them, in weight of their cover."""

    number: int
    queries: Boxes
    start: int
    """Where in the log the elements begin that are not yet in `missing`."""
    covers: Covers
    due: Ints
    rest: Ints
    """How many queries are live, and the weight that can come before any of them is due."""
    settings: Settings
    repeats: bool
    saved: Saved

    @property
    def ids(self) -> Ints:
        return self.queries.id

    @property
    def live(self) -> int:
        return int(self.rest[0])

    def copy(self) -> BoxPiece:
        covers = self.covers._replace(weight=self.covers.weight.copy(), least=self.covers.least.copy())
        queries = self.queries._replace(missing=self.queries.missing.copy())
        due, rest, saved = self.due.copy(), self.rest.copy(), self.saved.copy()
        return replace(self, queries=queries, covers=covers, due=due, rest=rest, saved=saved)

    def absorb(self, points: Points, log: Journal) -> Found:
        """Take in the points, which are the last ones of the log."""
        self.covers.weight[:] += weights_in(self.covers.low, self.covers.high, points)
        self.rest[1] -= points.weight.sum()
        if self.rest[1] > 0:
            return nothing()
        row = _due(self.covers, self.due, self.settings.block)
        counted = weights_in(self.queries.low[:, row], self.queries.high[:, row], since(log, self.start))
        missing = self.queries.missing[row] - counted
        complete = missing <= 0
        found = nothing()
        if complete.any():
            found, missing[complete] = self._completed(row[complete], missing[complete], points)
        if self.repeats:
            self._aim(row[complete], missing[complete] + counted[complete])
        else:
            self.saved.leave(row[complete])
        _file(self.covers, self.due, self.rest, row, missing, self.settings.block)
        return found

    def _completed(self, row: Ints, missing: Ints, points: Points) -> tuple[Found, Ints]:
        """Where the points have completed rows, which now have more than they lacked, and what they lack then."""
        boxes = taken(self.queries, row)
        lacking = weights_in(boxes.low, boxes.high, points) + missing
        boxes = boxes._replace(missing=lacking)
        if not self.repeats:
            return Found(row, *completing(boxes, points)), missing
        at, element, total = complete_again(boxes, points, np.zeros(len(row), np.int64))
        return Found(row[at], element, total), boxes.missing

    def _aim(self, rows: Ints, missing: Ints) -> None:
        self.queries.missing[rows] = missing
        self.saved.note(rows, missing)

    def settled(self, log: Journal) -> BoxPiece:
        """The same, after some time with all elements of the log counted in what is missing."""
        patience = max(self.settings.cut, min(_LONGEST, int(self.settings.patience * self.live)))
        return self if log.end - self.start < patience else self.counted(log)

    def counted(self, log: Journal) -> BoxPiece:
        """The same with all elements of the log counted in what is missing; with many queries that costs much."""
        if self.start == log.end:
            return self
        piece, row = self.copy(), np.flatnonzero(self.due != GONE)
        low, high = self.queries.low[:, row], self.queries.high[:, row]
        piece.queries.missing[row] -= weights_in(low, high, since(log, self.start))
        piece.start, piece.saved = log.end, Saved(self.saved.same, 0)
        _file_all(piece, log)
        return piece

    def slim(self, number: int, log: Journal) -> BoxPiece:
        """The same without queries that are gone."""
        boxes = taken(self.queries, np.flatnonzero(self.due != GONE))
        return _piece(number, boxes, self.start, log, self.settings, Saved(_same(boxes), 0), repeats=self.repeats)

    def forget(self, rows: Ints) -> None:
        """Terminate these rows, which are live."""
        self.due[rows] = GONE
        self.rest[0] -= len(rows)
        self.saved.leave(rows)

    def alive(self, rows: Ints) -> Mask:
        return self.due[rows] != GONE

    def boxes(self, log: Journal) -> Boxes:
        """The live queries and what they lack."""
        return taken(self.counted(log).queries, np.flatnonzero(self.due != GONE))

    def to_columns(self, log: Journal) -> dict[str, Columns]:
        if self.saved.aims is None:
            self.saved.begin(self.queries.missing, self.due == GONE)
        return self.saved.to_columns()


def since(log: Journal, begin: int) -> Points:
    """The elements of the log from one on."""
    *axes, weight = log.since(begin)
    return Points(np.stack(axes), np.require(weight, requirements=["C", "W"]))


def piece_of(number: int, boxes: Boxes, log: Journal, settings: Settings, *, keyed: bool, repeats: bool) -> BoxPiece:
    if keyed:
        order = packed_by_key(boxes.low[0], np.vstack([boxes.low[1:], boxes.high[1:]]), settings.block)
    else:
        order = packed(np.vstack([boxes.low, boxes.high]), settings.block)
    boxes = taken(boxes, order)
    return _piece(number, boxes, log.end, log, settings, Saved(_same(boxes), 0), repeats=repeats)


def piece_from(
    number: int, parts: Mapping[str, Columns], start: int, log: Journal, settings: Settings, *, repeats: bool
) -> BoxPiece:
    saved, missing = saved_from(parts, ("queries",), start)
    columns = parts["queries"]
    axes = range((len(columns) - 2) // 2)
    low, high = (np.stack([columns[f"{end}{axis}"] for axis in axes]) for end in ("low", "high"))
    ids, threshold = (np.require(columns[name], requirements=["C", "W"]) for name in ("id", "threshold"))
    return _piece(number, Boxes(ids, low, high, threshold, missing), start, log, settings, saved, repeats=repeats)


def _same(boxes: Boxes) -> dict[str, Columns]:
    """Of the state, what never changes."""
    ends = {f"low{axis}": row for axis, row in enumerate(boxes.low)}
    ends |= {f"high{axis}": row for axis, row in enumerate(boxes.high)}
    return {"queries": {"id": boxes.id, "threshold": boxes.threshold, **ends}}


def _piece(
    number: int, boxes: Boxes, start: int, log: Journal, settings: Settings, saved: Saved, *, repeats: bool
) -> BoxPiece:
    """A piece of boxes; those that lack LEFT are gone."""
    starts = np.arange(0, len(boxes.id), settings.block)
    low = np.minimum.reduceat(boxes.low, starts, axis=1)
    high = np.maximum.reduceat(boxes.high, starts, axis=1)
    due, gone = np.where(boxes.missing == LEFT, GONE, 0), np.count_nonzero(boxes.missing == LEFT)
    none = np.zeros(len(starts), np.int64)
    covers, rest = Covers(low, high, none, none.copy()), np.array([len(due) - gone, 0])
    piece = BoxPiece(number, boxes, start, covers, due, rest, settings, repeats, saved)
    _file_all(piece, log)
    return piece


def _file_all(piece: BoxPiece, log: Journal) -> None:
    """All queries are due when their covers have got, since the start, what they lacked then."""
    piece.covers.weight[:] = piece.covers.least[:] = 0
    row = np.flatnonzero(piece.due != GONE)
    _file(piece.covers, piece.due, piece.rest, row, piece.queries.missing[row], piece.settings.block)
    if piece.start < log.end:
        piece.covers.weight[:] = weights_in(piece.covers.low, piece.covers.high, since(log, piece.start))
        piece.rest[1] = 0


@compiled
def _due(covers: Covers, due: Ints, block: int) -> Ints:
    found, out = np.empty(len(due), np.int64), 0
    for number in range(len(covers.least)):
        if covers.weight[number] >= covers.least[number]:
            for row in range(number * block, min((number + 1) * block, len(due))):
                if due[row] <= covers.weight[number]:
                    found[out] = row
                    out += 1
    return found[:out].copy()


@compiled
def _file(covers: Covers, due: Ints, rest: Ints, rows: Ints, missing: Ints, block: int) -> None:
    """Say when to look at these rows again; those that lack nothing are gone."""
    for at in range(len(rows)):
        row = rows[at]
        if missing[at] <= 0:
            due[row] = GONE
            rest[0] -= 1
        else:
            cover = covers.weight[row // block]
            due[row] = cover + min(missing[at], GONE - 1 - cover)
    rest[1] = GONE
    for number in range(len(covers.least)):
        if covers.weight[number] >= covers.least[number]:
            least = GONE
            for row in range(number * block, min((number + 1) * block, len(due))):
                least = min(least, due[row])
            covers.least[number] = least
        rest[1] = min(rest[1], covers.least[number] - covers.weight[number])

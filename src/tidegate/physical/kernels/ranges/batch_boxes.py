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

from tidegate.physical.kernels.compiled import compiled
from tidegate.physical.kernels.ranges.batch_model import GONE, Found, Settings, nothing
from tidegate.physical.kernels.ranges.batch_sweep import completing, weights_in
from tidegate.physical.kernels.ranges.cells import Boxes, Points, packed, points_from, taken
from tidegate.physical.kernels.ranges.model import Columns, Ints, Mask

_LONGEST = 131_072
"""Elements of the log after which all boxes are brought up to date."""


class Covers(NamedTuple):
    """Of each block: the box around its boxes, the weight in it since the start, the least due weight."""

    low: Ints
    high: Ints
    weight: Ints
    least: Ints


@dataclass(frozen=True, slots=True, eq=False)
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
    same: Columns
    """Of the state, what never changes."""
    settings: Settings

    @property
    def ids(self) -> Ints:
        return self.queries.id

    @property
    def live(self) -> int:
        return int(self.rest[0])

    @property
    def patience(self) -> int:
        """Elements after which all queries are brought up to date: with many queries that costs more."""
        return max(self.settings.cut, min(_LONGEST, int(self.settings.patience * self.live)))

    def copy(self) -> BoxPiece:
        covers = self.covers._replace(weight=self.covers.weight.copy(), least=self.covers.least.copy())
        return replace(self, covers=covers, due=self.due.copy(), rest=self.rest.copy())

    def absorb(self, points: Points, log: Points) -> Found:
        """Take in the points, which are the last ones of the log."""
        self.covers.weight[:] += weights_in(self.covers.low, self.covers.high, points)
        self.rest[1] -= points.weight.sum()
        if self.rest[1] > 0:
            return nothing()
        row = _due(self.covers, self.due, self.settings.block)
        since = points_from(log, self.start)
        low, high = self.queries.low[:, row], self.queries.high[:, row]
        missing = self.queries.missing[row] - weights_in(low, high, since)
        _file(self.covers, self.due, self.rest, row, missing, self.settings.block)
        complete = missing <= 0
        return self._completed(row[complete], -missing[complete], points)

    def _completed(self, row: Ints, surplus: Ints, points: Points) -> Found:
        """Where the points have completed rows, which now have more than they lacked."""
        if len(row) == 0:
            return nothing()
        boxes = taken(self.queries, row)
        lacking = weights_in(boxes.low, boxes.high, points) - surplus
        return Found(row, *completing(boxes._replace(missing=lacking), points))

    def settled(self, log: Points) -> BoxPiece:
        """The same with all elements of the log counted in what is missing."""
        if self.start == log.weight.shape[0]:
            return self
        since = points_from(log, self.start)
        row = np.flatnonzero(self.due != GONE)
        missing = self.queries.missing.copy()
        missing[row] -= weights_in(self.queries.low[:, row], self.queries.high[:, row], since)
        queries, gone = self.queries._replace(missing=missing), self.due == GONE
        cover = self.covers.low, self.covers.high
        return replace(_filed(self.number, queries, len(log.weight), *cover, gone, log, self.settings), same=self.same)

    def slim(self, number: int, log: Points) -> BoxPiece:
        """The same without queries that are gone."""
        boxes = taken(self.queries, np.flatnonzero(self.due != GONE))
        return _piece(number, boxes, self.start, np.zeros(len(boxes.id), np.bool_), log, self.settings)

    def forget(self, rows: Ints) -> None:
        """Terminate these rows, which are live."""
        self.due[rows] = GONE
        self.rest[0] -= len(rows)

    def alive(self, rows: Ints) -> Mask:
        return self.due[rows] != GONE

    def boxes(self, log: Points) -> Boxes:
        """The live queries and what they lack."""
        return taken(self.settled(log).queries, np.flatnonzero(self.due != GONE))

    def to_columns(self) -> dict[str, Columns]:
        return {
            "queries": self.same,
            "missing": {"missing": self.queries.missing},
            "gone": {"gone": self.due == GONE},
            "start": {"start": np.array([self.start])},
        }


def piece_of(number: int, boxes: Boxes, log: Points, settings: Settings) -> BoxPiece:
    boxes = taken(boxes, packed(np.vstack([boxes.low, boxes.high]), settings.block))
    return _piece(number, boxes, len(log.weight), np.zeros(len(boxes.id), np.bool_), log, settings)


def piece_from(number: int, parts: Mapping[str, Columns], log: Points, settings: Settings) -> BoxPiece:
    columns = parts["queries"]
    axes = range((len(columns) - 2) // 2)
    low, high = (np.stack([columns[f"{end}{axis}"] for axis in axes]) for end in ("low", "high"))
    missing = np.require(parts["missing"]["missing"], requirements=["C", "W"])
    ids, threshold = (np.require(columns[name], requirements=["C", "W"]) for name in ("id", "threshold"))
    start, gone = int(parts["start"]["start"][0]), np.asarray(parts["gone"]["gone"])
    return _piece(number, Boxes(ids, low, high, threshold, missing), start, gone, log, settings)


def _piece(number: int, boxes: Boxes, start: int, gone: Mask, log: Points, settings: Settings) -> BoxPiece:
    starts = np.arange(0, len(boxes.id), settings.block)
    low = np.minimum.reduceat(boxes.low, starts, axis=1)
    high = np.maximum.reduceat(boxes.high, starts, axis=1)
    return _filed(number, boxes, start, low, high, gone, log, settings)


def _filed(
    number: int, boxes: Boxes, start: int, low: Ints, high: Ints, gone: Mask, log: Points, settings: Settings
) -> BoxPiece:
    """All queries are due when their covers have got, since the start, what they lacked then."""
    covers = Covers(low, high, np.zeros(low.shape[1], np.int64), np.zeros(low.shape[1], np.int64))
    due, rest = np.where(gone, GONE, 0), np.array([np.count_nonzero(~gone), 0])
    row = np.flatnonzero(~gone)
    _file(covers, due, rest, row, boxes.missing[row], settings.block)
    if start < len(log.weight):
        covers.weight[:] = weights_in(low, high, points_from(log, start))
        rest[1] = 0
    ends = {f"low{axis}": row for axis, row in enumerate(boxes.low)}
    ends |= {f"high{axis}": row for axis, row in enumerate(boxes.high)}
    same = {"id": boxes.id, "threshold": boxes.threshold, **ends}
    return BoxPiece(number, boxes, start, covers, due, rest, same, settings)


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

"""A piece of the batch method in one dimension: running totals of the cells between the ends of its ranges.

What a query has is the difference of two sums of cells. Queries that are alike lie in one block; what
falls in the cover of a block bounds what falls in any of its ranges, so that a query which lacks r is
not looked at before the weight in the cover has grown by r.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidegate.physical.kernels.compiled import compiled, inlined
from tidegate.physical.kernels.ranges.batch_model import GONE, Found, Settings, nothing
from tidegate.physical.kernels.ranges.batch_search import Levels, completing, levels_of
from tidegate.physical.kernels.ranges.cells import Boxes, Points, count_to, packed
from tidegate.physical.kernels.ranges.model import Columns, Ints, Mask

Places = npt.NDArray[np.int32]

_GROUP = 32
"""Cells that are summed one by one; a power of two."""

_FEW = 32
"""Completed queries for which the batch is searched directly."""


class Queries(NamedTuple):
    """A query is complete when the cells from `first` to before `last` reach its target."""

    id: Ints
    first: Places
    last: Places
    threshold: Ints
    target: Ints


class Cells(NamedTuple):
    """Cell c has the places from boundary c - 1 to before boundary c."""

    boundary: Ints
    weight: Ints
    group: Ints
    """The weight of each group of cells."""
    before: Ints
    """The weight of all groups before each one, as of the last look at the queries."""


class Dues(NamedTuple):
    """When to look at a query: its due weight is one of its block's cover."""

    due: Ints
    least: Ints
    """Of each block, the least due weight."""
    first: Ints
    """Of each block, the groups of cells that cover it, up to `last`."""
    last: Ints
    rest: Ints
    """How many queries are live, and the weight that can come before any of them is due."""


@dataclass(frozen=True, slots=True, eq=False)
class CellPiece:
    """Queries, which never change, and their totals and due weights, which do."""

    number: int
    queries: Queries
    cells: Cells
    dues: Dues
    block: int

    @property
    def ids(self) -> Ints:
        return self.queries.id

    @property
    def live(self) -> int:
        return int(self.dues.rest[0])

    def copy(self) -> CellPiece:
        cells = Cells(self.cells.boundary, *(column.copy() for column in self.cells[1:]))
        dues = self.dues._replace(due=self.dues.due.copy(), least=self.dues.least.copy(), rest=self.dues.rest.copy())
        return CellPiece(self.number, self.queries, cells, dues, self.block)

    def absorb(self, points: Points, log: Points) -> Found:
        cell = _counted(self.cells, points.place[0], points.weight, self.dues.rest)
        if self.dues.rest[1] > 0:
            return nothing()
        row = _due(self.queries, self.cells, self.dues, self.block)
        if len(row) == 0:
            return nothing()
        if len(row) <= _FEW:
            return Found(row, *_one_by_one(self.queries, self.cells, row, cell, points.weight))
        levels = levels_of(cell, points.weight)
        return Found(row, *_all_at_once(self.queries, self.cells, row, levels, points.weight))

    def slim(self, number: int, log: Points) -> CellPiece:
        """The same without queries that are gone, and without ends that only they had."""
        row = np.flatnonzero(self.dues.due != GONE)
        kept = self.queries.first[row] - 1, self.queries.last[row] - 1
        used = np.zeros(len(self.cells.boundary), np.bool_)
        used[kept[0]] = used[kept[1]] = True
        new, total = np.cumsum(used, dtype=np.int32), np.cumsum(self.cells.weight)
        count = np.diff(total[:-1][used], prepend=0, append=total[-1])
        ids, threshold, target = (self.queries.id[row], self.queries.threshold[row], self.queries.target[row])
        queries = Queries(ids, new[kept[0]], new[kept[1]], threshold, target)
        gone = np.zeros(len(row), np.bool_)
        return _filed(number, queries, self.cells.boundary[used], count, gone, self.block)

    def forget(self, rows: Ints) -> None:
        """Terminate these rows, which are live."""
        self.dues.due[rows] = GONE
        self.dues.rest[0] -= len(rows)

    def alive(self, rows: Ints) -> Mask:
        return self.dues.due[rows] != GONE

    def boxes(self, log: Points) -> Boxes:
        """The live queries and what they lack."""
        _summed(self.cells)
        row = np.flatnonzero(self.dues.due != GONE)
        first, last = self.queries.first[row], self.queries.last[row]
        missing = self.queries.target[row] - _totals(self.cells, first, last)
        ends = (self.cells.boundary[first - 1][None], self.cells.boundary[last - 1][None])
        return Boxes(self.queries.id[row], *ends, self.queries.threshold[row], missing)

    def to_columns(self) -> dict[str, Columns]:
        return {
            "queries": self.queries._asdict(),
            "boundaries": {"boundary": self.cells.boundary},
            "totals": {"weight": self.cells.weight},
            "gone": {"gone": self.dues.due == GONE},
        }


def piece_of(number: int, boxes: Boxes, settings: Settings) -> CellPiece:
    order = packed(np.vstack([boxes.low, boxes.high]), settings.block)
    low, high = boxes.low[0][order], boxes.high[0][order]
    boundary = np.unique(np.concatenate([low, high]))
    first = (np.searchsorted(boundary, low) + 1).astype(np.int32)
    last = (np.searchsorted(boundary, high) + 1).astype(np.int32)
    queries = Queries(boxes.id[order], first, last, boxes.threshold[order], boxes.missing[order])
    count = np.zeros(len(boundary) + 1, np.int64)
    return _filed(number, queries, boundary, count, np.zeros(len(first), np.bool_), settings.block)


def piece_from(number: int, parts: Mapping[str, Columns], settings: Settings) -> CellPiece:
    columns = parts["queries"]
    queries = Queries(*(np.require(columns[name], requirements=["C", "W"]) for name in Queries._fields))
    boundary = np.require(parts["boundaries"]["boundary"], requirements=["C", "W"])
    return _filed(number, queries, boundary, np.array(parts["totals"]["weight"]), parts["gone"]["gone"], settings.block)


def _filed(number: int, queries: Queries, boundary: Ints, count: Ints, gone: Mask, block: int) -> CellPiece:
    starts = np.arange(0, len(queries.id), block)
    groups = -(-(len(count) + 1) // _GROUP)
    padded = np.zeros(groups * _GROUP, np.int64)
    padded[: len(count)] = count
    cells = Cells(boundary, count, padded.reshape(groups, _GROUP).sum(axis=1), np.zeros(groups + 1, np.int64))
    first = np.minimum.reduceat(queries.first, starts).astype(np.int64) // _GROUP
    last = -(-np.maximum.reduceat(queries.last, starts).astype(np.int64) // _GROUP)
    due = np.where(gone, GONE, 0)
    rest = np.array([len(due) - np.count_nonzero(gone), 0], np.int64)
    dues = Dues(due, np.zeros(len(starts), np.int64), first, last, rest)
    _due(queries, cells, dues, block)
    return CellPiece(number, queries, cells, dues, block)


@compiled
def _counted(cells: Cells, place: Ints, weight: Ints, rest: Ints) -> Ints:
    """Add the weights to the cells of the elements, which are returned."""
    cell = _cells_of(cells.boundary, place)
    for row in range(len(place)):
        cells.weight[cell[row]] += weight[row]
        cells.group[cell[row] // _GROUP] += weight[row]
        rest[1] -= weight[row]
    return cell


@inlined
def _cells_of(boundary: Ints, place: Ints) -> Ints:
    """How many boundaries are not above each place; all are searched in step, so that memory is read ahead."""
    cell, length = np.zeros(len(place), np.int64), len(boundary)
    while length > 0:
        half = (length + 1) >> 1
        for row in range(len(place)):
            cell[row] += half if boundary[cell[row] + half - 1] <= place[row] else 0
        length -= half
    return cell


@compiled
def _due(queries: Queries, cells: Cells, dues: Dues, block: int) -> Ints:
    """Look at the queries that are due, and say which of them are complete."""
    _summed(cells)
    found, out, rest = np.empty(len(queries.id), np.int64), 0, GONE
    for number in range(len(dues.least)):
        cover = cells.before[dues.last[number]] - cells.before[dues.first[number]]
        if cover >= dues.least[number]:
            least = GONE
            for row in range(number * block, min((number + 1) * block, len(queries.id))):
                if dues.due[row] <= cover:
                    missing = queries.target[row] - _total(cells, queries.first[row], queries.last[row])
                    if missing <= 0:
                        found[out] = row
                        out += 1
                        dues.due[row] = GONE
                    else:
                        dues.due[row] = cover + min(missing, GONE - 1 - cover)
                least = min(least, dues.due[row])
            dues.least[number] = least
        rest = min(rest, dues.least[number] - cover)
    dues.rest[0] -= out
    dues.rest[1] = rest
    return found[:out].copy()


@compiled
def _summed(cells: Cells) -> None:
    total = 0
    for group in range(len(cells.group)):
        cells.before[group] = total
        total += cells.group[group]
    cells.before[len(cells.group)] = total


@inlined
def _sum_before(cells: Cells, cell: int) -> int:
    group = cell // _GROUP
    total = cells.before[group]
    for each in range(group * _GROUP, cell):
        total += cells.weight[each]
    return total


@inlined
def _total(cells: Cells, first: int, last: int) -> int:
    return _sum_before(cells, last) - _sum_before(cells, first)


@compiled
def _totals(cells: Cells, first: Places, last: Places) -> Ints:
    total = np.empty(len(first), np.int64)
    for row in range(len(first)):
        total[row] = _total(cells, first[row], last[row])
    return total


@compiled
def _one_by_one(queries: Queries, cells: Cells, rows: Ints, cell: Ints, weight: Ints) -> tuple[Ints, Ints]:
    """Go back from the end of the batch until a query is not complete any more."""
    element, total = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for out in range(len(rows)):
        row = rows[out]
        first, last = queries.first[row], queries.last[row]
        surplus = _total(cells, first, last) - queries.target[row]
        each = len(cell) - 1
        while True:
            if first <= cell[each] < last:
                if weight[each] > surplus:
                    break
                surplus -= weight[each]
            each -= 1
        element[out], total[out] = each, queries.threshold[row] + surplus
    return element, total


@compiled
def _all_at_once(queries: Queries, cells: Cells, rows: Ints, levels: Levels, weight: Ints) -> tuple[Ints, Ints]:
    element, total = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for out in range(len(rows)):
        row = rows[out]
        first, last = queries.first[row], queries.last[row]
        begin, end = count_to(levels.cell, first - 1), count_to(levels.cell, last - 1)
        new = levels.below[end] - levels.below[begin]
        lacking = queries.target[row] - _total(cells, first, last) + new
        each, brought = completing(levels, begin, end, lacking)
        element[out], total[out] = each, queries.threshold[row] + weight[each] - brought
    return element, total

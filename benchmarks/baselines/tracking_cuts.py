"""Ends of ranges as places among distinct values: before or after one of them, never a little beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.subscriptions.kernels.boxes import places
from tidegate.physical.subscriptions.kernels.model import Subscriptions

Cells = npt.NDArray[np.int32]


def places_among(values: Ints, points: Ints) -> Ints:
    """Where points are among sorted distinct values: 2i + 1 is at value i, 2i before it, 2i + 2 after it.

    Examples
    --------
    >>> places_among(np.array([1, 5]), np.array([0, 1, 3, 5, 9])).tolist()
    [0, 1, 2, 3, 4]
    """
    before: Ints = np.searchsorted(values, points)
    if not len(values):
        return before
    return 2 * before + (values[np.minimum(before, len(values) - 1)] == points)


def first_inside(values: Ints, low: Ints, low_open: Mask) -> Ints:
    """The first place that belongs to ranges with these lower ends, which are among the values."""
    return 2 * np.searchsorted(values, low) + 1 + low_open


def first_beyond(values: Ints, high: Ints, high_open: Mask) -> Ints:
    """The first place after ranges with these upper ends, which are among the values."""
    return 2 * np.searchsorted(values, high) + 2 - high_open


class Cuts(NamedTuple):
    """Where ranges begin and end, dimension by dimension.

    Cells lie between cuts: cell 0 before all of them, and as many cells follow as there are cuts. Within a
    cell all points are in the same ranges; the first and the last cell are in none.
    """

    values_at: Ints
    """The values of dimension k are those from `values_at[k]` to `values_at[k + 1]`."""
    values: Ints
    cell: Cells
    """The cell of each place; n values have 2n + 1 places."""


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """Ranges in cells: from `low` to before `high`, a row for each dimension."""

    cuts: Cuts
    low: Cells
    high: Cells

    def not_empty(self) -> Ints:
        """The rows of ranges that points can be in."""
        return np.flatnonzero((self.low < self.high).all(axis=0))


def in_cells(ranges: Subscriptions) -> Boxes:
    """Cut every dimension where ranges begin and end."""
    sides = [_side(ranges, dimension) for dimension in range(ranges.dimensions)]
    values, cells, low, high = zip(*sides, strict=True)
    values_at = np.cumsum([0, *map(len, values)])
    return Boxes(Cuts(values_at, np.concatenate(values), np.concatenate(cells)), np.array(low), np.array(high))


def _side(ranges: Subscriptions, dimension: int) -> tuple[Ints, Cells, Cells, Cells]:
    """The distinct ends in a dimension, the cells of places among them, and those where ranges begin and end."""
    low, high = places(ranges.low[:, dimension]), places(ranges.high[:, dimension])
    values = np.unique(np.concatenate((low, high)))
    inside = first_inside(values, low, ranges.low_open[:, dimension])
    beyond = first_beyond(values, high, ranges.high_open[:, dimension])
    is_cut = np.zeros(2 * len(values) + 1, np.int32)
    is_cut[inside] = is_cut[beyond] = 1
    cells = np.cumsum(is_cut, dtype=np.int32)
    return values, cells, cells[inside], cells[beyond]


@compiled
def cells_of(cuts: Cuts, points: Ints) -> Cells:
    """The cells of points, a column for each dimension."""
    cells = np.empty(points.shape, np.int32)
    for i in range(len(points)):
        for dimension in range(points.shape[1]):
            cells[i, dimension] = cell_of(cuts, dimension, points[i, dimension])
    return cells


@inlined
def cell_of(cuts: Cuts, dimension: int, point: int) -> int:
    """The cell of a point in one dimension."""
    first, last = cuts.values_at[dimension], cuts.values_at[dimension + 1]
    low, high = first, last
    while low < high:
        middle = (low + high) >> 1
        if cuts.values[middle] < point:
            low = middle + 1
        else:
            high = middle
    place = 2 * (low - first) + (1 if low < last and cuts.values[low] == point else 0)
    return cuts.cell[2 * first + dimension + place]


@inlined
def find_cells(cuts: Cuts, point: Ints, cells: Ints) -> None:
    """Write the cell of a point in each dimension."""
    for dimension in range(len(cells)):
        cells[dimension] = cell_of(cuts, dimension, point[dimension])

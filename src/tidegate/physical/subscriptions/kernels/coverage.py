"""Find which of many boxes contain each of many points, by the cells into which the ends of the boxes cut each axis.

Each cell has a bit for each box that covers it. The boxes that contain a point have their bits set in the cells of the
point on all axes. Boxes are numbered from zero; 64 of them share a word.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled, inlined


class Coverage(NamedTuple):
    """Cells of the axes: where each begins, and the bits of the boxes by axis, cell and word."""

    cuts: tuple[Ints, ...]
    bits: Ints
    all: Ints
    """Bits of all boxes."""


def coverage_of(low: Ints, high: Ints) -> Coverage:
    """Return the cells of closed boxes; ends have a row for each box, and must be less than the greatest integer."""
    boxes, axes = low.shape
    cuts = tuple(np.unique(np.concatenate([low[:, axis], high[:, axis] + 1])) for axis in range(axes))
    bits = np.zeros((axes, max((len(each) + 1 for each in cuts), default=1), -(-boxes // 64)), np.int64)
    for axis, own in enumerate(cuts):
        first, last = np.searchsorted(own, low[:, axis], "right"), np.searchsorted(own, high[:, axis], "right")
        _set_bits(bits[axis], first.astype(np.int64), last.astype(np.int64))
    every = np.zeros((1, bits.shape[2]), np.int64)
    _set_bits(every, np.zeros(boxes, np.int64), np.zeros(boxes, np.int64))
    return Coverage(cuts, bits, every[0])


def cells_of(coverage: Coverage, places: Ints) -> Ints:
    """Return the cell of each point on each axis; places have a row for each point."""
    cells = np.empty((len(coverage.cuts), len(places)), np.int64)
    for axis, cuts in enumerate(coverage.cuts):
        cells[axis] = np.searchsorted(cuts, places[:, axis], "right")
    return cells


def are_covered(coverage: Coverage, cells: Ints) -> Mask:
    """Return which points are in some box."""
    return _are_covered(coverage.bits, coverage.all, cells)


def add_new_pairs(coverage: Coverage, cells: Ints, group: Ints, known: Ints) -> tuple[Ints, Ints]:
    """Return each point and box such that the point is the first one of its group in the box.

    `known` has the bits of the boxes that contained earlier points, by group and word; new ones are added to it.
    """
    return _add_new_pairs(coverage.bits, coverage.all, cells, group, known)


@compiled
def _set_bits(bits: Ints, first: Ints, last: Ints) -> None:
    """Set the bit of each box from its first cell to its last one."""
    for box in range(len(first)):
        for cell in range(first[box], last[box] + 1):
            bits[cell, box >> 6] |= np.int64(1) << np.int64(box & 63)


@inlined
def _bits_of_point(bits: Ints, every: Ints, cells: Ints, point: int, word: int) -> int:
    found = every[word]
    for axis in range(len(cells)):
        found &= bits[axis, cells[axis, point], word]
    return found


@compiled
def _are_covered(bits: Ints, every: Ints, cells: Ints) -> Mask:
    covered = np.zeros(cells.shape[1], np.bool_)
    for point in range(cells.shape[1]):
        for word in range(len(every)):
            if _bits_of_point(bits, every, cells, point, word) != 0:
                covered[point] = True
                break
    return covered


@compiled
def _add_new_pairs(bits: Ints, every: Ints, cells: Ints, group: Ints, known: Ints) -> tuple[Ints, Ints]:
    points, boxes, found = np.empty(64, np.int64), np.empty(64, np.int64), 0
    for point in range(len(group)):
        own = known[group[point]]
        for word in range(len(every)):
            new = _bits_of_point(bits, every, cells, point, word) & ~own[word]
            if new == 0:
                continue
            own[word] |= new
            if found + 64 > len(points):
                points, boxes = _double_room(points), _double_room(boxes)
            for bit in range(64):
                if (new >> np.int64(bit)) & 1:
                    points[found], boxes[found] = point, 64 * word + bit
                    found += 1
    return points[:found].copy(), boxes[:found].copy()


@inlined
def _double_room(values: Ints) -> Ints:
    more = np.empty(2 * len(values), np.int64)
    more[: len(values)] = values
    return more

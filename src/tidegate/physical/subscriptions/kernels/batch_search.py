"""Find the element of a batch that completes each of many ranges in one dimension.

Elements are in the order of value. Each level splits them by one bit of their position in time, the highest bit first;
elements with a zero bit go first. Prefix sums over the elements that go first determine in which half of the time a
range becomes complete, and where its elements are on the next level (a wavelet matrix).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined


class Levels(NamedTuple):
    """Elements of a batch in the order of value, split by time level by level."""

    cell: Ints
    """Cells of the elements, ascending."""
    first: Ints
    """By level and position: the number of earlier elements that go first, and their weight."""
    below: Ints
    """Weight of all elements before each position of the first level."""


@compiled
def levels_of(cell: Ints, weight: Ints) -> Levels:
    rows = len(cell)
    depth = 1
    while 1 << depth < rows:
        depth += 1
    now = np.argsort(cell, kind="mergesort")
    first = np.zeros((depth, rows + 1, 2), np.int64)
    below = np.zeros(rows + 1, np.int64)
    for row in range(rows):
        below[row + 1] = below[row] + weight[now[row]]
    ascending = cell[now]
    after = np.empty(rows, np.int64)
    for level in range(depth):
        bit = depth - 1 - level
        for row in range(rows):
            goes = 1 - (now[row] >> bit & 1)
            first[level, row + 1, 0] = first[level, row, 0] + goes
            first[level, row + 1, 1] = first[level, row, 1] + goes * weight[now[row]]
        zero, one = 0, first[level, rows, 0]
        for row in range(rows):
            if now[row] >> bit & 1:
                after[one] = now[row]
                one += 1
            else:
                after[zero] = now[row]
                zero += 1
        now, after = after, now
    return Levels(ascending, first, below)


@inlined
def completing_element(levels: Levels, begin: int, end: int, lacking: int) -> tuple[int, int]:
    """Return the element among positions [begin, end) that supplies what is lacking, and how much of it was needed."""
    depth, rows = len(levels.first), len(levels.cell)
    element = 0
    for level in range(depth):
        low, high = levels.first[level, begin, 0], levels.first[level, end, 0]
        early = levels.first[level, end, 1] - levels.first[level, begin, 1]
        if early >= lacking:
            begin, end = low, high
        else:
            lacking -= early
            zeros = levels.first[level, rows, 0]
            begin, end = zeros + begin - low, zeros + end - high
            element |= 1 << (depth - 1 - level)
    return element, lacking

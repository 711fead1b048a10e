"""Functions for all loops over pairs: elements that are valid together, and the pairs found."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.similarity_join.kernels.slot_columns import SlotTimes


class MatchedPairs(NamedTuple):
    """Pairs that match (probing, stored), the number of comparisons, and their cost."""

    pairs: Ints
    compared: int
    units: int


@compiled
def lower_bound(values: Ints, value: int, low: int, high: int) -> int:
    """Return the first position in [low, high) whose value is not smaller, or `high`. Compiles faster than NumPy's."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def overlap_range(probing: SlotTimes, row: int, stored: SlotTimes) -> tuple[int, int]:
    """Return the range of stored elements that may be valid together with an element."""
    first = lower_bound(stored.until, probing.start[row] + 1, 0, len(stored.until))
    return first, lower_bound(stored.start, probing.end[row], first, len(stored.start))


@compiled
def append_pair(found: Ints, count: int, row: int, partner: int) -> Ints:
    """Append a pair; return the array, enlarged if necessary."""
    room = found
    if count == len(found):
        room = np.empty((2 * count, 2), np.int64)
        for n in range(count):
            room[n, 0], room[n, 1] = found[n, 0], found[n, 1]
    room[count, 0], room[count, 1] = row, partner
    return room


@inlined
def count_ones(word: np.uint64) -> Any:
    """Count the bits set in a word. The compiler recognizes this pattern."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled
def count_pairs(probing: SlotTimes, rows: Ints, stored: SlotTimes) -> int:
    """Count the pairs of these elements with stored ones that may be valid together."""
    total = 0
    for n in range(len(rows)):
        first, last = overlap_range(probing, rows[n], stored)
        total += last - first
    return total


@compiled
def all_pairs(rows: Ints, probing: SlotTimes, stored: SlotTimes) -> Ints:
    """Return all pairs that are valid together."""
    found, count = np.empty((max(16, count_pairs(probing, rows, stored)), 2), np.int64), 0
    for row in rows:
        first, last = overlap_range(probing, row, stored)
        for partner in range(first, last):
            if stored.end[partner] > probing.start[row]:
                found[count, 0], found[count, 1] = row, partner
                count += 1
    return found[:count]

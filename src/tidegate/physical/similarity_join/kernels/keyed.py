"""Find matches among elements with the same key. Each pair with the same key costs one unit."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.similarity_join.kernels.key_lists import KeyLists, lists_met
from tidegate.physical.similarity_join.kernels.pairs import MatchedPairs, lower_bound
from tidegate.physical.similarity_join.kernels.slot_columns import SlotTimes
from tidegate.physical.similarity_join.kernels.slots import Slot


def count_partners(probing: Slot, rows: Ints, stored: Slot) -> Ints:
    """Return for each of the probing elements how many stored ones with its key may be valid together with it."""
    met = lists_met(probing.key_lists, stored.key_lists)
    return _count_partners(rows, probing.times, met, stored.times, stored.key_lists)


def match_keys(probing: Slot, rows: Ints, stored: Slot) -> MatchedPairs:
    """Return all pairs with the same key that are valid together."""
    met = lists_met(probing.key_lists, stored.key_lists)
    pairs, compared = _match_keys(rows, probing.times, met, stored.times, stored.key_lists)
    return MatchedPairs(pairs, compared, compared)


@inlined
def _partner_range(probing: SlotTimes, row: int, number: int, stored: SlotTimes, lists: KeyLists) -> tuple[int, int]:
    """Return the part of a list with the elements that may be valid together with an element."""
    low, high = 0, 0
    if number >= 0:
        low, high = int(lists.bounds[number]), int(lists.bounds[number + 1])
        if stored.until[0] <= probing.start[row]:
            first = lower_bound(stored.until, probing.start[row] + 1, 0, len(stored.until))
            low = lower_bound(lists.rows, first, low, high)
        if stored.start[-1] >= probing.end[row]:
            last = lower_bound(stored.start, probing.end[row], 0, len(stored.start))
            high = lower_bound(lists.rows, last, low, high)
    return low, high


@compiled
def _count_partners(rows: Ints, probing: SlotTimes, met: Ints, stored: SlotTimes, lists: KeyLists) -> Ints:
    counts = np.empty(len(rows), np.int64)
    for n in range(len(rows)):
        low, high = _partner_range(probing, rows[n], met[rows[n]], stored, lists)
        counts[n] = high - low
    return counts


@compiled
def _match_keys(rows: Ints, probing: SlotTimes, met: Ints, stored: SlotTimes, lists: KeyLists) -> tuple[Ints, int]:
    compared = 0
    for row in rows:
        low, high = _partner_range(probing, row, met[row], stored, lists)
        compared += high - low
    found, count = np.empty((compared, 2), np.int64), 0
    for row in rows:
        low, high = _partner_range(probing, row, met[row], stored, lists)
        for place in range(low, high):
            partner = lists.rows[place]
            if stored.end[partner] > probing.start[row]:
                found[count, 0], found[count, 1] = row, partner
                count += 1
    return found[:count], compared

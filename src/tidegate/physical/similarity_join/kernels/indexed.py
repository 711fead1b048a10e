"""Find matches by lists of elements per item. Each list entry read and each verification costs one unit."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.physical.common.arrays import Floats, Ints, Words
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.similarity_join.kernels.conditions import RequiredOverlap, is_match, least_common
from tidegate.physical.similarity_join.kernels.nested import (
    Numeric,
    count_common,
    has_enough_product,
    is_near,
    most_common_items,
)
from tidegate.physical.similarity_join.kernels.pairs import append_pair, lower_bound, overlap_range
from tidegate.physical.similarity_join.kernels.slots import ItemLists, SlotTimes


@inlined
def _list_range(lists: ItemLists, number: int, first: int, last: int, count: int) -> tuple[int, int]:
    """Return the part of an item's list with elements from `first` on and before `last`. Lists are in time order."""
    low, high = lists.bounds[number], lists.bounds[number + 1]
    if first > 0:
        low = lower_bound(lists.rows, first, low, high)
    if last < count:
        high = lower_bound(lists.rows, last, low, high)
    return low, high


@inlined
def _list_number(lists: ItemLists, item: int) -> int:
    """Return the number of an item's list, or -1."""
    place = lower_bound(lists.codes, item, 0, len(lists.codes))
    if place < len(lists.codes) and lists.codes[place] == item:
        return place
    return -1


@compiled
def by_lists(
    rows: Ints,
    probing: SlotTimes,
    bounds: Ints,
    items: Ints,
    stored: SlotTimes,
    sizes: Ints,
    lists: ItemLists,
    need: RequiredOverlap,
    lookup: int,
) -> tuple[Ints, int, int]:
    """Match sets by counting how often an element is in the lists; return matches, pairs in reach, and units."""
    found, count, compared, units = np.empty((64, 2), np.int64), 0, 0, 0
    counts, touched = np.zeros(len(sizes), np.int64), np.empty(len(sizes), np.int64)
    for row in rows:
        first, last = overlap_range(probing, row, stored)
        compared += last - first
        size, start, candidates = bounds[row + 1] - bounds[row], probing.start[row], 0
        for k in range(bounds[row], bounds[row + 1]):
            number = _list_number(lists, items[k])
            units += lookup
            if number < 0:
                continue
            low, high = _list_range(lists, number, first, last, len(sizes))
            units += high - low
            for place in range(low, high):
                partner = lists.rows[place]
                if counts[partner] == 0:
                    touched[candidates] = partner
                    candidates += 1
                counts[partner] += 1
        for n in range(candidates):
            partner = touched[n]
            if is_match(counts[partner], size, sizes[partner], need) and stored.end[partner] > start:
                found = append_pair(found, count, row, partner)
                count += 1
            counts[partner] = 0
        for n in range(last - first if size == 0 else len(lists.empty)):
            partner = first + n if size == 0 else lists.empty[n]
            if not first <= partner < last:
                continue
            units += 1
            if is_match(0, size, sizes[partner], need) and stored.end[partner] > start:
                found = append_pair(found, count, row, partner)
                count += 1
    return found[:count], compared, units


@compiled
def by_prefixes(
    rows: Ints,
    probing: SlotTimes,
    bounds: Ints,
    items: Ints,
    signatures: Words,
    stored: SlotTimes,
    others: Ints,
    other_items: Ints,
    other_signatures: Words,
    lists: ItemLists,
    need: RequiredOverlap,
    lookup: int,
) -> tuple[Ints, int, int]:
    """Match sets by lists of prefix items; return matches, pairs in reach, and units.

    Matching sets share one of their rarest items. An element found there is verified once, unless sizes and signatures
    rule it out.
    """
    found, count, compared, units = np.empty((64, 2), np.int64), 0, 0, 0
    seen, stamp = np.zeros(len(others) - 1, np.int64), 0
    for row in rows:
        first, last = overlap_range(probing, row, stored)
        compared += last - first
        stamp += 1
        size, start, mine = bounds[row + 1] - bounds[row], probing.start[row], signatures[row]
        numbers, _ = _rarest_lists(lists, bounds, items, row)
        for k in range(max(0, min(size, size - least_common(size, need.probing, need) + 1))):
            units += lookup
            if numbers[k] < 0:
                continue
            low, high = _list_range(lists, numbers[k], first, last, len(seen))
            units += high - low
            for place in range(low, high):
                partner = lists.rows[place]
                if seen[partner] == stamp:
                    continue
                seen[partner] = stamp
                other = others[partner + 1] - others[partner]
                if not is_match(most_common_items(mine, size, other_signatures[partner], other), size, other, need):
                    continue
                units += 1
                common = count_common(bounds, items, row, others, other_items, partner)
                if is_match(common, size, other, need) and stored.end[partner] > start:
                    found = append_pair(found, count, row, partner)
                    count += 1
        for n in range(last - first if size == 0 else len(lists.empty)):
            partner = first + n if size == 0 else lists.empty[n]
            if not first <= partner < last:
                continue
            units += 1
            if is_match(0, size, others[partner + 1] - others[partner], need) and stored.end[partner] > start:
                found = append_pair(found, count, row, partner)
                count += 1
    return found[:count], compared, units


@inlined
def _rarest_lists(lists: ItemLists, bounds: Ints, items: Ints, row: int) -> tuple[Ints, Ints]:
    """Return the numbers of the lists of a set's items, rarest first, and the positions of the items.

    Items without a list are the rarest.
    """
    low, size = bounds[row], bounds[row + 1] - bounds[row]
    numbers, ranks, places = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    for n in range(size):
        number = _list_number(lists, items[low + n])
        rank = -1 if number < 0 else lists.ranks[number]
        place = n
        while place > 0 and ranks[place - 1] > rank:
            numbers[place], ranks[place], places[place] = numbers[place - 1], ranks[place - 1], places[place - 1]
            place -= 1
        numbers[place], ranks[place], places[place] = number, rank, low + n
    return numbers, places


@compiled
def by_weights(
    rows: Ints,
    probing: SlotTimes,
    bounds: Ints,
    items: Ints,
    weights: Floats,
    stored: SlotTimes,
    others: Ints,
    other_items: Ints,
    other_weights: Floats,
    lists: ItemLists,
    least: float,
    doubt: float,
    filtered: bool,  # noqa: FBT001 - Numba takes arguments by position
    lookup: int,
) -> tuple[Ints, int, int]:
    """Match weighted sets by lists; return matches, pairs in reach, and units. The least product must be above 0.

    If `filtered`, lists are read, rarest item first, until the remaining items cannot add up to the least product. The
    elements found are then verified.
    """
    found, count, compared, units = np.empty((64, 2), np.int64), 0, 0, 0
    seen, stamp = np.zeros(len(others) - 1, np.int64), 0
    for row in rows:
        first, last = overlap_range(probing, row, stored)
        compared += last - first
        stamp += 1
        start = probing.start[row]
        numbers, places = _rarest_lists(lists, bounds, items, row)
        for k in range(_count_lookups(lists, numbers, places, weights, least) if filtered else len(numbers)):
            units += lookup
            if numbers[k] < 0:
                continue
            low, high = _list_range(lists, numbers[k], first, last, len(seen))
            units += high - low
            for place in range(low, high):
                partner = lists.rows[place]
                if seen[partner] == stamp:
                    continue
                seen[partner] = stamp
                units += filtered  # without the filter, products could be added up as lists are read
                if stored.end[partner] > start and has_enough_product(
                    bounds, items, weights, row, others, other_items, other_weights, partner, least, doubt
                ):
                    found = append_pair(found, count, row, partner)
                    count += 1
    return found[:count], compared, units


@inlined
def _count_lookups(lists: ItemLists, numbers: Ints, places: Ints, weights: Floats, least: float) -> int:
    """Return how many of a set's rarest items must be looked up, so that the others cannot add up to enough."""
    rest, length = 0.0, len(numbers)
    while length > 0:
        number, weight = numbers[length - 1], weights[places[length - 1]]
        if number >= 0:
            rest += (np.inf if np.isnan(weight) else abs(weight)) * lists.heaviest[number]
        if not rest * (1.0 + 1e-9) < least:  # the factor covers the rounding of sums; NaN also ends the loop
            break
        length -= 1
    return length


@compiled
def by_order(
    rows: Ints,
    probing: SlotTimes,
    values: Numeric,
    stored: SlotTimes,
    others: Numeric,
    order: Ints,
    lowest: Numeric,
    highest: Numeric,
    distance: Any,
    whole: bool,  # noqa: FBT001 - Numba takes arguments by position
    lookup: int,
) -> tuple[Ints, int, int]:
    """Match numbers in sorted order: each element reads those from its lowest to its highest match."""
    found, count, compared, units = np.empty((64, 2), np.int64), 0, 0, 0
    ordered = others[order]
    for row in rows:
        first, last = overlap_range(probing, row, stored)
        compared += last - first
        units += max(1, lookup)
        place = lower_bound(ordered, lowest[row], 0, len(ordered))
        while place < len(order) and ordered[place] <= highest[row]:
            partner = order[place]
            place += 1
            units += 1
            if not first <= partner < last or not is_near(values[row], others[partner], distance, whole):
                continue
            if stored.end[partner] > probing.start[row]:
                found = append_pair(found, count, row, partner)
                count += 1
    return found[:count], compared, units

"""Find matches by lists of elements per item. Each list entry read and each verification costs one unit."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.physical.common.arrays import Floats, Ints, Words
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.similarity_join.kernels.conditions import (
    RequiredOverlap,
    RequiredProduct,
    is_match,
    least_common,
)
from tidegate.physical.similarity_join.kernels.nested import (
    count_common,
    has_enough_product,
    is_near,
    most_common_items,
)
from tidegate.physical.similarity_join.kernels.pairs import append_pair, lower_bound, overlap_range
from tidegate.physical.similarity_join.kernels.slot_columns import (
    ItemLists,
    NumberRanges,
    SlotNumbers,
    SlotSets,
    WeightedSets,
)


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


@inlined
def _find_candidates(
    lists: ItemLists, numbers: Ints, first: int, last: int, counts: Ints, candidates: Ints
) -> tuple[int, int]:
    """Count how many of the lists have each element from `first` on and before `last`.

    Return the number of elements that are in any list, and the number of entries read.
    """
    met, read = 0, 0
    for number in numbers:
        if number < 0:
            continue
        low, high = _list_range(lists, number, first, last, len(counts))
        read += high - low
        for place in range(low, high):
            partner = lists.rows[place]
            if counts[partner] == 0:
                candidates[met] = partner
                met += 1
            counts[partner] += 1
    return met, read


@inlined
def _add_unlisted(lists: ItemLists, size: int, first: int, last: int, candidates: Ints, met: int) -> int:
    """Append the elements in reach that may match a set though no list has them; return the number of candidates.

    These are all elements if the set is empty, otherwise the empty ones.
    """
    for n in range(last - first if size == 0 else len(lists.empty)):
        partner = first + n if size == 0 else lists.empty[n]
        if first <= partner < last:
            candidates[met] = partner
            met += 1
    return met


@compiled
def by_lists(
    rows: Ints, probing: SlotSets, stored: SlotSets, lists: ItemLists, need: RequiredOverlap, lookup: int
) -> tuple[Ints, int, int]:
    """Match sets by counting how often an element is in the lists; return matches, pairs in reach, and units."""
    found, count, compared, units = np.empty((64, 2), np.int64), 0, 0, 0
    bounds, others = probing.bounds, stored.bounds
    counts, candidates = np.zeros(len(others) - 1, np.int64), np.empty(len(others) - 1, np.int64)
    for row in rows:
        first, last = overlap_range(probing.times, row, stored.times)
        compared += last - first
        size, start = bounds[row + 1] - bounds[row], probing.times.start[row]
        met, read = _find_candidates(lists, _lists_of(lists, probing, row), first, last, counts, candidates)
        total = _add_unlisted(lists, size, first, last, candidates, met)
        units += size * lookup + read + total - met
        for n in range(total):
            partner = candidates[n]
            common, other = counts[partner], others[partner + 1] - others[partner]
            counts[partner] = 0
            if is_match(common, size, other, need) and stored.times.end[partner] > start:
                found = append_pair(found, count, row, partner)
                count += 1
    return found[:count], compared, units


@compiled
def by_prefixes(
    rows: Ints,
    probing: SlotSets,
    signatures: Words,
    stored: SlotSets,
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
    bounds, others = probing.bounds, stored.bounds
    counts, candidates = np.zeros(len(others) - 1, np.int64), np.empty(len(others) - 1, np.int64)
    for row in rows:
        first, last = overlap_range(probing.times, row, stored.times)
        compared += last - first
        size, start, mine = bounds[row + 1] - bounds[row], probing.times.start[row], signatures[row]
        length = max(0, min(size, size - least_common(size, need.probing, need) + 1))
        numbers, _ = _rarest_lists(lists, probing.bounds, probing.items, row)
        met, read = _find_candidates(lists, numbers[:length], first, last, counts, candidates)
        total = _add_unlisted(lists, size, first, last, candidates, met)
        units += length * lookup + read + total - met
        for n in range(total):
            partner = candidates[n]
            counts[partner] = 0
            other = others[partner + 1] - others[partner]
            if not is_match(most_common_items(mine, size, other_signatures[partner], other), size, other, need):
                continue
            units += n < met  # the others have been counted
            common = count_common(bounds, probing.items, row, others, stored.items, partner)
            if is_match(common, size, other, need) and stored.times.end[partner] > start:
                found = append_pair(found, count, row, partner)
                count += 1
    return found[:count], compared, units


@inlined
def _lists_of(lists: ItemLists, probing: SlotSets, row: int) -> Ints:
    """Return the numbers of the lists of a set's items, in item order."""
    low, size = probing.bounds[row], probing.bounds[row + 1] - probing.bounds[row]
    numbers = np.empty(size, np.int64)
    for n in range(size):
        numbers[n] = _list_number(lists, probing.items[low + n])
    return numbers


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
    probing: WeightedSets,
    stored: WeightedSets,
    lists: ItemLists,
    need: RequiredProduct,
    filtered: bool,  # noqa: FBT001 - Numba takes arguments by position
    lookup: int,
) -> tuple[Ints, int, int]:
    """Match weighted sets by lists; return matches, pairs in reach, and units. The least product must be above 0.

    If `filtered`, lists are read, rarest item first, until the remaining items cannot add up to the least product. The
    elements found are then verified.
    """
    found, count, compared, units = np.empty((64, 2), np.int64), 0, 0, 0
    many = len(stored.bounds) - 1
    counts, candidates = np.zeros(many, np.int64), np.empty(many, np.int64)
    for row in rows:
        first, last = overlap_range(probing.times, row, stored.times)
        compared += last - first
        start = probing.times.start[row]
        numbers, places = _rarest_lists(lists, probing.bounds, probing.items, row)
        length = _count_lookups(lists, numbers, places, probing.weights, need.least) if filtered else len(numbers)
        met, read = _find_candidates(lists, numbers[:length], first, last, counts, candidates)
        units += length * lookup + read
        units += met * filtered  # without the filter, products could be added up as lists are read
        for n in range(met):
            partner = candidates[n]
            counts[partner] = 0
            if stored.times.end[partner] > start and has_enough_product(probing, row, stored, partner, need):
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
    probing: SlotNumbers,
    stored: SlotNumbers,
    order: Ints,
    ranges: NumberRanges,
    distance: Any,
    whole: bool,  # noqa: FBT001 - Numba takes arguments by position
    lookup: int,
) -> tuple[Ints, int, int]:
    """Match numbers in sorted order: each element reads those from its lowest to its highest match."""
    found, count, compared, units = np.empty((64, 2), np.int64), 0, 0, 0
    ordered = stored.values[order]
    for row in rows:
        first, last = overlap_range(probing.times, row, stored.times)
        compared += last - first
        units += max(1, lookup)
        value, highest, start = probing.values[row], ranges.highest[row], probing.times.start[row]
        place = lower_bound(ordered, ranges.lowest[row], 0, len(ordered))
        while place < len(order) and ordered[place] <= highest:
            partner = order[place]
            near = is_near(value, ordered[place], distance, whole)
            place += 1
            units += 1
            if near and first <= partner < last and stored.times.end[partner] > start:
                found = append_pair(found, count, row, partner)
                count += 1
    return found[:count], compared, units

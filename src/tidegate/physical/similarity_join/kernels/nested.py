"""Find matches by comparing every pair. Each pair costs one unit."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Ints, Words
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.similarity_join.kernels.conditions import RequiredOverlap, RequiredProduct, is_match
from tidegate.physical.similarity_join.kernels.pairs import append_pair, count_ones, lower_bound, overlap_range
from tidegate.physical.similarity_join.kernels.slot_columns import SlotBits, SlotNumbers, SlotSets, WeightedSets

CHUNK = 32
"""Number of sets that are checked together first, as most share too few items."""


@compiled
def by_bits(rows: Ints, probing: SlotSets, stored: SlotBits, need: RequiredOverlap) -> tuple[Ints, int]:
    """Match sets as bits of words; return pairs that match, and the number of comparisons."""
    found, count, compared = np.empty((64, 2), np.int64), 0, 0
    bounds, items, sizes, codes, bits = probing.bounds, probing.items, stored.sizes, stored.codes, stored.bits
    words, mine = len(bits), np.zeros(len(bits), np.uint64)
    for row in rows:
        first, last = overlap_range(probing.times, row, stored.times)
        compared += last - first
        for word in range(words):
            mine[word] = 0
        for k in range(bounds[row], bounds[row + 1]):
            place = lower_bound(codes, items[k], 0, len(codes))
            if place < len(codes) and codes[place] == items[k]:
                mine[place >> 6] |= np.uint64(1) << np.uint64(place & 63)
        size, start = bounds[row + 1] - bounds[row], probing.times.start[row]
        least = max(need.least, size) if need.probing else need.least
        for low in range(first, last, CHUNK):
            high = min(last, low + CHUNK)
            if words == 2 and not _has_candidate(bits, low, high, mine[0], mine[1], least):
                continue
            for partner in range(low, high):
                common = 0
                for word in range(words):
                    common += count_ones(mine[word] & bits[word, partner])
                if common < least or not is_match(common, size, sizes[partner], need):
                    continue
                if stored.times.end[partner] > start:
                    found = append_pair(found, count, row, partner)
                    count += 1
    return found[:count], compared


@inlined
def _has_candidate(bits: Words, low: int, high: int, one: np.uint64, two: np.uint64, least: int) -> bool:
    """Return whether any set shares enough items. Without branches, the compiler can vectorize the loop."""
    most = 0
    for partner in range(low, high):
        most = max(most, count_ones(one & bits[0, partner]) + count_ones(two & bits[1, partner]))
    return most >= least


@inlined
def count_common(bounds: Ints, items: Ints, row: int, others: Ints, other_items: Ints, partner: int) -> int:
    """Return the number of items that two sets share."""
    one, two, common = bounds[row], others[partner], 0
    while one < bounds[row + 1] and two < others[partner + 1]:
        if items[one] == other_items[two]:
            common += 1
        step = items[one] <= other_items[two]
        two += items[one] >= other_items[two]
        one += step
    return common


@inlined
def most_common_items(one: np.uint64, size: int, two: np.uint64, other_size: int) -> int:
    """Return the most items that two sets can share, by their signatures."""
    return min(size - count_ones(one & ~two), other_size - count_ones(two & ~one))


@compiled
def by_merging(
    rows: Ints, probing: SlotSets, signatures: Words, stored: SlotSets, other_signatures: Words, need: RequiredOverlap
) -> tuple[Ints, int]:
    """Match sets item by item, unless signatures rule a pair out; return pairs, and the number of comparisons."""
    found, count, compared = np.empty((64, 2), np.int64), 0, 0
    times, bounds, items = probing
    stored_times, others, other_items = stored
    for row in rows:
        first, last = overlap_range(times, row, stored_times)
        compared += last - first
        size, start, mine = bounds[row + 1] - bounds[row], times.start[row], signatures[row]
        for partner in range(first, last):
            other = others[partner + 1] - others[partner]
            if not is_match(most_common_items(mine, size, other_signatures[partner], other), size, other, need):
                continue
            common = count_common(bounds, items, row, others, other_items, partner)
            if is_match(common, size, other, need) and stored_times.end[partner] > start:
                found = append_pair(found, count, row, partner)
                count += 1
    return found[:count], compared


@inlined
def has_enough_product(
    probing: WeightedSets, row: int, stored: WeightedSets, partner: int, need: RequiredProduct
) -> bool:
    """Return whether the products of common items' weights, in item order, add up. NaN is the greatest number."""
    bounds, items, others, other_items = probing.bounds, probing.items, stored.bounds, stored.items
    one, two, total, size = bounds[row], others[partner], 0.0, 0.0
    while one < bounds[row + 1] and two < others[partner + 1]:
        if items[one] == other_items[two]:
            product = probing.weights[one] * stored.weights[two]
            total += product
            size += abs(product)
        step = items[one] <= other_items[two]
        two += items[one] >= other_items[two]
        one += step
    if need.doubt > 0.0:
        total += need.doubt * size
    return not total < need.least


@compiled
def by_product(
    rows: Ints,
    probing: WeightedSets,
    signatures: Words,
    stored: WeightedSets,
    other_signatures: Words,
    need: RequiredProduct,
) -> tuple[Ints, int]:
    """Match weighted sets; return pairs that match, and the number of comparisons."""
    found, count, compared = np.empty((64, 2), np.int64), 0, 0
    for row in rows:
        first, last = overlap_range(probing.times, row, stored.times)
        compared += last - first
        mine, start = signatures[row], probing.times.start[row]
        for partner in range(first, last):
            if mine & other_signatures[partner] == 0 and need.least > 0.0:
                continue
            if stored.times.end[partner] > start and has_enough_product(probing, row, stored, partner, need):
                found = append_pair(found, count, row, partner)
                count += 1
    return found[:count], compared


@inlined
def is_near(one: float, other: float, distance: float | np.uint64, whole: bool) -> bool | np.bool_:  # noqa: FBT001 - Numba takes arguments by position
    """Return whether numbers differ by at most a distance. Differences of whole numbers do not overflow."""
    if not whole:
        return abs(one - other) <= distance
    if one >= other:
        return np.uint64(one) - np.uint64(other) <= np.uint64(distance)
    return np.uint64(other) - np.uint64(one) <= np.uint64(distance)


@compiled
def by_equality(rows: Ints, probing: SlotNumbers, stored: SlotNumbers) -> tuple[Ints, int]:
    """Match equal codes; return pairs that match, and the number of comparisons."""
    found, count, compared = np.empty((64, 2), np.int64), 0, 0
    for row in rows:
        first, last = overlap_range(probing.times, row, stored.times)
        compared += last - first
        code, start = probing.values[row], probing.times.start[row]
        for partner in range(first, last):
            if code == stored.values[partner] and stored.times.end[partner] > start:
                found = append_pair(found, count, row, partner)
                count += 1
    return found[:count], compared


@compiled
def by_distance(
    rows: Ints,
    probing: SlotNumbers,
    stored: SlotNumbers,
    distance: float | np.uint64,
    whole: bool,  # noqa: FBT001 - Numba takes arguments by position
) -> tuple[Ints, int]:
    """Match numbers that are near; return pairs that match, and the number of comparisons."""
    found, count, compared = np.empty((64, 2), np.int64), 0, 0
    for row in rows:
        first, last = overlap_range(probing.times, row, stored.times)
        compared += last - first
        value, start = probing.values[row], probing.times.start[row]
        for partner in range(first, last):
            if is_near(value, stored.values[partner], distance, whole) and stored.times.end[partner] > start:
                found = append_pair(found, count, row, partner)
                count += 1
    return found[:count], compared

"""Matches of some elements of a slot with the elements of a slot of the other stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Protocol

import numpy as np

from tidegate.physical.common.arrays import Ints, Mask, Words
from tidegate.physical.common.kernels.hashing import read_only
from tidegate.physical.similarity_join.kernels import indexed, keyed, nested
from tidegate.physical.similarity_join.kernels.conditions import (
    Anything,
    Condition,
    Equal,
    InnerProduct,
    Near,
    RequiredOverlap,
    RequiredProduct,
    SameKey,
    needs_common_items,
    required_overlap,
)
from tidegate.physical.similarity_join.kernels.pairs import MatchedPairs, all_pairs, count_pairs
from tidegate.physical.similarity_join.kernels.slot_columns import NumberRanges, SlotSets
from tidegate.physical.similarity_join.kernels.slots import MOST_BIT_ITEMS, Slot
from tidegate.physical.similarity_join.kernels.values import Numbers

Predicate = Callable[[Ints, Ints], Mask]
"""Function that returns which pairs of rows, of the left and of the right stream, match."""


class Finder(Protocol):
    """Function that returns the pairs of some elements and stored ones that a predicate has to check."""

    def __call__(self, probing: Slot, rows: Ints, stored: Slot, *, flipped: bool) -> MatchedPairs: ...


BLOCK = 1 << 16
"""Approximate number of pairs in a call of a predicate."""


class Method(Enum):
    """Method to find matches."""

    NESTED = "nested"
    INDEXED = "indexed"
    FILTERED = "filtered"


def find_matches(
    condition: Condition,
    method: Method,
    probing: Slot,
    rows: Ints,
    stored: Slot,
    *,
    flipped: bool,
    lookup: int = 0,
) -> MatchedPairs:
    """Return pairs that match and are valid together. If `flipped`, the probing elements are of the right stream.

    All methods find the same pairs.
    """
    times = probing.times, stored.times
    match condition:
        case Anything():
            compared = count_pairs(times[0], rows, times[1])
            return MatchedPairs(all_pairs(rows, *times), compared, compared)
        case SameKey():
            return keyed.match_keys(probing, rows, stored)
        case Equal() if isinstance(probing.values, Numbers):
            return _match_equal(method, probing, rows, stored, lookup)
        case Near(distance):
            return _match_near(method, probing, rows, stored, distance, lookup)
        case InnerProduct():
            return _match_product(method, probing, rows, stored, condition, lookup)
        case _ if method is Method.NESTED or not needs_common_items(condition):
            return _match_sets_nested(probing, rows, stored, required_overlap(condition, flipped=flipped))
    need = required_overlap(condition, flipped=flipped)
    if method is Method.INDEXED:
        return MatchedPairs(
            *indexed.by_lists(rows, probing.timed_sets, stored.timed_sets, stored.item_lists, need, lookup)
        )
    signed = *_signed_sets(probing), *_signed_sets(stored)
    return MatchedPairs(*indexed.by_prefixes(rows, *signed, stored.prefix_lists(need), need, lookup))


def blocks(condition: Condition, probing: Slot, rows: Ints, stored: Slot) -> Iterator[Ints]:
    """Yield rows in blocks, each with about as many pairs as a predicate checks in one call."""
    match condition:
        case Anything():
            length = max(1, BLOCK // len(stored))
            for first in range(0, len(rows), length):
                yield rows[first : first + length]
        case SameKey():
            numbers = np.cumsum(keyed.count_partners(probing, rows, stored)) // BLOCK
            yield from np.split(rows, np.flatnonzero(np.diff(numbers)) + 1)
        case _:
            yield rows


def _as_matched_pairs(found: tuple[Ints, int]) -> MatchedPairs:
    pairs, compared = found
    return MatchedPairs(pairs, compared, compared)


def _match_sets_nested(probing: Slot, rows: Ints, stored: Slot, need: RequiredOverlap) -> MatchedPairs:
    if len(stored.codes) > MOST_BIT_ITEMS:
        return _as_matched_pairs(nested.by_merging(rows, *_signed_sets(probing), *_signed_sets(stored), need))
    return _as_matched_pairs(nested.by_bits(rows, probing.timed_sets, stored.bit_sets, need))


def _signed_sets(slot: Slot) -> tuple[SlotSets, Words]:
    return slot.timed_sets, slot.signatures


def _match_equal(method: Method, probing: Slot, rows: Ints, stored: Slot, lookup: int) -> MatchedPairs:
    mine, other = probing.timed_codes, stored.timed_codes
    if method is Method.NESTED:
        return _as_matched_pairs(nested.by_equality(rows, mine, other))
    ranges, zero = NumberRanges(mine.values, mine.values), np.uint64(0)
    return MatchedPairs(*indexed.by_order(rows, mine, other, stored.order_of_codes, ranges, zero, True, lookup))  # noqa: FBT003 - Numba takes arguments by position


def _match_near(method: Method, probing: Slot, rows: Ints, stored: Slot, distance: float, lookup: int) -> MatchedPairs:
    mine, other = probing.timed_numbers, stored.timed_numbers
    whole = mine.values.dtype.kind != "f"
    if distance < 0 or np.isnan(distance):
        compared = count_pairs(mine.times, rows, other.times)
        return MatchedPairs(np.empty((0, 2), np.int64), compared, compared)
    exact = np.uint64(min(distance, 2**64 - 2**11)) if whole else np.float64(distance)
    if method is Method.NESTED:
        return _as_matched_pairs(nested.by_distance(rows, mine, other, exact, whole))
    lowest, highest = _near_ranges(mine.values, distance, whole=whole)
    ranges = NumberRanges(read_only(lowest), read_only(highest))
    return MatchedPairs(*indexed.by_order(rows, mine, other, stored.order_of_numbers, ranges, exact, whole, lookup))


def _near_ranges(values: Any, distance: float, *, whole: bool) -> tuple[Any, Any]:
    """Return the ranges in which numbers may be near, slightly widened for the rounding of floats."""
    if whole:
        reach = np.int64(min(distance, 2**63 - 1))
        limits = np.iinfo(np.int64)
        low = np.where(values < limits.min + reach, limits.min, values - reach)
        return low, np.where(values > limits.max - reach, limits.max, values + reach)
    with np.errstate(invalid="ignore"):
        slack = (np.abs(values) + distance) * 1e-14
        low, high = values - distance - slack, values + distance + slack
    endless = np.isnan(low) & ~np.isnan(values)
    return np.where(endless, -np.inf, low), np.where(endless, np.inf, high)


def _match_product(
    method: Method, probing: Slot, rows: Ints, stored: Slot, wanted: InnerProduct, lookup: int
) -> MatchedPairs:
    mine, other = probing.weighted_sets, stored.weighted_sets
    need = RequiredProduct(float(wanted.least), float(wanted.doubt))
    if method is Method.NESTED or wanted.least <= 0:
        return _as_matched_pairs(nested.by_product(rows, mine, probing.signatures, other, stored.signatures, need))
    filtered = method is Method.FILTERED
    return MatchedPairs(*indexed.by_weights(rows, mine, other, stored.item_lists, need, filtered, lookup))

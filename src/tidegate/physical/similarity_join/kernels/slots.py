"""Elements of one stream that start in the same time slot, and data derived from them to find matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tidegate.physical.common.arrays import Columns, Floats, Ints, Words
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.hashing import read_only
from tidegate.physical.similarity_join.kernels.conditions import RequiredOverlap, least_common
from tidegate.physical.similarity_join.kernels.key_lists import KeyLists, list_keys
from tidegate.physical.similarity_join.kernels.slot_columns import (
    ItemLists,
    SlotBits,
    SlotNumbers,
    SlotSets,
    SlotTimes,
    WeightedSets,
)
from tidegate.physical.similarity_join.kernels.values import Numbers, Sets, Values, concatenate_values, values_of

MOST_BIT_ITEMS = 256
"""Most distinct items of a slot whose sets are compared as bits."""

MOST_NEW_SLOTS, FULL_SLOT = 64, 256
"""Most slots for new elements, unless each of them has this many elements: every slot has a cost."""


@dataclass(frozen=True, slots=True, eq=False)
class SlotArrivals:
    """New elements of one stream.

    `row` identifies an element to the caller, and is unique in its stream. `kind` is the number of its utility class.
    """

    start: Ints
    end: Ints
    row: Ints
    values: Values
    kind: Ints | None = None

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Ints) -> SlotArrivals:
        kind = None if self.kind is None else self.kind[rows]
        return SlotArrivals(self.start[rows], self.end[rows], self.row[rows], self.values.take(rows), kind)


@dataclass(frozen=True, eq=False)
class Slot:
    """Slot of elements. Its columns are immutable and saved; derived data is made on request."""

    columns: Columns
    """Columns by element."""
    items: Columns
    """Columns by item of an element, if the elements are sets."""

    def __len__(self) -> int:
        return len(self.columns["start"])

    @cached_property
    def row(self) -> Ints:
        return read_only(self.columns["row"])

    @property
    def kind(self) -> Ints:
        return self.columns["kind"]

    @cached_property
    def values(self) -> Values:
        return values_of(self.columns, self.items)

    @cached_property
    def sets(self) -> Sets:
        assert isinstance(self.values, Sets)
        return self.values

    @cached_property
    def times(self) -> SlotTimes:
        start, end = read_only(self.columns["start"]), read_only(self.columns["end"])
        return SlotTimes(start, end, np.maximum.accumulate(end))

    @cached_property
    def timed_sets(self) -> SlotSets:
        return SlotSets(self.times, self.sets.bounds, self.sets.items)

    @cached_property
    def bit_sets(self) -> SlotBits:
        return SlotBits(self.times, self.sizes, self.codes, self.bits)

    @cached_property
    def weighted_sets(self) -> WeightedSets:
        assert self.sets.weights is not None
        return WeightedSets(self.times, self.sets.bounds, self.sets.items, self.sets.weights)

    @cached_property
    def timed_numbers(self) -> SlotNumbers:
        assert isinstance(self.values, Numbers)
        return SlotNumbers(self.times, self.values.values)

    @cached_property
    def timed_codes(self) -> SlotNumbers:
        return SlotNumbers(self.times, self.codes)

    @cached_property
    def extent(self) -> tuple[int, int, int, int]:
        """Return the first and last start, and the first and last end."""
        start, end, until = self.times
        return int(start[0]), int(start[-1]), int(end.min()), int(until[-1])

    @cached_property
    def rows_by_kind(self) -> Mapping[int, Ints]:
        """Return the elements of each kind, in the order of kinds."""
        if not self.kind.any():
            return {0: np.arange(len(self))}
        order = np.argsort(self.kind, kind="stable")
        kinds, first = np.unique(self.kind[order], return_index=True)
        return dict(zip(kinds.tolist(), np.split(order, first[1:]), strict=True))

    @cached_property
    def signatures(self) -> Words:
        return _signatures(self.sets.bounds, self.sets.items)

    @cached_property
    def codes(self) -> Ints:
        """Return integers that are equal if the numbers are; for sets, the distinct items."""
        if isinstance(self.values, Sets):
            return read_only(np.unique(self.values.items))
        return read_only(number_codes(self.values))

    @cached_property
    def key_lists(self) -> KeyLists:
        """Return the elements by key; the numbers are codes of keys."""
        return list_keys(self.codes)

    @cached_property
    def bits(self) -> Words:
        """Return a word for each element and each 64 distinct items. The number of words is a power of two."""
        words = 1
        while 64 * words < len(self.codes):
            words *= 2
        return _item_bits(self.sets.bounds, np.searchsorted(self.codes, self.sets.items), words)

    @cached_property
    def item_lists(self) -> ItemLists:
        """Return lists of all items."""
        return _build_lists(self.sets, self.codes, self._ranks, self.sizes)

    def prefix_lists(self, need: RequiredOverlap) -> ItemLists:
        """Return lists of prefix items only: matching sets share at least one of these."""
        if need not in self._prefix_cache:
            ranked = self._ranks[np.searchsorted(self.codes, self.sets.items)]
            lengths = _prefix_lengths(self.sets.bounds, need)
            self._prefix_cache[need] = _build_lists(
                _keep_rarest(self.sets, ranked, lengths), self.codes, self._ranks, self.sizes
            )
        return self._prefix_cache[need]

    @cached_property
    def order_of_numbers(self) -> Ints:
        """Return the elements in the order of their numbers, NaN last."""
        assert isinstance(self.values, Numbers)
        return np.argsort(self.values.values, kind="stable")

    @cached_property
    def order_of_codes(self) -> Ints:
        return np.argsort(self.codes, kind="stable")

    @cached_property
    def _prefix_cache(self) -> dict[RequiredOverlap, ItemLists]:
        return {}

    @cached_property
    def sizes(self) -> Ints:
        return np.diff(self.sets.bounds)

    @cached_property
    def _ranks(self) -> Ints:
        counts = np.bincount(np.searchsorted(self.codes, self.sets.items), minlength=len(self.codes))
        ranks = np.empty(len(self.codes), np.int64)
        ranks[np.argsort(counts, kind="stable")] = np.arange(len(self.codes))
        return ranks


def number_codes(numbers: Numbers) -> Ints:
    """Return integers that are equal exactly if the numbers are."""
    values = numbers.values
    if values.dtype.kind != "f":
        return values.astype(np.int64, copy=False)
    same = np.where(np.isnan(values), np.nan, values + 0.0)
    return same.astype(np.float64).view(np.int64)


def split_into_slots(arrivals: SlotArrivals, width: int) -> dict[int, Slot]:
    """Return elements by slot, in each slot in the order of time and row.

    If few elements lie in many slots, as when a stream catches up, several slots are merged into one.
    """
    if not len(arrivals):
        return {}
    order = np.lexsort((arrivals.row, arrivals.start))
    numbers = arrivals.start[order] // width
    kind = np.zeros(len(arrivals), np.int64) if arrivals.kind is None else arrivals.kind
    found, first = np.unique(numbers, return_index=True)
    together = -(-len(found) // max(MOST_NEW_SLOTS, len(numbers) // FULL_SLOT))
    if together > 1:
        first = first[::together]
        found = numbers[np.append(first[1:], len(numbers)) - 1]
    names = {"start": arrivals.start, "end": arrivals.end, "row": arrivals.row, "kind": kind}
    return {
        number: _build_slot({name: column[rows] for name, column in names.items()}, arrivals.values.take(rows))
        for number, rows in zip(found.tolist(), np.split(order, first[1:]), strict=True)
    }


def merge_slots(one: Slot, other: Slot) -> Slot:
    """Merge two slots of the same number."""
    names = ("start", "end", "row", "kind")
    together = {name: np.concatenate([one.columns[name], other.columns[name]]) for name in names}
    order = np.lexsort((together["row"], together["start"]))
    values = concatenate_values([one.values, other.values]).take(order)
    return _build_slot({name: column[order] for name, column in together.items()}, values)


def _build_slot(columns: Columns, values: Values) -> Slot:
    return Slot({**columns, **values.columns()}, values.item_columns())


def _build_lists(sets: Sets, codes: Ints, ranks: Ints, sizes: Ints) -> ItemLists:
    weights = np.empty(0, np.float64) if sets.weights is None else sets.weights
    numbers = np.searchsorted(codes, sets.items)
    lists = _fill_lists(read_only(sets.bounds), numbers, read_only(weights), len(codes))
    return ItemLists(codes, ranks, *lists, np.flatnonzero(sizes == 0))


@compiled
def _signatures(bounds: Ints, items: Ints) -> Words:
    """Return words with a bit for each item, by its hash. They rule out most pairs of sets."""
    signatures = np.zeros(len(bounds) - 1, np.uint64)
    for n in range(len(signatures)):
        for k in range(bounds[n], bounds[n + 1]):
            place = (np.uint64(items[k]) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(58)
            signatures[n] |= np.uint64(1) << place
    return signatures


@compiled
def _item_bits(bounds: Ints, numbers: Ints, words: int) -> Words:
    bits = np.zeros((words, len(bounds) - 1), np.uint64)
    for n in range(len(bounds) - 1):
        for k in range(bounds[n], bounds[n + 1]):
            bits[numbers[k] >> 6, n] |= np.uint64(1) << np.uint64(numbers[k] & 63)
    return bits


@compiled
def _fill_lists(bounds: Ints, numbers: Ints, weights: Floats, items: int) -> tuple[Ints, Ints, Floats, Floats]:
    ends = np.zeros(items + 1, np.int64)
    for number in numbers:
        ends[number + 1] += 1
    for item in range(items):
        ends[item + 1] += ends[item]
    rows, placed = np.empty(len(numbers), np.int64), ends.copy()
    listed, heaviest = np.empty(len(weights), np.float64), np.zeros(items, np.float64)
    for n in range(len(bounds) - 1):
        for k in range(bounds[n], bounds[n + 1]):
            number = numbers[k]
            rows[placed[number]] = n
            if len(weights):
                listed[placed[number]] = weights[k]
                weight = np.inf if np.isnan(weights[k]) else abs(weights[k])
                heaviest[number] = max(heaviest[number], weight)
            placed[number] += 1
    return ends, rows, listed, heaviest


@compiled
def _prefix_lengths(bounds: Ints, need: RequiredOverlap) -> Ints:
    lengths = np.empty(len(bounds) - 1, np.int64)
    for n in range(len(lengths)):
        size = bounds[n + 1] - bounds[n]
        lengths[n] = max(0, min(size, size - least_common(size, need.stored, need) + 1))
    return lengths


def _keep_rarest(sets: Sets, ranked: Ints, lengths: Ints) -> Sets:
    """Return the rarest items of each set, as many as `lengths` says."""
    owners = np.repeat(np.arange(len(sets)), np.diff(sets.bounds))
    order = np.lexsort((ranked, owners))
    place = np.arange(len(order)) - sets.bounds[owners]
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Sets(bounds, sets.items[order][place < lengths[owners]])

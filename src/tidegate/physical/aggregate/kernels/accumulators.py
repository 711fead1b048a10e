"""Layout of the accumulators of a group in its row of integers, and moves to a wider layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from tidegate.physical.aggregate.kernels.exact_sum import INTEGER_DIGITS, SPECIALS, normalise
from tidegate.physical.aggregate.kernels.sweep import DOUBLE, INTEGER
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled


@dataclass(frozen=True, slots=True)
class AccumulatorLayout:
    """Layout of a row: number of elements, numbers of values, special counters of doubles, digits of sums.

    `counted` columns have a number of values. The first of them are summed; these have a kind, and digits [low, low +
    size).
    """

    counted: int
    kinds: tuple[int, ...]
    lows: tuple[int, ...]
    sizes: tuple[int, ...]

    @staticmethod
    def smallest(counted: int, kinds: tuple[int, ...]) -> AccumulatorLayout:
        sizes = tuple(INTEGER_DIGITS if kind == INTEGER else 0 for kind in kinds)
        return AccumulatorLayout(counted, kinds, (0,) * len(kinds), sizes)

    @property
    def fixed_width(self) -> int:
        """Return the width of the part before the digits."""
        return 1 + self.counted + SPECIALS * self.kinds.count(DOUBLE)

    @property
    def places(self) -> tuple[int, ...]:
        """Return where the digits of each summed column begin, and finally the width of a row."""
        return tuple(accumulate(self.sizes, initial=self.fixed_width))

    def special_places(self) -> tuple[int, ...]:
        """Return where the special counters of each summed column begin."""
        before = accumulate((SPECIALS * kind for kind in self.kinds), initial=1 + self.counted)
        return tuple(before)[: len(self.kinds)]

    def columns_for_sweep(self, wanted: Sequence[int]) -> Ints:
        """Return the columns as the sweep's program needs them; `wanted` says whose sum is wanted as a double."""
        rows = zip(self.kinds, self.places, self.sizes, self.lows, self.special_places(), wanted, strict=False)
        return np.array(list(rows), np.int64).reshape(len(self.kinds), 6)

    def with_room_for(self, needs: Sequence[tuple[int, int]]) -> AccumulatorLayout:
        """Return a layout that also has room for numbers made of the given digits, and for their carries."""
        lows, sizes = list(self.lows), list(self.sizes)
        for column, (low, high) in enumerate(needs):
            if self.kinds[column] == DOUBLE:
                ranges = [(a, b) for a, b in ((low, high), self._digit_range(column)) if a < b]
                lows[column] = min((a for a, _ in ranges), default=0)
                sizes[column] = max((b for _, b in ranges), default=-1) + 1 - lows[column]
        return replace(self, lows=tuple(lows), sizes=tuple(sizes))

    def _digit_range(self, column: int) -> tuple[int, int]:
        return self.lows[column], self.lows[column] + self.sizes[column]


def move_to_layout(sums: Ints, old: AccumulatorLayout, new: AccumulatorLayout, *, rows: int) -> Ints:
    """Move accumulators to a layout that covers all digits in use, and add zeros for further groups."""
    wide = np.zeros((rows, new.places[-1]), np.int64)
    known = len(sums)
    wide[:known, : old.fixed_width] = sums[:, : old.fixed_width]
    for column in range(len(old.kinds)):
        first = new.places[column] + old.lows[column] - new.lows[column]
        digits = sums[:, old.places[column] : old.places[column + 1]]
        if old.sizes[column]:
            wide[:known, first : first + old.sizes[column]] = digits
    return wide


def trim_sums(sums: Ints, layout: AccumulatorLayout, groups: Ints) -> tuple[Ints, AccumulatorLayout]:
    """Carry, and keep of the given groups the digits that are not zero in all of them."""
    lows, sizes = list(layout.lows), list(layout.sizes)
    kept = [np.arange(layout.fixed_width)]
    for column, (at, size) in enumerate(zip(layout.places, layout.sizes, strict=False)):
        normalise(sums, at, size)
        first, last = (0, size) if layout.kinds[column] == INTEGER else _nonzero_digits(sums, groups, at, size)
        lows[column], sizes[column] = (layout.lows[column] + first, last - first) if first < last else (0, 0)
        kept.append(np.arange(at + first, at + last))
    return _take_places(sums, groups, np.concatenate(kept)), replace(layout, lows=tuple(lows), sizes=tuple(sizes))


@compiled
def _nonzero_digits(sums: Ints, groups: Ints, at: int, size: int) -> tuple[int, int]:
    """Return the digits [first, last) outside of which all are zero; (0, 0) if all are."""
    first, last = size, 0
    for group in groups:
        for k in range(size):
            if sums[group, at + k] != 0:
                first, last = min(first, k), max(last, k + 1)
    return (first, last) if last > 0 else (0, 0)


@compiled
def _take_places(sums: Ints, groups: Ints, places: Ints) -> Ints:
    packed = np.empty((len(groups), len(places)), np.int64)
    for row in range(len(groups)):
        for place in range(len(places)):
            packed[row, place] = sums[groups[row], places[place]]
    return packed

"""Where the accumulators of a group stand in its row of integers, and how rows move to a wider layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from tidegate.physical.kernels.aggregate import DOUBLE, INTEGER
from tidegate.physical.kernels.exact_sum import INTEGER_DIGITS, SPECIALS, normalise

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """A row: number of elements, numbers of values, special counters of doubles, digits of sums.

    `counted` columns have a number of values; the first of them are summed and have a kind, and
    digits [low, low + size).
    """

    counted: int
    kinds: tuple[int, ...]
    lows: tuple[int, ...]
    sizes: tuple[int, ...]

    @staticmethod
    def smallest(counted: int, kinds: tuple[int, ...]) -> Layout:
        sizes = tuple(INTEGER_DIGITS if kind == INTEGER else 0 for kind in kinds)
        return Layout(counted, kinds, (0,) * len(kinds), sizes)

    @property
    def fixed(self) -> int:
        """The width of what is before the digits."""
        return 1 + self.counted + SPECIALS * self.kinds.count(DOUBLE)

    @property
    def places(self) -> tuple[int, ...]:
        """Where the digits of each summed column begin, and at last the width of a row."""
        return tuple(accumulate(self.sizes, initial=self.fixed))

    def specials(self) -> tuple[int, ...]:
        """Where the special counters of each summed column begin."""
        before = accumulate((SPECIALS * kind for kind in self.kinds), initial=1 + self.counted)
        return tuple(before)[: len(self.kinds)]

    def table(self, wanted: Sequence[int]) -> Ints:
        """The columns as the sweep's program has them; `wanted` tells whose sum is wanted as a double."""
        rows = zip(self.kinds, self.places, self.sizes, self.lows, self.specials(), wanted, strict=False)
        return np.array(list(rows), np.int64).reshape(len(self.kinds), 6)

    def covering(self, needs: Sequence[tuple[int, int]]) -> Layout:
        """Wide enough for more numbers, which are made of the given digits, and for their carries."""
        lows, sizes = list(self.lows), list(self.sizes)
        for column, (low, high) in enumerate(needs):
            if self.kinds[column] == DOUBLE:
                ranges = [(a, b) for a, b in ((low, high), self._range(column)) if a < b]
                lows[column] = min((a for a, _ in ranges), default=0)
                sizes[column] = max((b for _, b in ranges), default=-1) + 1 - lows[column]
        return replace(self, lows=tuple(lows), sizes=tuple(sizes))

    def _range(self, column: int) -> tuple[int, int]:
        return self.lows[column], self.lows[column] + self.sizes[column]


def moved(sums: Ints, old: Layout, new: Layout, *, rows: int) -> Ints:
    """Accumulators in another layout that covers all digits in use, with zeros for further groups."""
    wide = np.zeros((rows, new.places[-1]), np.int64)
    known = len(sums)
    wide[:known, : old.fixed] = sums[:, : old.fixed]
    for column in range(len(old.kinds)):
        first = new.places[column] + old.lows[column] - new.lows[column]
        digits = sums[:, old.places[column] : old.places[column + 1]]
        if old.sizes[column]:
            wide[:known, first : first + old.sizes[column]] = digits
    return wide


def trimmed(sums: Ints, layout: Layout) -> tuple[Ints, Layout]:
    """Carry, and part from the digits that are zero in all groups: only doubles that are there cost room."""
    lows, sizes = list(layout.lows), list(layout.sizes)
    kept = [np.arange(layout.fixed)]
    for column, (at, size) in enumerate(zip(layout.places, layout.sizes, strict=False)):
        normalise(sums, at, size)
        used = np.arange(size) if layout.kinds[column] == INTEGER else np.flatnonzero(sums[:, at : at + size].any(0))
        first, last = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 0)
        lows[column], sizes[column] = (layout.lows[column] + first, last - first) if last else (0, 0)
        kept.append(np.arange(at + first, at + last))
    return sums[:, np.concatenate(kept)], replace(layout, lows=tuple(lows), sizes=tuple(sizes))

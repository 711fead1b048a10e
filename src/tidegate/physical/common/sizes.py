"""Histories of sizes: how the size of a window or granularity changed over application time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.time import BEGINNING
from tidegate.values import value


class SizeChange(NamedTuple):
    """A size, the instant from which it is in force, and why."""

    instant: int
    size: int
    reason: str = ""


@value
class SizeHistory:
    """Sizes of a window or granularity over time: microseconds, or rows of a count window.

    An element gets the size in force at its start. The first size is also in force before its own instant.
    """

    changes: tuple[SizeChange, ...]

    @staticmethod
    def of(size: int) -> SizeHistory:
        """Return the history of a size that was always in force."""
        return SizeHistory((SizeChange(BEGINNING, size),))

    def at(self, times: Ints) -> Ints:
        """Return the size in force at each time.

        Examples
        --------
        >>> SizeHistory.of(10).changed(5, 7).at(np.array([4, 5, 6])).tolist()
        [10, 7, 7]
        """
        instants = np.array([each.instant for each in self.changes[1:]], np.int64)
        sizes = np.array([each.size for each in self.changes], np.int64)
        return sizes[np.searchsorted(instants, times, side="right")]

    def size_at(self, time: int) -> int:
        """Return the size in force at one time."""
        return self.changes[self._position(time)].size

    @property
    def newest(self) -> SizeChange:
        return self.changes[-1]

    def changed(self, instant: int, size: int, reason: str = "") -> SizeHistory:
        """Return the history with another size from an instant on, which is later than the changes so far.

        The same size as before is no change.
        """
        if instant <= self.newest.instant:
            raise ValueError(f"a change at {instant} is not after the one at {self.newest.instant}")
        if size == self.newest.size:
            return self
        return SizeHistory((*self.changes, SizeChange(instant, size, reason)))

    def trimmed(self, before: int) -> SizeHistory:
        """Return the history without the sizes that were in force only before an instant (erratum E-27).

        Examples
        --------
        >>> SizeHistory.of(10).changed(5, 7).changed(9, 8).trimmed(6).at(np.array([6, 9])).tolist()
        [7, 8]
        """
        first = self._position(before)
        return SizeHistory(self.changes[first:]) if first else self

    def in_force(self, begin: int, end: int) -> tuple[SizeChange, ...]:
        """Return the sizes that were in force at some time in [begin, end), also if they began before."""
        last = max(self._position(end - 1), self._position(begin))
        return self.changes[self._position(begin) : last + 1]

    def _position(self, time: int) -> int:
        """Return the position of the change in force at a time."""
        return max(bisect_right(self.changes, time, key=lambda each: each.instant) - 1, 0)


SizeHistories = Mapping[str, SizeHistory]
"""Histories by the keys of operators (`Adjustable`); an operator without one has the best size."""

NO_SIZES: SizeHistories = {}

"""Elements of the sliding window, in chunks in time order; a chunk is dropped when all of it has expired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.subscriptions.kernels.boxes import Points
from tidegate.physical.subscriptions.kernels.sliding_model import (
    FIRST,
    LAST,
    NumberedElements,
    axes_of,
    columns_by_axis,
)

TimedElements = tuple[NumberedElements, Ints]
"""Elements and their times."""


@dataclass(frozen=True, slots=True, eq=False)
class WindowChunk:
    """Elements with their times, ascending."""

    number: int
    counted: NumberedElements
    time: Ints
    columns: Columns

    def __len__(self) -> int:
        return len(self.time)

    def elements_between(self, after: int, until: int, first: int = 0, last: int = LAST) -> TimedElements:
        """Return the elements with time in (after, until] and number in [first, last)."""
        least, most = np.searchsorted(self.time, [after, until], side="right")
        begin, end = np.searchsorted(self.counted.number, [first, last])
        begin, end = max(begin, least), min(end, most)
        return self.counted.part(begin, max(begin, end)), self.time[begin : max(begin, end)]


@dataclass(frozen=True, slots=True, eq=False)
class SlidingWindow:
    """Elements that count at time `now`, the latest; chunks may begin with some that have expired."""

    length: int
    dimensions: int
    now: int = FIRST
    pushed: int = 0
    """Number of chunks made so far; it numbers them."""
    chunks: tuple[WindowChunk, ...] = ()

    def horizon(self, time: int) -> int:
        """Return the time after which elements count at a given time."""
        return max(time - self.length, FIRST)

    def expiring_elements(self, counted: NumberedElements, time: Ints) -> TimedElements:
        """Return the current and the new elements that expire up to the last of the given times."""
        until = self.horizon(int(time[-1]))
        own = int(np.searchsorted(time, until, side="right"))
        return _concat_timed(
            [*self._elements_between(self.horizon(self.now), until), (counted.part(0, own), time[:own])]
        )

    def changes_since(self, number: int, time: int) -> tuple[NumberedElements, NumberedElements]:
        """Return the elements from a number on that count now, and those before it that have expired since a time."""
        over = self.horizon(self.now)
        come = self._elements_between(over, LAST, number)
        gone = self._elements_between(self.horizon(time), over, 0, number)
        return _concat_timed([self._no_elements, *come])[0], _concat_timed([self._no_elements, *gone])[0]

    @property
    def _no_elements(self) -> TimedElements:
        none = np.empty(0, np.int64)
        return NumberedElements(Points(np.empty((self.dimensions, 0), np.int64), none), none), none

    def _elements_between(self, after: int, until: int, first: int = 0, last: int = LAST) -> list[TimedElements]:
        chunks = [each for each in self.chunks if each.time[0] <= until and each.time[-1] > after]
        return [chunk.elements_between(after, until, first, last) for chunk in chunks]

    def advance(self, counted: NumberedElements, time: Ints, kept: Mask, floor: int, most: int) -> SlidingWindow:
        """Move the window to the last of these times, and add the elements that are kept.

        Chunks may still need elements that counted at the time `floor`.
        """
        now, over = int(time[-1]), self.horizon(floor)
        chunks = [chunk for chunk in self.chunks if chunk.time[-1] > over]
        rows = np.flatnonzero(kept & (time > over))
        if len(rows) == 0:
            return replace(self, now=now, chunks=tuple(chunks))
        new: TimedElements = counted.take(rows), time[rows]
        while chunks and len(chunks[-1]) <= 2 * len(new[1]) and len(chunks[-1]) + len(new[1]) <= most:
            new = _concat_timed([chunks.pop().elements_between(over, now), new])
        chunks.append(_make_window_chunk(self.pushed, *new))
        return replace(self, now=now, pushed=self.pushed + 1, chunks=tuple(chunks))


def restore_window_chunk(number: int, columns: Mapping[str, Ints], dimensions: int) -> WindowChunk:
    own = (columns["weight"], columns["number"], columns["time"])
    weight, numbers, time = (np.require(column, np.int64, ["C", "W"]) for column in own)
    return WindowChunk(
        number, NumberedElements(Points(axes_of("place", columns, dimensions), weight), numbers), time, columns
    )


def _make_window_chunk(number: int, counted: NumberedElements, time: Ints) -> WindowChunk:
    points = counted.points
    columns = {
        "number": counted.number,
        "time": time,
        "weight": points.weight,
        **columns_by_axis("place", points.place),
    }
    return WindowChunk(number, counted, time, columns)


def _concat_timed(parts: list[TimedElements]) -> TimedElements:
    if len(parts) == 1:
        return parts[0]
    place = np.concatenate([part.points.place for part, _ in parts], axis=1)
    weight = np.concatenate([part.points.weight for part, _ in parts])
    number, time = np.concatenate([part.number for part, _ in parts]), np.concatenate([each for _, each in parts])
    return NumberedElements(Points(place, weight), number), time

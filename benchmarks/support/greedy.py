"""Omission one element at a time in plain Python, over a sorted list: what a short program for it would be."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from sortedcontainers import SortedList

Element = tuple[int, float]

Distances = list[float]
"""How far the nearest kept elements are: before an element, of greater value and of lesser value; and after it."""

BEFORE, AFTER = 0, 2
LEFT_ABOVE, LEFT_BELOW, RIGHT_ABOVE, RIGHT_BELOW = range(4)


class Greedy:
    """Keeps what is not bracketed both above and below, in closed windows."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.kept: SortedList[Element] = SortedList()
        self.distances: dict[Element, Distances] = {}

    def add(self, time: int, value: float) -> None:
        if (time, value) in self.distances:
            return
        mine = [inf] * 4
        gone = self._at_the_same_time(time, value, mine)
        gone += self._on_one_side(self.kept.irange(None, (time, -inf), reverse=True), time, value, mine, BEFORE)
        gone += self._on_one_side(self.kept.irange((time, inf)), time, value, mine, AFTER)
        for element in set(gone):
            self.kept.remove(element)
            del self.distances[element]
        if not self._is_bracketed(mine):
            self.kept.add((time, value))
            self.distances[time, value] = mine

    def _at_the_same_time(self, time: int, value: float, mine: Distances) -> list[Element]:
        """Let the new element and those at its time meet; returns those that it makes needless."""
        gone = []
        for other in self.kept.irange((time, -inf), (time, inf)):
            theirs = self.distances[other]
            if other[1] > value:
                mine[LEFT_ABOVE] = mine[RIGHT_ABOVE] = theirs[LEFT_BELOW] = theirs[RIGHT_BELOW] = 0
            else:
                mine[LEFT_BELOW] = mine[RIGHT_BELOW] = theirs[LEFT_ABOVE] = theirs[RIGHT_ABOVE] = 0
            if self._is_bracketed(theirs):
                gone.append(other)
        return gone

    def _on_one_side(
        self, others: Iterable[Element], time: int, value: float, mine: Distances, side: int
    ) -> list[Element]:
        """Let the new element and those on one side, the nearest first, meet; returns those that it makes needless."""
        gone = []
        above, below = side, side + 1
        their_above, their_below = AFTER - side, AFTER - side + 1
        for other in others:
            distance = abs(time - other[0])
            if distance > self.window or (mine[above] < inf and mine[below] < inf):
                break
            theirs = self.distances[other]
            if other[1] > value:
                mine[above] = min(mine[above], distance)
                theirs[their_below] = min(theirs[their_below], distance)
            elif other[1] < value:
                mine[below] = min(mine[below], distance)
                theirs[their_above] = min(theirs[their_above], distance)
            if self._is_bracketed(theirs):
                gone.append(other)
        return gone

    def _is_bracketed(self, distances: Distances) -> bool:
        left_above, left_below, right_above, right_below = distances
        return left_above + right_above <= self.window and left_below + right_below <= self.window

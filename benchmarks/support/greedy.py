"""Omission one element at a time in plain Python, over a sorted list: what a short program for it would be."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from sortedcontainers import SortedList

Element = tuple[int, float]


@dataclass(slots=True)
class Distances:
    """How far the nearest kept elements of greater and of lesser value are, before and after an element."""

    left_above: float = inf
    left_below: float = inf
    right_above: float = inf
    right_below: float = inf


class Greedy:
    """Keeps what is not bracketed both above and below, in closed windows."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.kept: SortedList[Element] = SortedList()
        self.distances: dict[Element, Distances] = {}

    def add(self, time: int, value: float) -> None:
        if (time, value) in self.distances:
            return
        mine = Distances()
        gone = self._at_the_same_time(time, value, mine)
        gone += self._before(time, value, mine)
        gone += self._after(time, value, mine)
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
                mine.left_above = mine.right_above = theirs.left_below = theirs.right_below = 0
            else:
                mine.left_below = mine.right_below = theirs.left_above = theirs.right_above = 0
            if self._is_bracketed(theirs):
                gone.append(other)
        return gone

    def _before(self, time: int, value: float, mine: Distances) -> list[Element]:
        gone = []
        for other in self.kept.irange(None, (time, -inf), reverse=True):
            distance = time - other[0]
            if distance > self.window or (mine.left_above < inf and mine.left_below < inf):
                break
            theirs = self.distances[other]
            if other[1] > value:
                mine.left_above = min(mine.left_above, distance)
                theirs.right_below = min(theirs.right_below, distance)
            elif other[1] < value:
                mine.left_below = min(mine.left_below, distance)
                theirs.right_above = min(theirs.right_above, distance)
            if self._is_bracketed(theirs):
                gone.append(other)
        return gone

    def _after(self, time: int, value: float, mine: Distances) -> list[Element]:
        gone = []
        for other in self.kept.irange((time, inf)):
            distance = other[0] - time
            if distance > self.window or (mine.right_above < inf and mine.right_below < inf):
                break
            theirs = self.distances[other]
            if other[1] > value:
                mine.right_above = min(mine.right_above, distance)
                theirs.left_below = min(theirs.left_below, distance)
            elif other[1] < value:
                mine.right_below = min(mine.right_below, distance)
                theirs.left_above = min(theirs.left_above, distance)
            if self._is_bracketed(theirs):
                gone.append(other)
        return gone

    def _is_bracketed(self, distances: Distances) -> bool:
        return (
            distances.left_above + distances.right_above <= self.window
            and distances.left_below + distances.right_below <= self.window
        )

"""The join by hand, in plain Python: for each key, two deques of the readings that can still meet others."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

Reading = tuple[int, int, float, int]
"""Time, side (0 for a, 1 for b), value and id."""


class DequeJoin:
    """State of one key. Readings of both streams must come in the order of their times."""

    __slots__ = ("distance", "sides", "threshold")

    def __init__(self, threshold: float, distance: int) -> None:
        self.threshold, self.distance = threshold, distance
        self.sides: tuple[deque[tuple[int, float, int]], ...] = (deque(), deque())

    def alarms(self, readings: Iterable[Reading]) -> list[tuple[int, int]]:
        """Take new readings, and return the ids of the pairs that they complete."""
        threshold, distance, sides = self.threshold, self.distance, self.sides
        found = []
        for time, side, value, id_ in readings:
            others = sides[1 - side]
            oldest = time - distance
            while others and others[0][0] < oldest:
                others.popleft()
            met = [other for _, v, other in others if value + v > threshold]
            if met:
                found += [(other, id_) if side else (id_, other) for other in met]
            sides[side].append((time, value, id_))
        return found

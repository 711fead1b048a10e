"""Which element completes which registered range, by definition: every query looks at every element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Side = tuple[float, bool, float, bool]
"""Low end, whether it is open, high end, whether it is open."""

Answer = tuple[int, int, int]
"""Id, position of the element, total."""


@dataclass(frozen=True)
class Query:
    """The total weight that is waited for in a range; a range has a side for each dimension."""

    id: int
    sides: tuple[Side, ...]
    threshold: int

    def holds(self, value: Sequence[float]) -> bool:
        return all(_inside(side, number) for side, number in zip(self.sides, value, strict=True))


def _inside(side: Side, number: float) -> bool:
    low, low_open, high, high_open = side
    above = number > low if low_open else number >= low
    return above and (number < high if high_open else number <= high)


@dataclass
class BruteForce:
    """Live queries with their totals so far; if they repeat, a complete one starts anew."""

    repeats: bool = False
    live: dict[int, tuple[Query, int]] = field(default_factory=dict)

    def register(self, queries: Sequence[Query]) -> None:
        self.live |= {query.id: (query, 0) for query in queries}

    def terminate(self, ids: Sequence[int]) -> list[bool]:
        return [self.live.pop(each, None) is not None for each in ids]

    def absorb(self, elements: Sequence[tuple[Sequence[float], int]]) -> list[Answer]:
        """Who becomes complete, in order of position and id."""
        matured = []
        for position, (value, weight) in enumerate(elements):
            for query, total in sorted(self.live.values(), key=lambda each: each[0].id):
                if query.holds(value):
                    self.live[query.id] = (query, total + weight)
                    if total + weight >= query.threshold:
                        matured.append((query.id, position, total + weight))
                        self._start_anew(query)
        return matured

    def _start_anew(self, query: Query) -> None:
        if self.repeats:
            self.live[query.id] = (query, 0)
        else:
            del self.live[query.id]

    def absorb_with(
        self, elements: Sequence[tuple[Sequence[float], int]], queries: Sequence[Query], position: Sequence[int]
    ) -> list[Answer]:
        """The same with queries that are registered before the elements at their positions."""
        matured = []
        for here in range(len(elements) + 1):
            self.register([query for query, place in zip(queries, position, strict=True) if place == here])
            matured += [(number, here, total) for number, _, total in self.absorb(elements[here : here + 1])]
        return matured

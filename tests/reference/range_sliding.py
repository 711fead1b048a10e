"""Which element completes which range within the last time, by definition: all that counts is added up anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reference.ranges import Query

Element = tuple[int, Sequence[float], int]
"""Time, value and weight."""


@dataclass
class SlidingBruteForce:
    """Live queries, each with the number of the first element that counts for it, and all elements."""

    length: int
    repeats: bool
    live: dict[int, tuple[Query, int]] = field(default_factory=dict)
    seen: list[Element] = field(default_factory=list)

    def register(self, queries: Sequence[Query]) -> None:
        self.live |= {query.id: (query, len(self.seen)) for query in queries}

    def terminate(self, ids: Sequence[int]) -> list[bool]:
        return [self.live.pop(each, None) is not None for each in ids]

    def total(self, query: Query, since: int) -> int:
        """The weight for a query at the last element."""
        now = self.seen[-1][0]
        counted = [(value, weight) for time, value, weight in self.seen[since:] if time > now - self.length]
        return sum(weight for value, weight in counted if query.holds(value))

    def absorb(self, elements: Sequence[Element]) -> list[tuple[int, int, int]]:
        """Who becomes complete, as (id, position of the element, total), in order of position and id."""
        matured = []
        for position, element in enumerate(elements):
            self.seen.append(element)
            for query, since in sorted(self.live.values(), key=lambda each: each[0].id):
                total = self.total(query, since)
                if total >= query.threshold:
                    matured.append((query.id, position, total))
                    del self.live[query.id]
                    if self.repeats:
                        self.register([query])
        return matured

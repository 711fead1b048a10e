"""Distances of arrivals, by definition: every pair of a whole arrival sequence is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Unit = Literal["rows", "time"]


@dataclass(frozen=True)
class Arrival:
    """An element of a stream, with its value; it arrives behind those before it in the sequence."""

    stream: str
    value: int
    time: int = 0


def between(sequence: Sequence[Arrival], start: int, end: int, stream: str) -> list[Arrival]:
    """Arrivals of a stream behind the first position, up to and including the second."""
    return [each for each in sequence[start + 1 : end + 1] if each.stream == stream]


def join_distance(sequence: Sequence[Arrival], parent: int, child: int, unit: Unit) -> int:
    """How far the child at one position is behind the parent at another; 0 if it came first."""
    if unit == "time":
        return max(sequence[child].time - sequence[parent].time, 0)
    return len(between(sequence, parent, child, sequence[child].stream)) if parent < child else 0


def clustering_distance(sequence: Sequence[Arrival], first: int, second: int, unit: Unit) -> int:
    """How far two arrivals of one value in a stream are apart."""
    if unit == "time":
        return sequence[second].time - sequence[first].time
    others = between(sequence, first, second, sequence[first].stream)
    return sum(each.value != sequence[first].value for each in others)


def scrambling_distance(sequence: Sequence[Arrival], first: int, second: int, unit: Unit) -> int:
    """How far a value is behind a greater one of its stream."""
    if unit == "time":
        return sequence[second].time - sequence[first].time
    return len(between(sequence, first, second, sequence[first].stream))


def join_distances(sequence: Sequence[Arrival], unit: Unit, parent: str = "P", child: str = "C") -> list[int]:
    """Of each parent that has a child, in the order of parents."""
    return [
        join_distance(sequence, i, j, unit)
        for i, each in enumerate(sequence)
        for j, other in enumerate(sequence)
        if (each.stream, other.stream) == (parent, child) and each.value == other.value
    ]


def clustering_distances(sequence: Sequence[Arrival], unit: Unit) -> list[int]:
    """Of each arrival of a value that has arrived before, the greatest."""
    return [
        max(clustering_distance(sequence, i, j, unit) for i in earlier)
        for j, each in enumerate(sequence)
        if (earlier := [i for i in range(j) if sequence[i].value == each.value])
    ]


def scrambling_distances(sequence: Sequence[Arrival], unit: Unit) -> list[int]:
    """Of each arrival, the greatest to a greater value before it; 0 if there is none."""
    return [
        max((scrambling_distance(sequence, i, j, unit) for i in range(j) if sequence[i].value > each.value), default=0)
        for j, each in enumerate(sequence)
    ]


def exact_k(distances: Iterable[int]) -> int:
    """The least k for which the constraint holds."""
    return max(distances, default=0)


def joins_within(sequence: Sequence[Arrival], unit: Unit, limit: dict[int, int]) -> list[int]:
    """Join distances of pairs that are not farther apart than the limit of their value, in either direction."""
    children = [i for i, each in enumerate(sequence) if each.stream == "C"]

    def gap(parent: int, child: int) -> int:
        """How far behind its child a parent is."""
        if unit == "time":
            return sequence[parent].time - sequence[child].time
        return len([i for i in children if child < i < parent])

    return [
        join_distance(sequence, i, j, unit)
        for i, each in enumerate(sequence)
        for j in children
        if each.stream == "P" and each.value == sequence[j].value
        if join_distance(sequence, i, j, unit) <= limit[each.value] and gap(i, j) <= limit[each.value]
    ]


def clusters_within(sequence: Sequence[Arrival], unit: Unit, limit: dict[int, int]) -> list[int]:
    """Clustering distances to the first arrival, where a value that is farther than its limit is first again."""
    first: dict[int, int] = {}
    distances = []
    for j, each in enumerate(sequence):
        apart = clustering_distance(sequence, first[each.value], j, unit) if each.value in first else None
        if apart is None or apart > limit[each.value]:
            first[each.value] = j
        else:
            distances.append(apart)
    return distances


def scrambling_within(sequence: Sequence[Arrival], unit: Unit, limit: int) -> list[int]:
    """Scrambling distances, where all that are farther than the limit are one farther."""
    return [min(each, limit + 1) for each in scrambling_distances(sequence, unit)]


def histogram(distances: Iterable[int]) -> tuple[int, ...]:
    """How many distances there are of each number of binary digits, up to the greatest."""
    digits = [each.bit_length() for each in distances]
    return tuple(digits.count(i) for i in range(max(digits, default=-1) + 1))


# --- arrival sequences with known adherence ---------------------------------------------------------

JOINS = [
    ([("P", 7), ("C", 1), ("C", 2), ("C", 7)], 3),
    ([("C", 7), ("P", 7)], 0),
]
"""Arrivals on both streams, and the exact k: the child is the third behind its parent; it came first."""

CLUSTERS = [([5, 8, 5, 10], 1)]

CLUSTER_MARKS = ([5, 8, 5, 10], [{5: 1}, {5: 1, 8: 2}, {5: 2, 8: 2}, {5: 2, 8: 2, 10: 4}], (1, {5, 8}))
"""Values, what is kept of each after each arrival, and which of them are over at the end for a k."""

ORDERS = [
    ([7, 5, 10], 1, [0, 1, 0]),
    ([3, 9, 4, 5, 9, 8], 4, [0, 0, 1, 2, 0, 4]),
]
"""Values, the exact k, and the distance of each; that of the last 8 is to the first 9."""

LOWEST = ([7, 5, 10], {2: 7, 1: 7, 0: 10})
"""Values, and for each k the value below which none comes any more."""

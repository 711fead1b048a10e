"""Columns with the sizes in force, by definition: the results at each instant, joined with the quality of then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from reference.values import Row
from tidegate.algebra.plan import Granularity, Plan

Changes = Sequence[tuple[int, int]]
"""Instants and sizes; before the first instant, the best size is in force."""


def with_sizes_in_force(
    relations: Mapping[int, Counter[Row]], windows: Sequence[tuple[int, Mapping[Plan, Changes]]]
) -> dict[int, Counter[Row]]:
    """The rows of each instant with the sizes of that instant.

    `windows` has for each column the best size, and the histories of its windows, of which the worst one counts.
    """
    return {
        instant: Counter({(*row, *(worst_at(instant, *each) for each in windows)): n for row, n in rows.items()})
        for instant, rows in relations.items()
    }


def worst_at(instant: int, best: int, histories: Mapping[Plan, Changes]) -> int:
    """The worst size that is in force at an instant: the largest granule, or the smallest window."""
    found = [
        next((size for begin, size in reversed(changes) if begin <= instant), best) for changes in histories.values()
    ]
    is_coarse = any(isinstance(node, Granularity) for node in histories)
    return (max if is_coarse else min)([best, *found])

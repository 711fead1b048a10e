"""Keyed joins by definition: all combinations whose keys are equal along all edges."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from reference.members import Member
from reference.values import is_equal
from tidegate.algebra.keyed_join import JoinEdge, KeyedJoin


def combined_along_edges(plan: KeyedJoin, sides: Sequence[Sequence[Member]]) -> list[Member]:
    """The combinations of one row of each input, as plain joins would have them."""
    return [
        Member(
            tuple(part for m in chosen for part in m.lineage),
            tuple(value for m in chosen for value in m.values),
            max(m.start for m in chosen),
        )
        for chosen in product(*sides)
        if all(_agrees(plan, edge, chosen) for edge in plan.edges) and _passes(plan, chosen)
    ]


def _passes(plan: KeyedJoin, chosen: Sequence[Member]) -> bool:
    """Whether all rows pass the conditions that the inputs have as columns."""
    return all(mark is None or _value(plan, which, chosen, mark) is True for which, mark in enumerate(plan.marks))


def _agrees(plan: KeyedJoin, edge: JoinEdge, chosen: Sequence[Member]) -> bool:
    pairs = zip(edge.parent_keys, edge.child_keys, strict=True)
    return all(_equal(_value(plan, edge.parent, chosen, a), _value(plan, edge.child, chosen, b)) for a, b in pairs)


def _equal(one: object, other: object) -> bool:
    """NULL equals nothing."""
    return one is not None and other is not None and is_equal(one, other)


def _value(plan: KeyedJoin, which: int, chosen: Sequence[Member], name: str) -> object:
    return chosen[which].values[plan.inputs[which].schema.names.index(name)]

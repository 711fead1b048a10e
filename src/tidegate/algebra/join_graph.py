"""Join graphs: inputs by position, and edges from many rows of a parent to the one row of a child."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal

from tidegate.algebra.keyed_join import JoinEdge

Shape = Literal["tree", "acyclic", "cyclic"]


def reached(count: int, edges: Sequence[JoinEdge]) -> tuple[frozenset[int], ...]:
    """For each of the inputs, all that are reached from it; itself is among them."""
    found = [{each} for each in range(count)]
    for _ in range(count):
        for edge in edges:
            found[edge.parent] |= found[edge.child]
    return tuple(map(frozenset, found))


def sources(count: int, edges: Sequence[JoinEdge]) -> tuple[tuple[int, ...], ...]:
    """Groups of inputs: from one of each group all others are reached, and not from less.

    Without cycles these are the inputs without parents; else one may be a cycle that nobody else leads to.

    Examples
    --------
    >>> sources(3, (JoinEdge(0, 1, ("k",), ("k",)), JoinEdge(2, 1, ("k",), ("k",))))
    ((0,), (2,))
    """
    ways, groups = reached(count, edges), []
    for each in range(count):
        leading = [other for other in range(count) if each in ways[other]]
        if leading[0] == each and all(other in ways[each] for other in leading):
            groups.append(tuple(leading))
    return tuple(groups)


def covers(count: int, edges: Sequence[JoinEdge]) -> tuple[tuple[int, ...], ...]:
    """All smallest sets of inputs from which all others are reached."""
    return tuple(product(*sources(count, edges)))


def shape(count: int, edges: Sequence[JoinEdge]) -> Shape:
    """Whether there is one way at most between any two inputs, and if not, whether one leads back."""
    if len(edges) == count - 1:
        return "tree"
    ways = reached(count, edges)
    return "cyclic" if any(edge.parent in ways[edge.child] for edge in edges) else "acyclic"


def connected(count: int, edges: Sequence[JoinEdge]) -> tuple[tuple[int, ...], ...]:
    """The largest groups of inputs that edges connect, each in order."""
    group = list(range(count))
    for edge in edges:
        one, other = sorted((group[edge.parent], group[edge.child]))
        group = [one if each == other else each for each in group]
    return tuple(tuple(i for i in range(count) if group[i] == first) for first in dict.fromkeys(group))


def common_key(count: int, edges: Sequence[JoinEdge]) -> tuple[tuple[str, ...], ...]:
    """Columns of each input that all combinations agree in, column by column; without any if there are none.

    Examples
    --------
    >>> common_key(2, (JoinEdge(0, 1, ("a", "b"), ("c", "d")),))
    (('a', 'b'), ('c', 'd'))
    """
    classes: list[frozenset[tuple[int, str]]] = []
    for edge in edges:
        for own, other in zip(edge.parent_keys, edge.child_keys, strict=True):
            both = {(edge.parent, own), (edge.child, other)}
            classes = [*(c for c in classes if not c & both), frozenset(both).union(*(c for c in classes if c & both))]
    whole = [sorted(c) for c in classes if {which for which, _ in c} == set(range(count))]
    return tuple(tuple(next(name for at, name in c if at == which) for c in whole) for which in range(count))

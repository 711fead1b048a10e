"""Join graphs: inputs by position, and edges from many rows of a parent to the one row of a child."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal

from tidegate.algebra.keyed_join import JoinEdge

GraphShape = Literal["tree", "acyclic", "cyclic"]


def reachable_inputs(count: int, edges: Sequence[JoinEdge]) -> tuple[frozenset[int], ...]:
    """Return, for each input, all inputs reachable from it, including itself."""
    found = [{each} for each in range(count)]
    for _ in range(count):
        for edge in edges:
            found[edge.parent] |= found[edge.child]
    return tuple(map(frozenset, found))


def source_groups(count: int, edges: Sequence[JoinEdge]) -> tuple[tuple[int, ...], ...]:
    """Return groups of inputs such that one of each group, and no smaller set, reaches all inputs.

    Without cycles these are the inputs without parents. With cycles, a group may also be a cycle that no other input
    leads to.

    Examples
    --------
    >>> source_groups(3, (JoinEdge(0, 1, ("k",), ("k",)), JoinEdge(2, 1, ("k",), ("k",))))
    ((0,), (2,))
    """
    ways, groups = reachable_inputs(count, edges), []
    for each in range(count):
        leading = [other for other in range(count) if each in ways[other]]
        if leading[0] == each and all(other in ways[each] for other in leading):
            groups.append(tuple(leading))
    return tuple(groups)


def covers(count: int, edges: Sequence[JoinEdge]) -> tuple[tuple[int, ...], ...]:
    """Return all smallest sets of inputs from which all others are reachable."""
    return tuple(product(*source_groups(count, edges)))


def graph_shape(count: int, edges: Sequence[JoinEdge]) -> GraphShape:
    """Classify the graph: a tree has at most one path between any two inputs; otherwise it is acyclic or cyclic."""
    if len(edges) == count - 1:
        return "tree"
    ways = reachable_inputs(count, edges)
    return "cyclic" if any(edge.parent in ways[edge.child] for edge in edges) else "acyclic"


def connected_components(count: int, edges: Sequence[JoinEdge]) -> tuple[tuple[int, ...], ...]:
    """Return the connected components of the graph, each in order."""
    group = list(range(count))
    for edge in edges:
        one, other = sorted((group[edge.parent], group[edge.child]))
        group = [one if each == other else each for each in group]
    return tuple(tuple(i for i in range(count) if group[i] == first) for first in dict.fromkeys(group))


def common_key(count: int, edges: Sequence[JoinEdge]) -> tuple[tuple[str, ...], ...]:
    """Return the columns of each input that are equal in all combinations, aligned by position.

    The result has no columns if there are none.

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

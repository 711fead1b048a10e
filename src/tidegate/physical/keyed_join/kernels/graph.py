"""Join graphs: streams, and edges from many elements of a parent to one element of a child."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Literal, NamedTuple

GraphShape = Literal["tree", "acyclic", "cyclic"]


class Edge(NamedTuple):
    """Many-to-one join between two streams, given by number."""

    parent: int
    child: int


@dataclass(frozen=True)
class Graph:
    """Streams by name, and the edges between them.

    A *cover* is a set of streams from which all others are reached.

    Examples
    --------
    >>> graph = Graph(("orders", "customers", "items"), (Edge(0, 1), Edge(0, 2)))
    >>> graph.shape, graph.covers
    ('tree', ((0,),))
    """

    streams: tuple[str, ...]
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        count = len(self.streams)
        for edge in self.edges:
            if edge.parent == edge.child or not (0 <= edge.parent < count and 0 <= edge.child < count):
                raise ValueError(f"the edge {edge} must lead from one of {count} streams to another")
        if len(self._connected_streams) < count:
            raise ValueError("a join graph must be connected")

    def __len__(self) -> int:
        return len(self.streams)

    @cached_property
    def below(self) -> tuple[tuple[int, ...], ...]:
        """Return, for each stream, the edges to its children."""
        return tuple(tuple(i for i, e in enumerate(self.edges) if e.parent == s) for s in range(len(self)))

    @cached_property
    def above(self) -> tuple[tuple[int, ...], ...]:
        """Return, for each stream, the edges from its parents."""
        return tuple(tuple(i for i, e in enumerate(self.edges) if e.child == s) for s in range(len(self)))

    @cached_property
    def reachable(self) -> tuple[frozenset[int], ...]:
        """Return, for each stream, the streams reached from it, including itself."""
        found = [{s} for s in range(len(self))]
        for _ in range(len(self)):
            for edge in self.edges:
                found[edge.parent] |= found[edge.child]
        return tuple(frozenset(each) for each in found)

    @cached_property
    def sources(self) -> tuple[tuple[int, ...], ...]:
        """Return groups of streams: a cover has one stream of every group, and needs no more.

        Without cycles, each group is a stream without parents. Otherwise a group may be a cycle that no other stream
        leads to.
        """
        groups = []
        for stream in range(len(self)):
            leading = [other for other in range(len(self)) if stream in self.reachable[other]]
            if leading[0] == stream and all(other in self.reachable[stream] for other in leading):
                groups.append(tuple(leading))
        return tuple(groups)

    @cached_property
    def covers(self) -> tuple[tuple[int, ...], ...]:
        """Return all minimal covers."""
        return tuple(product(*self.sources))

    @cached_property
    def single_covers(self) -> frozenset[int]:
        """Return the streams that are covers by themselves."""
        return frozenset(self.sources[0]) if len(self.sources) == 1 else frozenset()

    @cached_property
    def shape(self) -> GraphShape:
        if len(self.edges) == len(self) - 1:
            return "tree"
        cyclic = any(edge.parent in self.reachable[edge.child] for edge in self.edges)
        return "cyclic" if cyclic else "acyclic"

    @cached_property
    def children_first(self) -> tuple[int, ...]:
        """Return the streams with children before parents, as far as there are no cycles."""
        return tuple(sorted(range(len(self)), key=lambda s: len(self.reachable[s])))

    @cached_property
    def _connected_streams(self) -> set[int]:
        found = {0}
        for _ in range(len(self)):
            for edge in self.edges:
                if edge.parent in found or edge.child in found:
                    found |= set(edge)
        return found

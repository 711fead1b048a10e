"""Which columns the table of a stream has, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.model import NEVER, UNKNOWN, YES

START, END, LOW, HIGH, NUMBER, ROW, NOTED = range(7)
"""Where the first columns are."""

_FIRST = ("start", "end", "low", "high", "number", "row", "noted")

GIVEN = -2
"""Stands for what is always given, instead of what says that nothing is known."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The names of columns of integers, in their order, and what follows from the graph."""

    names: tuple[str, ...]
    one: Mapping[int, int]
    """For each edge the one under which its key is kept."""
    key: Mapping[int, int]
    """Where the key of each edge is."""
    seen: Mapping[int, int]
    """Where it says for each edge to a child how many were seen."""
    base: Mapping[int, int]
    """Where the first column is of those that count parents, for each edge for which they are counted."""
    below: tuple[int, ...]
    """Edges to children."""
    keys: Ints
    """Where their keys are."""
    kept: tuple[int, ...]
    """Edges whose keys are kept; others have the same as one of them."""
    same: Mapping[str, str]
    """Names of key columns, and the names under which they are kept."""
    blanks: Ints
    """What says that nothing is known, for each column that may not be given."""
    chained: bool
    """Whether parents are found by their keys; else those who wait are listed."""
    most: int
    """The component up to which elements stay: those that all else is reached from go when they are Yes."""

    @classmethod
    def of(cls, graph: Graph, stream: int, watched: frozenset[int], same: Mapping[int, int]) -> Layout:
        below, above = graph.below[stream], graph.above[stream]
        one = {edge: same.get(edge, edge) for edge in below + above}
        kept = tuple(sorted(set(one.values())))
        counted = [edge for edge in above if edge in watched]
        names = _names(below, counted, kept)
        alike = {f"key{edge}": f"key{other}" for edge, other in one.items()}
        places = {name: place for place, name in enumerate(names)}
        places |= {name: places[other] for name, other in alike.items()}
        key = {edge: places[f"key{edge}"] for edge in below + above}
        seen = {edge: places[f"seen{edge}"] for edge in below}
        base = {edge: places[f"base{edge}"] for edge in counted}
        keys = np.array([key[edge] for edge in below], np.int64)
        most = UNKNOWN if stream in graph.singles else YES
        chained = graph.shape == "tree"
        return cls(names, one, key, seen, base, below, keys, kept, alike, _blanks(names), chained, most)


def _names(below: Sequence[int], watched: Sequence[int], kept: Sequence[int]) -> tuple[str, ...]:
    counted = [f"{name}{edge}" for edge in watched for name in ("base", "after", "first")]
    names = (*_FIRST, *(f"key{edge}" for edge in kept), *(f"seen{edge}" for edge in below))
    return (*names, *counted, *(f"was {name}" for name in counted))


def _blanks(names: Sequence[str]) -> Ints:
    return np.array([_blank(name) for name in names])


def _blank(name: str) -> int:
    if name == "noted":
        return -1
    if name.startswith(("row", "key")):
        return GIVEN
    return NEVER if name.startswith(("base", "first")) else 0

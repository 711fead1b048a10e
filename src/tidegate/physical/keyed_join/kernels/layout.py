"""Columns of a stream's table, and their positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints, Positions
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.model import NEVER, UNKNOWN, YES, Components

START, END, LOW, HIGH, NUMBER, ROW, NOTED = range(7)
"""Positions of the first columns."""

_FIRST = ("start", "end", "low", "high", "number", "row", "noted")

GIVEN = -2
"""Marks a column that is always given, in place of a default value."""


class ElementColumns(NamedTuple):
    """Columns of a table's elements, with their room, as compiled loops read and change them."""

    ints: Ints
    """All columns of integers."""
    pointers: Positions
    """For each element its child over each edge, then for each edge the next element in the chain of its key."""
    component: Components
    was: Components
    """Component of each element in the log."""
    heads: Positions
    """For each edge to a child and each hash of keys, the last element that may still need that child, or -1."""
    soonest: Ints
    """For each block, a time up to which none of its elements expires, or the least time if it must be checked."""
    asked: Positions
    """Room for a list of elements to decide on."""
    flags: Components
    """Flags of each element in that list, otherwise zero."""


ElementArrays = tuple[Ints, Positions, Components, Components, Positions, Ints, Positions, Components]
"""`ElementColumns` as a plain tuple. Compiled loops that run for every batch take it and name its columns themselves.

At a call from Python, Numba takes a microsecond to recognise a named tuple, and a tenth of that for a plain one.
"""


class EdgeBelow(NamedTuple):
    """Edge from a table to its child: its place among these edges, and columns of the table.

    `key` has the key of the edge. `seen` has the number of child elements that an element has seen.
    """

    place: int
    key: int
    seen: int


class EdgeAbove(NamedTuple):
    """Edge from parents to a table: the column of its key, and the first column of the counts of parents, or -1."""

    key: int
    base: int


@dataclass(frozen=True, slots=True, eq=False)
class TableLayout:
    """Names of the integer columns in their order, and positions that follow from the graph."""

    names: tuple[str, ...]
    stored_under: Mapping[int, int]
    """For each edge, the edge under which its key is stored."""
    key: Mapping[int, int]
    """Column of each edge's key."""
    below: Mapping[int, EdgeBelow]
    """Edges to children, in the order of their places."""
    above: Mapping[int, EdgeAbove]
    """Edges from parents."""
    keys: Ints
    """Columns of the keys of these edges."""
    stored_edges: tuple[int, ...]
    """Edges whose keys are stored. The others have the same key as one of them."""
    same: Mapping[str, str]
    """Names of key columns, and the names under which they are stored."""
    blanks: Ints
    """Default value of each column, or `GIVEN`."""
    is_chained: bool
    """True if parents are found by their keys. Otherwise waiting elements are listed."""
    last_kept_component: int
    """Greatest component that stays. If a stream reaches all others, its elements are removed once they are Yes."""

    @classmethod
    def of(cls, graph: Graph, stream: int, watched: frozenset[int], same: Mapping[int, int]) -> TableLayout:
        below, above = graph.below[stream], graph.above[stream]
        one = {edge: same.get(edge, edge) for edge in below + above}
        kept = tuple(sorted(set(one.values())))
        counted = [edge for edge in above if edge in watched]
        names = _column_names(below, counted, kept)
        alike = {f"key{edge}": f"key{other}" for edge, other in one.items()}
        places = {name: place for place, name in enumerate(names)}
        places |= {name: places[other] for name, other in alike.items()}
        key = {edge: places[f"key{edge}"] for edge in below + above}
        down = {edge: EdgeBelow(i, key[edge], places[f"seen{edge}"]) for i, edge in enumerate(below)}
        up = {edge: EdgeAbove(key[edge], places.get(f"base{edge}", -1)) for edge in above}
        keys = np.array([key[edge] for edge in below], np.int64)
        most = UNKNOWN if stream in graph.single_covers else YES
        chained = graph.shape == "tree"
        return cls(names, one, key, down, up, keys, kept, alike, _default_values(names), chained, most)


def _column_names(below: Sequence[int], watched: Sequence[int], kept: Sequence[int]) -> tuple[str, ...]:
    counted = [f"{name}{edge}" for edge in watched for name in ("base", "after", "first")]
    names = (*_FIRST, *(f"key{edge}" for edge in kept), *(f"seen{edge}" for edge in below))
    return (*names, *counted, *(f"was {name}" for name in counted))


def _default_values(names: Sequence[str]) -> Ints:
    return np.array([_default_value(name) for name in names])


def _default_value(name: str) -> int:
    if name == "noted":
        return -1
    if name.startswith(("row", "key")):
        return GIVEN
    return NEVER if name.startswith(("base", "first")) else 0

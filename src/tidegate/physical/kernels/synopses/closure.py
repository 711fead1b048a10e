"""In graphs that are no trees: all that is reached from an element must be there, and be the same by all ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidegate.physical.kernels.synopses.graph import Graph
from tidegate.physical.kernels.synopses.model import COLD, NO, UNKNOWN, YES, Components, Ints, Mask, Patience, Positions
from tidegate.physical.kernels.synopses.table import Table


def until_settled(
    graph: Graph, tables: Sequence[Table], asked: list[Positions], patience: Sequence[Patience], late: int
) -> None:
    """Look at all that is reached; where there are cycles, again if anyone turned out never to join."""
    again = True
    while again:
        again = False
        for stream in graph.children_first:
            at = asked[stream]
            decided = _decide(tables[stream], at, _by_closure(graph, tables, stream, at, patience), late)
            again |= graph.shape == "cyclic" and decided
            asked[stream] = at[tables[stream]["component"][at] <= YES]


class Verdict(NamedTuple):
    """Of some elements: whether a child is missing, may not come by a constraint, or never; and the validity."""

    missing: Mask
    late: Mask
    never: Mask
    low: Ints
    high: Ints


def _opening(table: Table, at: Positions) -> Verdict:
    missing, late, never = np.zeros((3, len(at)), np.bool_)
    return Verdict(missing, late, never, table["start"][at], table["end"][at])


def _by_closure(
    graph: Graph, tables: Sequence[Table], stream: int, at: Positions, patience: Sequence[Patience]
) -> Verdict:
    """In other graphs, all that is reached must be there, and be the same by all ways."""
    table = tables[stream]
    verdict = _opening(table, at)
    reached, conflict = closure(graph, tables, stream, at)
    verdict.never[:] |= conflict
    for other, position in reached.items():
        there = position >= 0
        if not tables[other].count:
            continue
        if other != stream:
            component = tables[other]["component"][position]
            verdict.never[:] |= there & (component >= NO) & (component != COLD)
            verdict.late[:] |= there & (component == COLD)
        for edge in graph.below[other]:
            verdict.missing[:] |= ~there | (tables[other][f"child{edge}"][position] < 0)
        np.maximum(verdict.low, tables[other]["start"][position], where=there, out=verdict.low)
        np.minimum(verdict.high, tables[other]["end"][position], where=there, out=verdict.high)
    for edge in graph.below[stream]:
        key, seen, start = table[f"key{edge}"], table[f"seen{edge}"], table["start"]
        limits = patience[edge]
        away = table[f"child{edge}"][at] < 0
        late = (seen[at] <= limits.rows) | (start[at] < limits.time) | (key[at] < limits.low)
        verdict.late[:] |= away & late
        verdict.never[:] |= away & (verdict.high <= limits.watermark)
    return verdict


def closure(graph: Graph, tables: Sequence[Table], stream: int, at: Positions) -> tuple[dict[int, Positions], Mask]:
    """All that is reached from elements over edges to children: for each stream the positions, or -1.

    The mask says where two ways lead to different elements of one stream.
    """
    reached = {other: np.full(len(at), -1, np.int32) for other in sorted(graph.reached[stream])}
    reached[stream] = at
    conflict = np.zeros(len(at), np.bool_)
    edges = [edge for other in reversed(graph.children_first) if other in reached for edge in graph.below[other]]
    rounds = len(reached) if graph.shape == "cyclic" else 1
    for _ in range(rounds):
        for edge in edges:
            parent, child = graph.edges[edge]
            if tables[child].count == 0 or tables[parent].count == 0:
                continue
            here = reached[parent]
            found = np.where(here >= 0, tables[parent][f"child{edge}"][here], np.int32(-1))
            known = reached[child]
            conflict |= (known >= 0) & (found >= 0) & (known != found)
            reached[child] = np.where(known >= 0, known, found)
    return reached, conflict


def _decide(table: Table, at: Positions, verdict: Verdict, late: int) -> bool:
    """Write components and validities; whether there is anyone who never joins."""
    never = verdict.never | (verdict.low >= verdict.high)
    component: Components = np.full(len(at), YES, np.uint8)
    component[verdict.missing] = UNKNOWN
    component[verdict.late] = late
    component[never] = NO
    before = table["component"][at]
    table.changed |= len(at) > 0
    table["component"][at] = component
    lives = component <= YES
    table["low"][at[lives]], table["high"][at[lives]] = verdict.low[lives], verdict.high[lives]
    return bool(((component != before) & ~lives).any())

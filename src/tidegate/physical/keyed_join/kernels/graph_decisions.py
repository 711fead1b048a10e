"""Decisions in graphs that are not trees: every element reached must exist, and be the same along all paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Bytes, Ints, Mask, Positions
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.model import COLD, GONE, NO, UNKNOWN, YES, Components, Patience
from tidegate.physical.keyed_join.kernels.table import Table


def decide_by_closure(
    graph: Graph, tables: Sequence[Table], asked: list[Positions], patience: Sequence[Patience], late: int
) -> None:
    """Decide from all elements reached. In cyclic graphs, then remove elements that need a removed one."""
    for stream in graph.children_first:
        table, at = tables[stream], asked[stream]
        some, decided = _screen_elements(graph, table, stream, at, patience, late)
        if len(some):
            decided |= _write_verdict(table, some, _judge_by_closure(graph, tables, stream, some, patience), late)
        asked[stream] = at[table["component"][at] <= YES] if decided else at
    again = graph.shape == "cyclic"
    while again:
        again = False
        for edge, (parent, child) in enumerate(graph.edges):
            found = (tables[parent][f"child{edge}"], tables[child]["component"])
            again |= bool(_pass_to_parents(asked[parent], tables[parent]["component"], *found, late))


@compiled
def _pass_to_parents(at: Positions, component: Components, children: Positions, below: Components, late: int) -> bool:
    """Pass No and Cold from children to their parents; return whether any component changed."""
    lost = False
    for row in at:
        child = children[row]
        if child >= 0 and component[row] <= YES and below[child] >= NO:
            component[row] = late if below[child] == COLD else NO
            lost = True
    return lost


def _screen_elements(
    graph: Graph, table: Table, stream: int, at: Positions, patience: Sequence[Patience], late: int
) -> tuple[Positions, bool]:
    """Decide on elements that lack a child for good, or all children; return the others, and whether any is lost.

    If most elements do not join, this decides nearly all of them, and is much faster than following all edges.
    """
    flags, start, end = np.zeros(len(at), np.uint8), table["start"], table["end"]
    for edge in graph.below[stream]:
        key, seen, children = table[f"key{edge}"], table[f"seen{edge}"], table[f"child{edge}"]
        _flag_children(at, children, key, seen, start, end, patience[edge], flags)
    some, decided = _decide_by_flags(at, flags, start, end, table["component"], late)
    return some, bool(decided)


_PRESENT, _MISSING, _LATE, _NEVER = 1, 2, 4, 8
"""Flags of an element: a child is present, is missing, cannot arrive because of a constraint, or never arrives."""


@compiled
def _flag_children(
    at: Positions, children: Positions, key: Ints, seen: Ints, start: Ints, end: Ints, limits: Patience, flags: Bytes
) -> None:
    """Apply one child of each element."""
    for i in range(len(at)):
        row = at[i]
        if children[row] >= 0:
            flags[i] |= _PRESENT
            continue
        more = _MISSING
        if seen[row] <= limits.rows or start[row] < limits.time or key[row] < limits.low:
            more |= _LATE
        if end[row] <= limits.watermark:
            more |= _NEVER
        flags[i] |= more


@compiled
def _decide_by_flags(
    at: Positions, flags: Bytes, start: Ints, end: Ints, component: Components, late: int
) -> tuple[Positions, bool]:
    """Set the components that direct children determine; return the other elements, and whether any is lost."""
    some = np.empty(len(at), np.int32)
    count, lost = 0, False
    for i in range(len(at)):
        row = at[i]
        state = UNKNOWN if flags[i] & _MISSING else YES
        if flags[i] & _NEVER or start[row] >= end[row]:
            state = NO
        elif flags[i] & _LATE:
            state = late
        elif flags[i] & _PRESENT:
            some[count] = row
            count += 1
            continue
        lost |= state > YES
        component[row] = state
    return some[:count].copy(), lost


class Verdict(NamedTuple):
    """For each element: whether a child is missing, is late by a constraint, or never arrives; and the validity."""

    missing: Mask
    late: Mask
    never: Mask
    low: Ints
    high: Ints


def _initial_verdict(table: Table, at: Positions) -> Verdict:
    missing, late, never = np.zeros((3, len(at)), np.bool_)
    return Verdict(missing, late, never, table["start"][at], table["end"][at])


def _judge_by_closure(
    graph: Graph, tables: Sequence[Table], stream: int, at: Positions, patience: Sequence[Patience]
) -> Verdict:
    """Judge elements by all elements they reach, which must exist and be the same along all paths."""
    table = tables[stream]
    verdict = _initial_verdict(table, at)
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
    """Return all elements reached over edges to children: for each stream the positions, or -1.

    The mask marks where two paths lead to different elements of one stream.
    """
    reached = {other: np.full(len(at), -1, np.int32) for other in sorted(graph.reachable[stream])}
    reached[stream] = at
    conflict = np.zeros(len(at), np.bool_)
    edges = [edge for other in reversed(graph.children_first) if other in reached for edge in graph.below[other]]
    rounds = len(reached) if graph.shape == "cyclic" else 1
    for _ in range(rounds):
        again = False
        for edge in edges:
            parent, child = graph.edges[edge]
            if tables[child].count == 0 or tables[parent].count == 0:
                continue
            here = reached[parent]
            found = np.where(here >= 0, tables[parent][f"child{edge}"][here], np.int32(-1))
            known = reached[child]
            conflict |= (known >= 0) & (found >= 0) & (known != found)
            new = (known < 0) & (found >= 0)
            if new.any():
                reached[child], again = np.where(new, found, known), True
        if not again:
            break
    return reached, conflict


def narrow_validity(graph: Graph, tables: Sequence[Table], stream: int, at: Positions) -> None:
    """Set the validity of elements together with all elements they reach.

    An element that was complete and is not any more becomes Gone: something below it has expired.
    """
    reached, _ = closure(graph, tables, stream, at)
    low, high, component = tables[stream]["start"][at], tables[stream]["end"][at], tables[stream]["component"]
    incomplete = np.logical_or.reduce([position < 0 for position in reached.values()])
    component[at[incomplete & (component[at] == YES)]] = GONE
    for other, position in reached.items():
        there = position >= 0
        if tables[other].count:
            np.maximum(low, tables[other]["start"][position], where=there, out=low)
            np.minimum(high, tables[other]["end"][position], where=there, out=high)
    tables[stream]["low"][at], tables[stream]["high"][at] = low, high


def _write_verdict(table: Table, at: Positions, verdict: Verdict, late: int) -> bool:
    """Write components and validities; return whether any element is lost."""
    never = verdict.never | (verdict.low >= verdict.high)
    component: Components = np.full(len(at), YES, np.uint8)
    component[verdict.missing] = UNKNOWN
    component[verdict.late] = late
    component[never] = NO
    before = table["component"][at]
    table["component"][at] = component
    lives = component <= YES
    table["low"][at[lives]], table["high"][at[lives]] = verdict.low[lives], verdict.high[lives]
    return bool(((component != before) & ~lives).any())

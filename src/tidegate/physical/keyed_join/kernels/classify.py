"""Assign elements to components, after all elements of a batch have been added."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints, Positions
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.keyed_join.kernels.bounds import LEAST
from tidegate.physical.keyed_join.kernels.decidable import ASKED, ask_new, ask_overdue, ask_parents
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.graph_decisions import decide_by_closure
from tidegate.physical.keyed_join.kernels.layout import END, HIGH, LOW, START, ElementArrays, ElementColumns
from tidegate.physical.keyed_join.kernels.model import (
    COLD,
    GONE,
    NO,
    NO_POSITIONS,
    UNKNOWN,
    YES,
    Components,
    Patience,
)
from tidegate.physical.keyed_join.kernels.rows import BLOCK
from tidegate.physical.keyed_join.kernels.table import Table


class DecisionRules(NamedTuple):
    """Rules for decisions: how long to wait for children over each edge, and the state for waits that time out.

    `late` is the component of elements whose children cannot arrive because of a constraint. `counters` is the number
    of arrivals of each stream; it is recorded at new children whose parents have been waiting.
    """

    patience: Sequence[Patience]
    late: int
    keeps_no: frozenset[int]
    counters: Sequence[int]


class ChildWait(NamedTuple):
    """Edge to a child, and the limits of the wait for it. See `EdgeBelow` and `Patience`."""

    place: int
    key: int
    seen: int
    rows: int
    time: int
    low: int
    watermark: int


def classify(graph: Graph, tables: Sequence[Table], terms: DecisionRules, *, came_back: bool) -> list[Positions]:
    """Set the components of all Unknown elements; return for each stream the positions of those that are Yes now.

    If several streams together cover a tree, they are not chained yet, unless cold elements have returned. Elements
    that are not kept may become Gone at once.
    """
    if graph.shape == "tree":
        found = _decide_by_children(graph, tables, terms)
        for stream, table in enumerate(tables):
            if came_back or stream not in graph.covers[0] or stream in graph.single_covers:
                table.chain(table.count)
        return found
    asked = [_unknown_positions(table.waiting, table["component"], table.fresh) for table in tables]
    for table, at in zip(tables, asked, strict=True):
        _mark_for_sweep(at, table.elements.soonest)
    decide_by_closure(graph, tables, asked, terms.patience, terms.late)
    return [_complete_positions(at, table["component"]) for table, at in zip(tables, asked, strict=True)]


@compiled
def _unknown_positions(waiting: Positions, component: Components, fresh: int) -> Positions:
    """Return the positions of all Unknown elements."""
    asked = np.empty(len(waiting) + len(component) - fresh, np.int32)
    asked[: len(waiting)] = waiting
    count = len(waiting)
    for row in range(fresh, len(component)):
        asked[count] = row
        count += component[row] == UNKNOWN
    return asked[:count]


@compiled
def _mark_for_sweep(at: Positions, soonest: Ints) -> None:
    """Mark blocks for the next sweep, as some of their elements may not be kept."""
    for row in at:
        soonest[row // BLOCK] = LEAST


@compiled
def _complete_positions(at: Positions, component: Components) -> Positions:
    """Return the positions of elements that are Yes."""
    yes = np.empty(len(at), np.int32)
    count = 0
    for row in at:
        yes[count] = row
        count += component[row] == YES
    return yes[:count].copy()


def _decide_by_children(graph: Graph, tables: Sequence[Table], terms: DecisionRules) -> list[Positions]:
    """Decide by the children, which is enough in a tree. Most elements continue to wait, and are not read."""
    patience, late, keeps_no, counters = terms
    promoted, decided = [NO_POSITIONS] * len(tables), [NO_POSITIONS] * len(tables)
    for stream in graph.children_first:
        table = tables[stream]
        if not graph.below[stream]:
            if table.fresh < table.count:
                promoted[stream] = _complete_leaves(table.component, table.elements.ints, table.fresh, table.count)
            continue
        asked = ask_new(table.component, table.fresh, table.count, table.elements.asked, table.elements.flags)
        for edge in graph.below[stream]:
            child = graph.edges[edge].child
            asked = ask_parents(table, edge, tables[child], decided[child], asked, counters[stream])
            asked = ask_overdue(table, edge, patience[edge], asked)
        if asked:
            no = NO if stream in keeps_no and graph.above[stream] else GONE
            yes = YES if table.layout.last_kept_component == YES else GONE
            outcomes = _outcomes_of_flags(yes, no, no if late == NO else late)
            for edge, below in table.layout.below.items():
                children, wait = tables[graph.edges[edge].child].elements, (*below, *patience[edge])
                promoted[stream], decided[stream] = _apply_child(
                    table.arrays, asked, wait, children.ints, children.component, outcomes
                )
    return promoted


_MISSING, _LATE, _NEVER = 2 * ASKED, 4 * ASKED, 8 * ASKED
"""Further flags of an element: a child is missing, cannot arrive because of a constraint, or never arrives."""


@lru_cache
def _outcomes_of_flags(yes: int, no: int, late: int) -> Components:
    """Return the component for each combination of flags. Elements that have only been asked are complete."""
    outcomes = np.full(2 * _NEVER, UNKNOWN, np.uint8)
    for flags in range(2 * _NEVER):
        if flags & _NEVER:
            outcomes[flags] = no
        elif flags & _LATE:
            outcomes[flags] = late
        elif not flags & _MISSING:
            outcomes[flags] = yes
    return outcomes


@compiled
def _complete_leaves(component: Components, ints: Ints, fresh: int, count: int) -> Positions:
    """Make new elements without children Yes, if they are ever valid; return their positions."""
    yes, start, end = np.empty(count - fresh, np.int32), ints[START], ints[END]
    found = 0
    for row in range(fresh, count):
        if component[row] == UNKNOWN:
            component[row] = YES if start[row] < end[row] else NO
            yes[found] = row
            found += component[row] == YES
    return yes[:found]


@compiled
def _apply_child(
    arrays: ElementArrays,
    count: int,
    figures: tuple[int, int, int, int, int, int, int],
    child_ints: Ints,
    child_component: Components,
    outcomes: Components,
) -> tuple[Positions, Positions]:
    """Apply one child of each listed element, and decide after the last child.

    The parent takes over the validity of its child, as it cannot join without it. Return the positions of elements that
    are complete, and of all that have been decided on.

    `figures` are those of the edge and the wait. `outcomes` has the component for each combination of flags.
    """
    elements, wait = ElementColumns(*arrays), ChildWait(*figures)
    ints, component, soonest, flags_of = elements.ints, elements.component, elements.soonest, elements.flags
    low, high, child_of = ints[LOW], ints[HIGH], elements.pointers[:, wait.place]
    child_low, child_high = child_ints[LOW], child_ints[HIGH]
    is_last = wait.place == elements.pointers.shape[1] // 2 - 1
    room = count if is_last else 0
    promoted, decided = np.empty(room, np.int32), np.empty(room, np.int32)
    complete, settled = 0, 0
    for row in elements.asked[:count]:
        child, flags = child_of[row], flags_of[row]
        if child >= 0:
            low[row] = max(low[row], child_low[child])
            if child_high[child] < high[row]:
                high[row] = child_high[child]
                soonest[row // BLOCK] = min(soonest[row // BLOCK], high[row])
            flags |= _flags_of_child(child_component[child])
        else:
            flags |= _MISSING  # read no column that does not matter: memory access dominates here
            if (wait.rows >= 0 and ints[wait.seen, row] <= wait.rows) or (
                wait.time > LEAST and ints[START, row] < wait.time
            ):
                flags |= _LATE
            if wait.low > LEAST and ints[wait.key, row] < wait.low:
                flags |= _LATE
            if wait.watermark > LEAST and high[row] <= wait.watermark:
                flags |= _NEVER
        if not is_last:
            flags_of[row] = flags
            continue
        flags_of[row] = 0
        if flags == ASKED and low[row] >= high[row]:  # complete, but never valid
            flags |= _NEVER
        if outcomes[flags] != UNKNOWN:
            component[row] = outcomes[flags]
            decided[settled] = row
            settled += 1
            promoted[complete] = row
            complete += flags == ASKED
    return promoted[:complete], decided[:settled]


@inlined
def _flags_of_child(state: int) -> int:
    """Return what the component of a child says about its parent."""
    if state == YES:
        return 0
    return _MISSING if state == UNKNOWN else _LATE if state == COLD else _NEVER

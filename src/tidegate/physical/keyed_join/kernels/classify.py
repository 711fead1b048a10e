"""Assign elements to components, after all elements of a batch have been added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.keyed_join.kernels.asking import ASKED, ask_new, ask_overdue, ask_parents
from tidegate.physical.keyed_join.kernels.bounds import LEAST
from tidegate.physical.keyed_join.kernels.closure import decide_by_closure
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.layout import END, HIGH, LOW, START
from tidegate.physical.keyed_join.kernels.model import COLD, GONE, NO, NO_POSITIONS, UNKNOWN, YES, Patience, Positions
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
        _mark_for_sweep(at, table.soonest)
    decide_by_closure(graph, tables, asked, terms.patience, terms.late)
    return [_complete_positions(at, table["component"]) for table, at in zip(tables, asked, strict=True)]


@compiled
def _unknown_positions(waiting: Any, component: Any, fresh: Any) -> Any:
    """Return the positions of all Unknown elements."""
    asked = np.empty(len(waiting) + len(component) - fresh, np.int32)
    asked[: len(waiting)] = waiting
    count = len(waiting)
    for row in range(fresh, len(component)):
        asked[count] = row
        count += component[row] == UNKNOWN
    return asked[:count]


@compiled
def _mark_for_sweep(at: Any, soonest: Any) -> None:
    """Mark blocks for the next sweep, as some of their elements may not be kept."""
    for row in at:
        soonest[row // BLOCK] = LEAST


@compiled
def _complete_positions(at: Any, component: Any) -> Any:
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
                promoted[stream] = _complete_leaves(table.component, table.ints, table.fresh, table.count)
            continue
        asked = ask_new(table.component, table.fresh, table.count, table.asked, table.flags)
        for place, edge in enumerate(graph.below[stream]):
            child = graph.edges[edge].child
            asked = ask_parents(table, place, edge, tables[child], decided[child], asked, counters[stream])
            asked = ask_overdue(table, place, edge, patience[edge], asked)
        if asked:
            stays = stream in keeps_no and bool(graph.above[stream])
            states = (late, YES if table.layout.last_kept_component == YES else GONE, NO if stays else GONE)
            own = (table.asked, asked, table.flags, table.ints, table.pointers, table.soonest, table.component)
            for place, edge in enumerate(graph.below[stream]):
                other = tables[graph.edges[edge].child]
                known = (table.layout.key[edge], table.layout.seen[edge], place, other.ints, other.component)
                promoted[stream], decided[stream] = _apply_child(*own, *states, *known, *patience[edge])
    return promoted


_MISSING, _LATE, _NEVER = 2 * ASKED, 4 * ASKED, 8 * ASKED
"""Further flags of an element: a child is missing, cannot arrive because of a constraint, or never arrives."""


@compiled
def _complete_leaves(component: Any, ints: Any, fresh: Any, count: Any) -> Any:
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
    asked: Any, count: Any, said: Any, ints: Any, pointers: Any, soonest: Any, component: Any,
    late: Any, yes: Any, no: Any, key: Any, seen: Any, place: Any, child_ints: Any, child_component: Any,
    rows: Any, time: Any, least: Any, watermark: Any,
) -> Any:  # fmt: skip
    """Apply one child of each listed element, and decide after the last child.

    The parent takes over the validity of its child, as it cannot join without it. Return the positions of elements that
    are complete, and of all that have been decided. They get the components `yes` and `no`.
    """
    low, high, children, is_last = ints[LOW], ints[HIGH], pointers[:, place], place == pointers.shape[1] // 2 - 1
    below_low, below_high = child_ints[LOW], child_ints[HIGH]
    room = count if is_last else 0
    promoted, decided = np.empty(room, np.int32), np.empty(room, np.int32)
    complete, settled = 0, 0
    for i in range(count):
        row = asked[i]
        child, told = children[row], said[row]
        if child >= 0:
            low[row] = max(low[row], below_low[child])
            if below_high[child] < high[row]:
                high[row] = below_high[child]
                soonest[row // BLOCK] = min(soonest[row // BLOCK], high[row])
            its = child_component[child]
            if its != YES:
                told |= _MISSING if its == UNKNOWN else _LATE if its == COLD else _NEVER
        else:
            told |= _MISSING  # read no column that does not matter: memory access dominates here
            if (rows >= 0 and ints[seen, row] <= rows) or (time > LEAST and ints[START, row] < time):
                told |= _LATE
            if least > LEAST and ints[key, row] < least:
                told |= _LATE
            if watermark > LEAST and high[row] <= watermark:
                told |= _NEVER
        if not is_last:
            said[row] = told
            continue
        said[row] = 0
        state, is_complete = UNKNOWN, False
        if told & _NEVER:
            state = no
        elif told & _LATE:
            state = no if late == NO else late
        elif not told & _MISSING:
            is_complete = low[row] < high[row]
            state = yes if is_complete else no
        if state != UNKNOWN:
            component[row] = state
            decided[settled] = row
            settled += 1
            promoted[complete] = row
            complete += is_complete
    return promoted[:complete], decided[:settled]

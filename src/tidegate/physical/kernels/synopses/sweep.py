"""What need not be kept: expired elements, those that no later parent can join, and all that need those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tidegate.physical.kernels.compiled import compiled
from tidegate.physical.kernels.synopses.bounds import LEAST
from tidegate.physical.kernels.synopses.clusters import Ending
from tidegate.physical.kernels.synopses.graph import Graph
from tidegate.physical.kernels.synopses.index import home
from tidegate.physical.kernels.synopses.layout import END, HIGH
from tidegate.physical.kernels.synopses.model import (
    COLD,
    COLD_YES,
    GONE,
    NEVER,
    NO,
    REPEATED,
    UNKNOWN,
    YES,
    Mask,
    Positions,
)
from tidegate.physical.kernels.synopses.table import BLOCK, Table
from tidegate.physical.kernels.synopses.waiting import list_waiting


def expendable(graph: Graph, tables: Sequence[Table], stream: int, endings: Mapping[int, Ending]) -> Positions:
    """Which elements of a stream no later combination can have, as far as that follows from constraints."""
    above = graph.above[stream]
    known = [edge for edge in above if edge in endings]
    if not known:
        return np.empty(0, np.int32)
    table, component = tables[stream], tables[stream]["component"]
    some = [[edge for edge in known if graph.edges[edge].parent in group][:1] for group in graph.sources]
    chosen = [edge for edges in some for edge in edges]
    over = np.empty((len(known), table.count), np.bool_)
    for edge, mask in zip(known, over, strict=True):
        _ended(table, edge, endings[edge], mask)
    done = np.zeros(table.count, np.bool_)
    ended: Mask = np.logical_and.reduce(over)
    if all(some):
        chosen_ended = ended if chosen == known else np.logical_and.reduce(over[[known.index(e) for e in chosen]])
        np.logical_and(chosen_ended, component <= YES, out=done)
        for edge in chosen:
            if not _is_all(graph, edge):
                parent = tables[graph.edges[edge].parent]
                _spare(parent.component, parent.columns[f"child{edge}"], parent.count, done)
    if len(known) == len(above):
        done |= ended & (component == NO)
    return np.flatnonzero(done).astype(np.int32)


def _is_all(graph: Graph, edge: int) -> bool:
    """Whether parents that have this child do not wait, as they need no others."""
    parent, child = graph.edges[edge]
    return len(graph.below[parent]) == 1 and not graph.below[child]


@compiled
def _spare(component: Any, children: Any, count: Any, done: Any) -> None:
    """Keep those for whom a parent waits; in most blocks there is none."""
    for begin in range(0, count, BLOCK):
        first, after = np.uint64(begin), np.uint64(min(begin + BLOCK, count))
        waiting = 0
        for row in range(first, after):
            waiting += component[row] == UNKNOWN
        if not waiting:
            continue
        for row in range(first, after):
            if component[row] == UNKNOWN and children[row] >= 0:
                done[children[row]] = False


def _ended(table: Table, edge: int, ending: Ending, over: Mask) -> None:
    if f"base{edge}" in table.layout.places:
        places = (table.at(f"key{edge}"), table.at(f"base{edge}"))
        _over(table.ints, *places, ending.counter, ending.gap, ending.time, ending.low, over)
    else:
        np.less(table[f"key{edge}"], ending.low, out=over)


@compiled
def _over(ints: Any, key: Any, base: Any, counter: Any, gap: Any, time: Any, low: Any, over: Any) -> None:
    """Whose parents do not come any more; columns that say nothing are not read."""
    keys, bases, after, first = ints[key], ints[base], ints[base + 1], ints[base + 2]
    over[:] = False
    if gap < NEVER:
        for row in range(len(over)):
            over[row] = (bases[row] < NEVER) & (counter - bases[row] - after[row] > gap)
    if time > LEAST:
        for row in range(len(over)):
            over[row] |= first[row] < time
    if low > LEAST:
        for row in range(len(over)):
            over[row] |= keys[row] < low


def sweep(
    graph: Graph,
    tables: Sequence[Table],
    horizons: Sequence[int],
    ended: Sequence[int | None] | None,
    keeps_no: frozenset[int],
    marked: Sequence[Positions],
    *,
    thorough: bool,
) -> None:
    """Let all be gone that is expired or not to be kept, and let what needs others go as they do.

    Marked are those that left because of constraints. If it is not thorough, nothing else is new than what is decided.
    Where a stream has `ended`, elements go by their own end, too.
    """
    left = list(marked)
    own = [None] * len(tables) if ended is None else ended
    for stream, table in enumerate(tables):
        yes = YES if stream in graph.singles else REPEATED
        no = REPEATED if stream in keeps_no and graph.above[stream] else NO
        over = (horizons[stream], LEAST if (end := own[stream]) is None else end)
        gone = _expire(table.component, table.ints, table.soonest, table.count, *over, yes, no)
        left[stream] = np.concatenate([left[stream], gone]) if len(left[stream]) else gone
    if graph.shape == "tree" and not thorough:
        _go_with_children(graph, tables, horizons, own, left, marked)
    else:
        _go_along(graph, tables)
    for stream, table in enumerate(tables):
        if graph.below[stream] and not table.layout.chained:
            list_waiting(table)


def _go_along(graph: Graph, tables: Sequence[Table]) -> None:
    """Look at all elements, again and again if there are cycles."""
    again = True
    while again:
        again = False
        for stream in graph.children_first:
            for edge in graph.below[stream]:
                found = (tables[stream][f"child{edge}"], tables[graph.edges[edge].child]["component"])
                again |= bool(_follow(tables[stream]["component"], *found)) and graph.shape == "cyclic"


def _go_with_children(
    graph: Graph,
    tables: Sequence[Table],
    horizons: Sequence[int],
    ended: Sequence[int | None],
    left: list[Positions],
    marked: Sequence[Positions],
) -> None:
    """Let the parents of those go that have left, unless they are not valid for longer than these."""
    for stream in graph.children_first:
        for place, edge in enumerate(graph.below[stream]):
            other = graph.edges[edge].child
            leaf = not graph.below[other] and horizons[stream] >= horizons[other] and ended[other] is None
            some = marked[other] if leaf else left[other]
            if len(some):
                table, child = tables[stream], tables[other]
                own = (table.pointers, table.heads, place, table.component)
                lost = _leave(some, child.key(edge), child.component, *own)
                left[stream] = np.concatenate([left[stream], lost])


@compiled
def _expire(component: Any, ints: Any, soonest: Any, count: Any, horizon: Any, ended: Any, yes: Any, no: Any) -> Any:
    """Let those be gone that are expired, repeated, or in one of two components that are not kept; who it is."""
    high, end, gone = ints[HIGH], ints[END], np.empty(256, np.int32)
    lost = 0
    for block in range((count + BLOCK - 1) // BLOCK):
        if soonest[block] > horizon and ended == LEAST:
            continue
        if lost + BLOCK > len(gone):
            more = np.empty(2 * len(gone), np.int32)
            more[:lost] = gone[:lost]
            gone = more
        soonest[block] = NEVER
        for row in range(block * BLOCK, min(block * BLOCK + BLOCK, count)):
            state = component[row]
            if state == GONE:
                continue
            if state in (yes, no, REPEATED) or high[row] <= horizon or end[row] <= ended:
                component[row] = GONE
                gone[lost] = row
                lost += 1
            else:
                soonest[block] = min(soonest[block], high[row])
    return gone[:lost]


@compiled
def _leave(left: Any, wanted: Any, child_component: Any, pointers: Any, heads: Any, place: Any, component: Any) -> Any:
    """Parents of those that are gone go, too; of those that are cold they get cold. Who it is."""
    head, edges = heads[place], len(heads)
    lost = np.empty(256, np.int32)
    count = 0
    for child in left:
        row = head[home(wanted[child], len(head))]
        while row >= 0:
            if pointers[row, place] == child and component[row] != GONE and component[row] != NO:
                state = GONE
                if child_component[child] != GONE:
                    state = COLD_YES if component[row] in (YES, COLD_YES) else COLD
                component[row] = state
                if count == len(lost):
                    more = np.empty(2 * count, np.int32)
                    more[:count] = lost
                    lost = more
                lost[count] = row
                count += 1
            row = pointers[row, edges + place]
    return lost[:count]


@compiled
def _follow(component: Any, children: Any, below: Any) -> Any:
    """An element whose child is gone goes, too; one whose child is cold gets cold."""
    lost = False
    for row in range(len(component)):
        if component[row] == NO or component[row] == GONE:
            continue
        child = children[row]
        state = GONE if child < 0 and component[row] == YES else UNKNOWN
        if child >= 0 and below[child] >= GONE:
            state = GONE
            if below[child] in (COLD, COLD_YES):
                state = COLD_YES if component[row] in (YES, COLD_YES) else COLD
        if state >= GONE and state != component[row]:
            component[row] = state
            lost = True
    return lost

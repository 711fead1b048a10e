"""Removal of elements: expired ones, those that no later parent can join, and those that need a removed one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints, Mask, Positions
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.keyed_join.kernels.bounds import LEAST
from tidegate.physical.keyed_join.kernels.clusters import Ending
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.index import chain_starts
from tidegate.physical.keyed_join.kernels.layout import END, HIGH
from tidegate.physical.keyed_join.kernels.model import (
    COLD,
    COLD_YES,
    GONE,
    NEVER,
    NO,
    NO_POSITIONS,
    REPEATED,
    UNKNOWN,
    YES,
    Components,
)
from tidegate.physical.keyed_join.kernels.rows import BLOCK, EMPTY
from tidegate.physical.keyed_join.kernels.table import Table
from tidegate.physical.keyed_join.kernels.waiting import list_waiting


def find_expendable(
    graph: Graph, tables: Sequence[Table], stream: int, endings: Mapping[int, Ending], horizons: Sequence[int]
) -> Positions:
    """Return the positions of a stream's elements that, by constraints, no later combination can have."""
    known = tuple(edge for edge in graph.above[stream] if edge in endings)
    if not known:
        return NO_POSITIONS
    table, (edges, *needed, waited) = tables[stream], _needed_edges(graph, stream, known)
    rules = np.array([(*table.layout.above[edge], *endings[edge]) for edge in edges])
    columns = table.elements
    done: Positions = _find_ended(columns.ints, columns.component, columns.soonest, table.count, rules, *needed)
    if waited and len(done):
        spared = np.zeros(table.count, np.bool_)
        for edge in waited:
            above = graph.edges[edge].parent
            parent, horizon = tables[above], horizons[above]
            _spare_children(
                parent.component, parent.elements.ints[HIGH], horizon, parent.children[edge], parent.count, spared
            )
        done = done[~spared[done] | (table.component[done] == NO)]
    return done


@lru_cache
def _needed_edges(
    graph: Graph, stream: int, known: tuple[int, ...]
) -> tuple[tuple[int, ...], int, int, tuple[int, ...]]:
    """Return the edges that must have ended: the first n for elements that may join, the first m for those that are No.

    Also return the edges over which parents may still wait although they have the child.
    """
    some = [[edge for edge in known if graph.edges[edge].parent in group][:1] for group in graph.sources]
    chosen = tuple(dict.fromkeys(edge for edges in some for edge in edges)) if all(some) else ()
    edges = (*chosen, *(edge for edge in known if edge not in chosen))
    waited = tuple(edge for edge in chosen if not _needs_only_child(graph, edge))
    return edges, len(chosen), len(known) if known == graph.above[stream] else 0, waited


def _needs_only_child(graph: Graph, edge: int) -> bool:
    """Return whether a parent with this child is complete, because it needs no other elements."""
    parent, child = graph.edges[edge]
    return len(graph.below[parent]) == 1 and not graph.below[child]


@compiled
def _spare_children(
    component: Components, high: Ints, horizon: int, children: Positions, count: int, spared: Mask
) -> None:
    """Mark children of a parent that waits and has not expired. Most blocks have none, and are skipped."""
    for begin in range(0, count, BLOCK):
        first, after = np.uint64(begin), np.uint64(min(begin + BLOCK, count))
        waiting = 0
        for row in range(first, after):
            waiting += component[row] == UNKNOWN
        if not waiting:
            continue
        for row in range(first, after):
            if component[row] == UNKNOWN and children[row] >= 0 and high[row] > horizon:
                spared[children[row]] = True


@compiled
def _find_ended(
    ints: Ints, component: Components, soonest: Ints, count: int, rules: Ints, needed: int, needed_no: int
) -> Positions:
    """Return elements whose parents no longer arrive by the first `needed` rules, or `needed_no` rules for No.

    Blocks without elements are marked as empty, and skipped the next time. With zero rules no element is returned.
    The figures of a rule are those of the edge from the parents, then those of its ending. Columns without a limit are
    not read.
    """
    blocks = (count + BLOCK - 1) // BLOCK
    some, taken = np.empty(blocks, np.int32), 0
    for block in range(blocks):
        some[taken] = block
        taken += soonest[block] != EMPTY
    over, found = np.empty(taken * BLOCK, np.int32), 0
    for block in some[:taken]:
        left = False
        for row in range(block * BLOCK, min(block * BLOCK + BLOCK, count)):
            state = component[row]
            if state > NO:
                left |= state != GONE
                continue
            left = True
            last = needed_no if state == NO else needed
            ended = last > 0
            for rule in range(last):
                key, base, counter = rules[rule, 0], rules[rule, 1], rules[rule, 2]
                gap, time, low = rules[rule, 3], rules[rule, 4], rules[rule, 5]
                is_over = low > LEAST and ints[key, row] < low
                if base >= 0 and gap < NEVER:
                    is_over |= ints[base, row] < NEVER and counter - ints[base, row] - ints[base + 1, row] > gap
                if base >= 0 and time > LEAST:
                    is_over |= ints[base + 2, row] < time
                ended &= is_over
            over[found] = row
            found += ended
        if not left:
            soonest[block] = EMPTY
    return over[:found]


@compiled
def mark_leaving(component: Components, some: Positions, leaves: Components) -> None:
    """Set the components of elements that leave because of a constraint."""
    for row in some:
        component[row] = leaves[component[row]]


@lru_cache
def _components_after(yes: int, no: int) -> Components:
    """Return what each component becomes in a sweep, for elements that have not expired, given that of Yes and No."""
    after = np.arange(REPEATED + 1, dtype=np.uint8)
    after[YES], after[NO], after[REPEATED] = yes, no, GONE
    return after


def sweep(
    graph: Graph,
    tables: Sequence[Table],
    horizons: Sequence[int],
    ended: Sequence[int | None] | None,
    keeps_no: frozenset[int],
    marked: Sequence[Positions],
    *,
    exact: bool,
    thorough: bool,
) -> None:
    """Remove elements that have expired or need not be kept, and those that need a removed one.

    `marked` are the elements that left because of constraints. If not `thorough`, only their parents and those of
    elements that expired are visited, not all elements. Where a stream has `ended`, elements also expire by their own
    end. If `exact`, complete elements that need not be kept but can be a child become cold, so that a repeated key is
    still noticed.
    """
    left = list(marked)
    own = [None] * len(tables) if ended is None else ended
    for stream, table in enumerate(tables):
        above, yes = graph.above[stream], YES
        if stream in graph.single_covers:
            yes = COLD_YES if exact and above else GONE
        after = _components_after(yes, NO if stream in keeps_no and above else GONE)
        limits, columns = (horizons[stream], LEAST if (end := own[stream]) is None else end), table.elements
        gone = _expire(columns.component, columns.ints, columns.soonest, table.count, *limits, after)
        left[stream] = _concat_positions(left[stream], gone)
    if graph.shape == "tree" and not thorough:
        _propagate_to_parents(graph, tables, horizons, own, left, marked)
    else:
        _propagate_to_all(graph, tables)
    for stream, table in enumerate(tables):
        if graph.below[stream] and not table.layout.is_chained:
            list_waiting(table)


def _propagate_to_all(graph: Graph, tables: Sequence[Table]) -> None:
    """Check all elements, repeatedly if there are cycles."""
    again = True
    while again:
        again = False
        for stream in graph.children_first:
            for edge in graph.below[stream]:
                found = (tables[stream][f"child{edge}"], tables[graph.edges[edge].child]["component"])
                again |= bool(_pass_to_parents(tables[stream]["component"], *found)) and graph.shape == "cyclic"


def _propagate_to_parents(
    graph: Graph,
    tables: Sequence[Table],
    horizons: Sequence[int],
    ended: Sequence[int | None],
    left: list[Positions],
    marked: Sequence[Positions],
) -> None:
    """Remove the parents of removed elements.

    Expired leaves are skipped if their parents expire no later than they do.
    """
    for stream in graph.children_first:
        for edge in graph.below[stream]:
            other = graph.edges[edge].child
            leaf = not graph.below[other] and horizons[stream] >= horizons[other] and ended[other] is None
            some = marked[other] if leaf else left[other]
            if len(some):
                table, child = tables[stream], tables[other]
                above, place = table.elements, table.layout.below[edge].place
                columns = (above.pointers, above.heads[place], above.component)
                lost = _remove_parents(some, child.keys[edge], child.component, *columns, place)
                left[stream] = _concat_positions(left[stream], lost)


def _concat_positions(some: Positions, others: Positions) -> Positions:
    if not len(some) or not len(others):
        return some if len(some) else others
    return np.concatenate([some, others])


@compiled
def _expire(
    component: Components, ints: Ints, soonest: Ints, count: int, horizon: int, ended: int, after: Components
) -> Positions:
    """Remove elements that are expired or in a component that is not kept; return their positions.

    Elements expire if they are not valid after `horizon`, or if their own end is at or before `ended`, unless that is
    the least time. The others become what `after` has for their component.
    """
    high, end, blocks = ints[HIGH], ints[END], (count + BLOCK - 1) // BLOCK
    due, found = np.empty(blocks, np.int32), 0
    for block in range(blocks):
        due[found] = block
        found += (soonest[block] <= horizon) | (ended > LEAST)
    gone, lost = np.empty(found * BLOCK, np.int32), 0
    for block in due[:found]:
        least = EMPTY
        for row in range(block * BLOCK, min(block * BLOCK + BLOCK, count)):
            state = component[row]
            if state == GONE:
                continue
            is_over = high[row] <= horizon
            if ended > LEAST:  # read no column that does not matter
                is_over |= end[row] <= ended
            if is_over or after[state] != state:
                component[row] = GONE if is_over else after[state]
                gone[lost] = row
                lost += 1
            else:
                least = min(least, high[row])
        soonest[block] = least
    return gone[:lost]


class RemovedChildren(NamedTuple):
    """Children that have left, the rows where the chains of their parents start, and the components of all children."""

    at: Positions
    firsts: Positions
    component: Components


@compiled
def _remove_parents(
    left: Positions,
    keys: Ints,
    child_component: Components,
    pointers: Positions,
    head: Positions,
    component: Components,
    place: int,
) -> Positions:
    """Remove the parents of gone elements, and make the parents of cold elements cold; return their positions.

    `left` are the elements that have left, and `keys` the keys of all elements by position. The other columns are those
    of the parents, and `place` is that of the edge among those of the parents.
    """
    children, lost = RemovedChildren(left, chain_starts(head, keys, left), child_component), np.empty(256, np.int32)
    done, count = _remove_parents_from(0, children, pointers, component, place, lost, 0)
    while done < len(left):
        more = np.empty(2 * len(lost), np.int32)
        more[:count] = lost
        lost = more
        done, count = _remove_parents_from(done, children, pointers, component, place, lost, count)
    return lost[:count]


@compiled
def _remove_parents_from(
    first: int,
    children: RemovedChildren,
    pointers: Positions,
    component: Components,
    place: int,
    lost: Positions,
    count: int,
) -> tuple[int, int]:
    """Remove parents until room runs out; return the next child and the number of parents listed.

    The function returns when room runs out because replacing an array inside the loop would cost reference counting in
    each iteration.
    """
    left, firsts, child_component = children
    following = pointers.shape[1] // 2 + place
    for i in range(first, len(left)):
        child, row = left[i], firsts[i]
        while row >= 0:
            if pointers[row, place] == child and component[row] != GONE and component[row] != NO:
                state = GONE
                if child_component[child] != GONE:
                    state = COLD_YES if component[row] in (YES, COLD_YES) else COLD
                if state != component[row]:  # otherwise it has been listed
                    if count == len(lost):
                        return i, count
                    component[row] = state
                    lost[count] = row
                    count += 1
            row = pointers[row, following]
    return len(left), count


@compiled
def _pass_to_parents(component: Components, children: Positions, below: Components) -> bool:
    """Pass Gone and Cold from children to their parents; return whether any component changed."""
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

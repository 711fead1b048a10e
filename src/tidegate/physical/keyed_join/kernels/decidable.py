"""Select the elements to decide on: those whose child has arrived or can no longer arrive. The others are not read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints, Positions
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.keyed_join.kernels.bounds import LEAST
from tidegate.physical.keyed_join.kernels.index import chain_starts
from tidegate.physical.keyed_join.kernels.layout import HIGH, START, ElementArrays, ElementColumns
from tidegate.physical.keyed_join.kernels.model import COLD, GONE, NEVER, UNKNOWN, YES, Components, Patience
from tidegate.physical.keyed_join.kernels.rows import BLOCK
from tidegate.physical.keyed_join.kernels.table import Floor, Table

ASKED = 1
"""Flag of an element that is in the list."""


class ChildArrival(NamedTuple):
    """Edge over which children arrive, as its parents and children see it, and the rows of new children.

    place: its place among the edges from the parents to children
    key, child_key: columns of its key at the parents and at the children
    base: first column of the counts of parents at the children, or -1
    fresh, after: new children are the rows of [fresh, after)
    """

    place: int
    key: int
    child_key: int
    base: int
    fresh: int
    after: int


def ask_parents(table: Table, edge: int, child: Table, decided: Positions, asked: int, counter: int) -> int:
    """Ask parents whose child has arrived or has been decided on.

    If parents are counted, record at new children that their key has occurred before: `counter` parents have arrived.
    """
    if child.fresh == child.count and not len(decided):
        return asked
    place, key, _ = table.layout.below[edge]
    child_key, base = child.layout.above[edge]
    figures, there = (place, key, child_key, base, child.fresh, child.count), child.elements
    return _ask_parents(table.arrays, figures, there.ints, there.component, decided, counter, asked)


def ask_overdue(table: Table, edge: int, limits: Patience, asked: int) -> int:
    """Ask parents that need not wait for a child any longer."""
    if limits.rows < 0 and max(limits.time, limits.low, limits.watermark) == LEAST:
        return asked
    place, key, seen = table.layout.below[edge]
    if limits.rows >= 0:
        asked = _ask_below_limit(table, place, seen, limits.rows + 1, asked)
    if limits.time > LEAST:
        asked = _ask_below_limit(table, place, START, limits.time, asked)
    if limits.low > LEAST:
        asked = _ask_below_limit(table, place, key, limits.low, asked)
    if limits.watermark > LEAST:
        asked = _ask_ending(table.arrays, place, table.fresh, limits.watermark, asked)
    return asked


def _ask_below_limit(table: Table, place: int, column: int, limit: int, asked: int) -> int:
    if not table.fresh:
        return asked
    floor = table.floors.get((column, place))
    if floor is None:
        floor = Floor(np.full(len(table.elements.soonest), NEVER), 0)
    asked = _ask_below(table.arrays, place, column, floor.least, floor.known, table.fresh, limit, asked)
    table.floors[column, place] = Floor(floor.least, table.fresh)
    return asked


@compiled
def ask_new(component: Components, fresh: int, count: int, asked: Positions, flags: Components) -> int:
    """Ask all new elements; return their number."""
    found = 0
    for row in range(fresh, count):
        if component[row] == UNKNOWN:
            asked[found], flags[row] = row, ASKED
            found += 1
    return found


@inlined
def _ask_once(row: int, asked: Positions, flags: Components, count: int) -> int:
    """List an element, unless it is listed; return the length of the list."""
    if flags[row]:
        return count
    asked[count], flags[row] = row, ASKED
    return count + 1


@compiled
def _ask_parents(
    arrays: ElementArrays,
    figures: tuple[int, int, int, int, int, int],
    child_ints: Ints,
    child_component: Components,
    decided: Positions,
    counter: int,
    count: int,
) -> int:
    """Ask parents that wait for a new child, which is linked to them, or for a child that has been decided on.

    `arrays` are those of the parents, and `figures` those of a `ChildArrival`.
    """
    parents, edge = ElementColumns(*arrays), ChildArrival(*figures)
    ints, pointers, component, soonest = parents.ints, parents.pointers, parents.component, parents.soonest
    keys, high, wanted, child_high = ints[edge.key], ints[HIGH], child_ints[edge.child_key], child_ints[HIGH]
    asked, flags, place, base, edges = parents.asked, parents.flags, edge.place, edge.base, len(parents.heads)
    some, rows = _start_chains(parents.heads[place], wanted, child_component, edge.fresh, edge.after, decided)
    active = len(some)
    while active:  # advance all chains by one, so that their independent memory accesses overlap
        left = 0
        for i in range(active):
            child, row = some[i], rows[i]
            if component[row] == UNKNOWN and keys[row] == wanted[child]:
                if base >= 0 and pointers[row, place] < 0:
                    child_ints[base, child] = min(child_ints[base, child], counter)
                    child_ints[base + 2, child] = min(child_ints[base + 2, child], ints[START, row])
                pointers[row, place] = child
                state = child_component[child]
                missing = state == UNKNOWN  # then nothing can be decided, nor if another child is missing
                for other in range(edges if state == YES else 0):
                    missing |= pointers[row, other] < 0
                if not missing:
                    if not flags[row]:
                        asked[count], flags[row] = row, ASKED
                        count += 1
                elif child_high[child] < high[row]:
                    high[row] = child_high[child]
                    soonest[row // BLOCK] = min(soonest[row // BLOCK], high[row])
            some[left], rows[left] = child, pointers[row, edges + place]
            left += rows[left] >= 0
        active = left
    return count


@compiled
def _start_chains(
    head: Positions, wanted: Ints, component: Components, fresh: int, after: int, decided: Positions
) -> tuple[Positions, Positions]:
    """Return children that parents may wait for, and the first row of the chain of their key."""
    new = after - fresh
    children = np.empty(new + len(decided), np.int32)
    children[:new], children[new:] = np.arange(fresh, after), decided
    rows = chain_starts(head, wanted, children)
    count = 0
    for i in range(len(children)):
        state = component[children[i]]
        children[count], rows[count] = children[i], rows[i]
        count += (rows[i] >= 0) & ((i >= new) | (state < GONE) | (state == COLD))
    return children[:count], rows[:count]


@compiled
def _ask_below(
    arrays: ElementArrays, place: int, column: int, least: Ints, known: int, fresh: int, limit: int, count: int
) -> int:
    """Ask elements that lack a child and are below a limit. Most blocks have none, and are skipped.

    `least` is the lower bound of each block, over the first `known` rows.
    """
    elements = ElementColumns(*arrays)
    values, children, component = elements.ints[column], elements.pointers[:, place], elements.component
    for row in range(known, fresh):
        if component[row] == UNKNOWN and children[row] < 0:
            least[row // BLOCK] = min(least[row // BLOCK], values[row])
    for block in range((fresh + BLOCK - 1) // BLOCK):
        if least[block] >= limit:
            continue
        least[block] = NEVER
        for row in range(block * BLOCK, min(block * BLOCK + BLOCK, fresh)):
            if component[row] == UNKNOWN and children[row] < 0:
                least[block] = min(least[block], values[row])
                if values[row] < limit:
                    count = _ask_once(row, elements.asked, elements.flags, count)
    return count


@compiled
def _ask_ending(arrays: ElementArrays, place: int, fresh: int, watermark: int, count: int) -> int:
    """Ask elements that lack a child and are not valid after a watermark."""
    elements = ElementColumns(*arrays)
    high, children, component = elements.ints[HIGH], elements.pointers[:, place], elements.component
    for block in range((fresh + BLOCK - 1) // BLOCK):
        if elements.soonest[block] > watermark:
            continue
        for row in range(block * BLOCK, min(block * BLOCK + BLOCK, fresh)):
            if component[row] == UNKNOWN and children[row] < 0 and high[row] <= watermark:
                count = _ask_once(row, elements.asked, elements.flags, count)
    return count

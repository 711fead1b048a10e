"""Select the elements to decide on: those whose child has arrived or can no longer arrive. The others are not read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints, Positions
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.keyed_join.kernels.bounds import LEAST
from tidegate.physical.keyed_join.kernels.index import chain_starts
from tidegate.physical.keyed_join.kernels.layout import HIGH, START, EdgeAbove, EdgeBelow, ElementColumns
from tidegate.physical.keyed_join.kernels.model import COLD, GONE, NEVER, UNKNOWN, YES, Components, Patience
from tidegate.physical.keyed_join.kernels.rows import BLOCK, shorten_validity
from tidegate.physical.keyed_join.kernels.table import AskedElements, Floor, Table

ASKED = 1
"""Flag of an element that is in the list."""


class ArrivedChildren(NamedTuple):
    """Children whose parents are asked: the new ones of [fresh, after), and those that have been decided on."""

    fresh: int
    after: int
    decided: Positions


def ask_parents(table: Table, edge: int, child: Table, decided: Positions, asked: int, counter: int) -> int:
    """Ask parents whose child has arrived or has been decided on.

    If parents are counted, record at new children that their key has occurred before: `counter` parents have arrived.
    """
    if child.fresh == child.count and not len(decided):
        return asked
    arrived = ArrivedChildren(child.fresh, child.count, decided)
    below, above = table.layout.below[edge], child.layout.above[edge]
    return _ask_parents(table.elements, below, child.elements, above, arrived, counter, table.asked, asked)


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
        asked = _ask_ending(table.elements, place, table.fresh, limits.watermark, table.asked, asked)
    return asked


def _ask_below_limit(table: Table, place: int, column: int, limit: int, asked: int) -> int:
    if not table.fresh:
        return asked
    floor = table.floors.get((column, place))
    if floor is None:
        floor = Floor(np.full(len(table.elements.soonest), NEVER), 0)
    asked = _ask_below(table.elements, place, column, floor, table.fresh, limit, table.asked, asked)
    table.floors[column, place] = Floor(floor.least, table.fresh)
    return asked


@compiled
def ask_new(component: Components, fresh: int, count: int, asked: AskedElements) -> int:
    """Ask all new elements; return their number."""
    found = 0
    for row in range(fresh, count):
        if component[row] == UNKNOWN:
            asked.rows[found], asked.flags[row] = row, ASKED
            found += 1
    return found


@inlined
def _ask_once(row: int, rows: Positions, flags: Components, count: int) -> int:
    """List an element, unless it is listed; return the length of the list."""
    if flags[row]:
        return count
    rows[count], flags[row] = row, ASKED
    return count + 1


@compiled
def _ask_parents(
    parents: ElementColumns,
    below: EdgeBelow,
    children: ElementColumns,
    above: EdgeAbove,
    arrived: ArrivedChildren,
    counter: int,
    asked: AskedElements,
    count: int,
) -> int:
    """Ask parents that wait for a new child, which is linked to them, or for a child that has been decided on.

    `below` and `above` are the same edge, seen from the parents and from the children.
    """
    ints, pointers, component, soonest = parents.ints, parents.pointers, parents.component, parents.soonest
    child_ints, child_component, listed, flags = children.ints, children.component, asked.rows, asked.flags
    keys, high, place, following = ints[below.key], ints[HIGH], below.place, len(parents.heads) + below.place
    wanted, child_high = child_ints[above.key], child_ints[HIGH]
    some, rows = _start_chains(parents.heads[place], wanted, child_component, arrived)
    active = len(some)
    while active:  # advance all chains by one, so that their independent memory accesses overlap
        left = 0
        for i in range(active):
            child, row = some[i], rows[i]
            if component[row] == UNKNOWN and keys[row] == wanted[child]:
                if above.base >= 0 and pointers[row, place] < 0:
                    _note_first_parent(child_ints, above.base, child, counter, ints[START, row])
                pointers[row, place] = child
                if _lacks_child(pointers, row, child_component[child]):
                    shorten_validity(high, soonest, row, child_high[child])
                else:
                    count = _ask_once(row, listed, flags, count)
            some[left], rows[left] = child, pointers[row, following]
            left += rows[left] >= 0
        active = left
    return count


@compiled
def _start_chains(
    head: Positions, wanted: Ints, component: Components, arrived: ArrivedChildren
) -> tuple[Positions, Positions]:
    """Return children that parents may wait for, and the first row of the chain of their key."""
    new = arrived.after - arrived.fresh
    children = np.empty(new + len(arrived.decided), np.int32)
    children[:new], children[new:] = np.arange(arrived.fresh, arrived.after), arrived.decided
    rows = chain_starts(head, wanted, children)
    count = 0
    for i in range(len(children)):
        state = component[children[i]]
        children[count], rows[count] = children[i], rows[i]
        count += (rows[i] >= 0) & ((i >= new) | (state < GONE) | (state == COLD))
    return children[:count], rows[:count]


@inlined
def _note_first_parent(ints: Ints, base: int, child: int, counter: int, start: int) -> None:
    """Record at a child that its key has occurred before, at a parent with this start."""
    ints[base, child] = min(ints[base, child], counter)
    ints[base + 2, child] = min(ints[base + 2, child], start)


@inlined
def _lacks_child(pointers: Positions, row: int, state: int) -> bool:
    """Return whether an element must wait: one child is Unknown, or it is Yes and another child is missing.

    `state` is the component of the one child. If it never joins, no other child matters.
    """
    missing = state == UNKNOWN
    for edge in range(pointers.shape[1] // 2 if state == YES else 0):
        missing |= pointers[row, edge] < 0
    return missing


@compiled
def _ask_below(
    elements: ElementColumns,
    place: int,
    column: int,
    floor: Floor,
    fresh: int,
    limit: int,
    asked: AskedElements,
    count: int,
) -> int:
    """Ask elements that lack a child and are below a limit. Most blocks have none, and are skipped."""
    values, children, component = elements.ints[column], elements.pointers[:, place], elements.component
    least, rows, flags = floor.least, asked.rows, asked.flags
    for row in range(floor.known, fresh):
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
                    count = _ask_once(row, rows, flags, count)
    return count


@compiled
def _ask_ending(
    elements: ElementColumns, place: int, fresh: int, watermark: int, asked: AskedElements, count: int
) -> int:
    """Ask elements that lack a child and are not valid after a watermark."""
    high, children, component = elements.ints[HIGH], elements.pointers[:, place], elements.component
    soonest, rows, flags = elements.soonest, asked.rows, asked.flags
    for block in range((fresh + BLOCK - 1) // BLOCK):
        if soonest[block] > watermark:
            continue
        for row in range(block * BLOCK, min(block * BLOCK + BLOCK, fresh)):
            if component[row] == UNKNOWN and children[row] < 0 and high[row] <= watermark:
                count = _ask_once(row, rows, flags, count)
    return count

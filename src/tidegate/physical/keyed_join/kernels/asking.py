"""Select the elements to decide on: those whose child has arrived or can no longer arrive. The others are not read."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.keyed_join.kernels.bounds import LEAST
from tidegate.physical.keyed_join.kernels.index import chain_starts
from tidegate.physical.keyed_join.kernels.layout import HIGH, START
from tidegate.physical.keyed_join.kernels.model import COLD, GONE, NEVER, UNKNOWN, YES, Patience, Positions
from tidegate.physical.keyed_join.kernels.rows import BLOCK
from tidegate.physical.keyed_join.kernels.table import Floor, Table

ASKED = 1
"""Flag of an element that is in the list."""


def ask_parents(table: Table, place: int, edge: int, child: Table, decided: Positions, asked: int, counter: int) -> int:
    """Ask parents whose child has arrived or has been decided on.

    If parents are counted, record at new children that their key has occurred before: `counter` parents have arrived.
    """
    if child.fresh == child.count and not len(decided):
        return asked
    counted = (child.layout.base.get(edge, -1), counter)
    parents = (table.ints, table.layout.key[edge], table.pointers, table.heads, place, table.component)
    children = (child.ints, child.layout.key[edge], child.component, child.fresh, child.count, decided)
    found: int = _ask_parents(*parents, *children, *counted, table.soonest, table.asked, table.flags, asked)
    return found


def ask_overdue(table: Table, place: int, edge: int, limits: Patience, asked: int) -> int:
    """Ask parents that need not wait for a child any longer."""
    if limits.rows < 0 and max(limits.time, limits.low, limits.watermark) == LEAST:
        return asked
    if limits.rows >= 0:
        asked = _ask_below_limit(table, place, table.layout.seen[edge], limits.rows + 1, asked)
    if limits.time > LEAST:
        asked = _ask_below_limit(table, place, START, limits.time, asked)
    if limits.low > LEAST:
        asked = _ask_below_limit(table, place, table.layout.key[edge], limits.low, asked)
    if limits.watermark > LEAST:
        own = (table.pointers, place, table.component, table.asked, table.flags)
        asked = _ask_ending(table.ints, *own, table.soonest, table.fresh, limits.watermark, asked)
    return asked


def _ask_below_limit(table: Table, place: int, column: int, limit: int, asked: int) -> int:
    if not table.fresh:
        return asked
    floor = table.floors.get((column, place))
    if floor is None:
        table.floors[column, place] = floor = Floor(np.full(len(table.soonest), NEVER))
    own = (table.ints, column, table.pointers, place, table.component, table.asked, table.flags)
    asked = _ask_below(*own, floor.least, floor.known, table.fresh, limit, asked)
    floor.known = table.fresh
    return asked


@compiled
def ask_new(component: Any, fresh: Any, count: Any, asked: Any, said: Any) -> Any:
    """Ask all new elements; return their number."""
    found = 0
    for row in range(fresh, count):
        if component[row] == UNKNOWN:
            asked[found], said[row] = row, ASKED
            found += 1
    return found


@inlined
def _ask_once(row: Any, asked: Any, said: Any, count: Any) -> Any:
    """List an element, unless it is listed; return the length of the list."""
    if said[row]:
        return count
    asked[count], said[row] = row, ASKED
    return count + 1


@compiled
def _ask_parents(
    ints: Any, key: Any, pointers: Any, heads: Any, place: Any, component: Any,
    child_ints: Any, child_key: Any, child_component: Any, fresh: Any, after: Any, decided: Any,
    base: Any, counter: Any, soonest: Any, asked: Any, said: Any, count: Any,
) -> Any:  # fmt: skip
    """Ask parents that wait for a new child, which is linked to them, or for a child that has been decided on."""
    keys, head, edges, new = ints[key], heads[place], len(heads), after - fresh
    high, wanted, child_high = ints[HIGH], child_ints[child_key], child_ints[HIGH]
    children = np.empty(new + len(decided), np.int32)
    children[:new], children[new:] = np.arange(fresh, after), decided
    rows = chain_starts(head, wanted, children)
    active = 0
    for i in range(len(children)):
        its = child_component[children[i]]
        children[active], rows[active] = children[i], rows[i]
        active += (rows[i] >= 0) & ((i >= new) | (its < GONE) | (its == COLD))
    while active:  # advance all chains by one, so that their independent memory accesses overlap
        left = 0
        for i in range(active):
            child, row = children[i], rows[i]
            if component[row] == UNKNOWN and keys[row] == wanted[child]:
                its = child_component[child]
                if base >= 0 and pointers[row, place] < 0:
                    child_ints[base, child] = min(child_ints[base, child], counter)
                    child_ints[base + 2, child] = min(child_ints[base + 2, child], ints[START, row])
                pointers[row, place] = child
                missing = its == UNKNOWN  # then nothing can be decided, nor if another child is missing
                for edge in range(edges if its == YES else 0):
                    missing |= pointers[row, edge] < 0
                if not missing:
                    if not said[row]:
                        asked[count], said[row] = row, ASKED
                        count += 1
                elif child_high[child] < high[row]:
                    high[row] = child_high[child]
                    soonest[row // BLOCK] = min(soonest[row // BLOCK], high[row])
            children[left], rows[left] = child, pointers[row, edges + place]
            left += rows[left] >= 0
        active = left
    return count


@compiled
def _ask_below(
    ints: Any, column: Any, pointers: Any, place: Any, component: Any, asked: Any, said: Any,
    least: Any, known: Any, fresh: Any, limit: Any, count: Any,
) -> Any:  # fmt: skip
    """Ask elements that lack a child and are below a limit. Most blocks have none, and are skipped."""
    values, children = ints[column], pointers[:, place]
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
                    count = _ask_once(row, asked, said, count)
    return count


@compiled
def _ask_ending(
    ints: Any, pointers: Any, place: Any, component: Any, asked: Any, said: Any,
    soonest: Any, fresh: Any, watermark: Any, count: Any,
) -> Any:  # fmt: skip
    """Ask elements that lack a child and are not valid after a watermark."""
    high, children = ints[HIGH], pointers[:, place]
    for block in range((fresh + BLOCK - 1) // BLOCK):
        if soonest[block] > watermark:
            continue
        for row in range(block * BLOCK, min(block * BLOCK + BLOCK, fresh)):
            if component[row] == UNKNOWN and children[row] < 0 and high[row] <= watermark:
                count = _ask_once(row, asked, said, count)
    return count

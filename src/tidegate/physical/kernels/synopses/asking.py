"""Whom to decide on: those whose child has come or does not come any more, found without a look at the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.physical.kernels.compiled import compiled, inlined
from tidegate.physical.kernels.synopses.bounds import LEAST
from tidegate.physical.kernels.synopses.index import home
from tidegate.physical.kernels.synopses.layout import HIGH
from tidegate.physical.kernels.synopses.model import COLD, GONE, NEVER, UNKNOWN, YES, Patience, Positions
from tidegate.physical.kernels.synopses.table import BLOCK, Floor, Table

ASKED = 1
"""What is said of an element that is listed."""


def ask_parents(table: Table, place: int, edge: int, child: Table, decided: Positions, asked: int) -> int:
    """Ask those whose child has come or has been decided on."""
    if child.fresh == child.count and not len(decided):
        return asked
    parents = (table.ints, table.at(f"key{edge}"), table.pointers, table.heads, place, table.component)
    children = (child.ints, child.at(f"key{edge}"), child.component, child.fresh, child.count, decided)
    found: int = _ask_parents(*parents, *children, table.soonest, table.asked, table.said, asked)
    return found


def ask_overdue(table: Table, place: int, edge: int, limits: Patience, asked: int) -> int:
    """Ask those who need not wait for a child any longer."""
    if limits.rows < 0 and max(limits.time, limits.low, limits.watermark) == LEAST:
        return asked
    below = ((f"seen{edge}", limits.rows + 1), ("start", limits.time), (f"key{edge}", limits.low))
    own = (table.pointers, place, table.component, table.asked, table.said)
    for name, limit in below:
        if limit > (0 if name.startswith("seen") else LEAST) and table.fresh:
            floor = _floor(table, name, edge)
            asked = _ask_below(table.ints, table.at(name), *own, floor.least, floor.known, table.fresh, limit, asked)
            floor.known = table.fresh
    if limits.watermark > LEAST:
        asked = _ask_ending(table.ints, *own, table.soonest, table.fresh, limits.watermark, asked)
    return asked


def _floor(table: Table, name: str, edge: int) -> Floor:
    if (name, edge) not in table.floors:
        table.floors[name, edge] = Floor(np.full(len(table.soonest), NEVER))
    return table.floors[name, edge]


@compiled
def ask_new(component: Any, fresh: Any, count: Any, asked: Any, said: Any) -> Any:
    """Ask all that are new; how many they are."""
    found = 0
    for row in range(fresh, count):
        if component[row] == UNKNOWN:
            asked[found], said[row] = row, ASKED
            found += 1
    return found


@inlined
def _ask(row: Any, asked: Any, said: Any, count: Any) -> Any:
    """List an element, if it is not listed; how many they are."""
    if said[row]:
        return count
    asked[count], said[row] = row, ASKED
    return count + 1


@compiled
def _ask_parents(
    ints: Any, key: Any, pointers: Any, heads: Any, place: Any, component: Any,
    child_ints: Any, child_key: Any, child_component: Any, fresh: Any, after: Any, decided: Any,
    soonest: Any, asked: Any, said: Any, count: Any,
) -> Any:  # fmt: skip
    """Ask those who wait for new children, which they are told of, or for one that has been decided on."""
    keys, head, edges = ints[key], heads[place], len(heads)
    high, wanted, child_high = ints[HIGH], child_ints[child_key], child_ints[HIGH]
    for i in range(after - fresh + len(decided)):
        child = fresh + i if i < after - fresh else decided[i + fresh - after]
        if child < 0:
            break
        its = child_component[child]
        if i < after - fresh and its >= GONE and its != COLD:
            continue
        row = head[home(wanted[child], len(head))]
        while row >= 0:
            if keys[row] == wanted[child] and component[row] == UNKNOWN:
                pointers[row, place] = child
                if its > YES or (its == YES and _has_all(pointers, edges, row)):
                    count = _ask(row, asked, said, count)
                elif child_high[child] < high[row]:
                    high[row] = child_high[child]
                    soonest[row // BLOCK] = min(soonest[row // BLOCK], high[row])
            row = pointers[row, edges + place]
    return count


@inlined
def _has_all(pointers: Any, edges: Any, row: Any) -> Any:
    """Whether all children have come; else there is nothing to be decided yet."""
    missing = 0
    for edge in range(edges):
        missing += pointers[row, edge] < 0
    return missing == 0


@compiled
def _ask_below(
    ints: Any, column: Any, pointers: Any, place: Any, component: Any, asked: Any, said: Any,
    least: Any, known: Any, fresh: Any, limit: Any, count: Any,
) -> Any:  # fmt: skip
    """Ask those who lack a child and are below a limit; in most blocks nobody is."""
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
                    count = _ask(row, asked, said, count)
    return count


@compiled
def _ask_ending(
    ints: Any, pointers: Any, place: Any, component: Any, asked: Any, said: Any,
    soonest: Any, fresh: Any, watermark: Any, count: Any,
) -> Any:  # fmt: skip
    """Ask those who lack a child and are not valid after a watermark."""
    high, children = ints[HIGH], pointers[:, place]
    for block in range((fresh + BLOCK - 1) // BLOCK):
        if soonest[block] > watermark:
            continue
        for row in range(block * BLOCK, min(block * BLOCK + BLOCK, fresh)):
            if component[row] == UNKNOWN and children[row] < 0 and high[row] <= watermark:
                count = _ask(row, asked, said, count)
    return count

"""Loops over the rows of a table: new ones are put there, chained, and in the end removed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.keyed_join.kernels.bounds import LEAST
from tidegate.physical.keyed_join.kernels.index import home
from tidegate.physical.keyed_join.kernels.layout import END, GIVEN, HIGH, LOW, NOTED, NUMBER, ROW, START
from tidegate.physical.keyed_join.kernels.model import COLD, GONE, NO, UNKNOWN

BLOCK = 64
"""So many rows are looked at together, if one of them must be."""

EMPTY = 2**63 - 1
"""Stands for the time up to which nobody in a block goes where there is nobody."""

_NEW = 255
"""What no component is."""


@compiled
def chain(heads: Any, ints: Any, pointers: Any, component: Any, keys: Any, most: Any, first: Any, after: Any) -> None:
    """Put elements in front of the chains of their keys, but for those that never join or do not stay."""
    for edge in range(len(heads)):
        head, key, following = heads[edge], ints[keys[edge]], pointers[:, len(heads) + edge]
        for row in range(first, after):
            if component[row] <= most or component[row] == COLD:
                bucket = home(key[row], len(head))
                following[row] = head[bucket]
                head[bucket] = row


@compiled
def blank(ints: Any, pointers: Any, was: Any, blanks: Any, first: Any, before: Any, after: Any) -> None:
    """Say of new rows that nothing is known of them, in the columns from a first one on."""
    for column in range(first, len(ints)):
        if blanks[column] != GIVEN:
            ints[column, before:after] = blanks[column]
    pointers[before:after] = -1
    was[before:after] = _NEW


@compiled
def put(
    ints: Any, pointers: Any, component: Any, was: Any, soonest: Any, blanks: Any, before: Any,
    start: Any, end: Any, number: Any, row: Any, passes: Any,
) -> None:  # fmt: skip
    """What arrived, of which nothing more is known. Blocks with elements that never join must be looked at."""
    after = before + len(start)
    blank(ints, pointers, was, blanks, NOTED, before, after)
    for i in range(len(start)):
        at = before + i
        ints[START, at], ints[END, at] = start[i], end[i]
        ints[LOW, at], ints[HIGH, at] = start[i], end[i]
        ints[NUMBER, at], ints[ROW, at] = number[i], row[i]
        component[at] = UNKNOWN
    for block in range(before // BLOCK, (after + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        least = EMPTY if first >= before else soonest[block]
        for i in range(max(first - before, 0), min(first + BLOCK - before, len(start))):
            least = min(least, end[i])
        soonest[block] = least
    for i in range(len(passes)):
        if not passes[i]:
            component[before + i], soonest[(before + i) // BLOCK] = NO, LEAST


@compiled
def count_alive(component: Any, count: Any) -> Any:
    alive = 0
    for row in range(count):
        alive += component[row] < GONE
    return alive


@compiled
def packed(ints: Any, pointers: Any, component: Any, was: Any, count: Any) -> Any:
    """Bring what is not gone to the front; where each row is then, or -1."""
    moved, rows = np.empty(count, np.int32), np.empty(count, np.int32)
    alive = 0
    for row in range(count):
        lives = component[row] < GONE
        moved[row] = alive if lives else -1
        rows[alive] = row
        alive += lives
    for column in ints:
        for i in range(alive):
            column[i] = column[rows[i]]
    for i in range(alive):
        for edge in range(pointers.shape[1] // 2):
            pointers[i, edge] = pointers[rows[i], edge]
    for i in range(alive):
        component[i], was[i] = component[rows[i]], was[rows[i]]
    return moved


@compiled
def follow(pointers: Any, moved: Any) -> None:
    """Let pointers into a table lead to where the rows are now."""
    for row in range(len(pointers)):
        if pointers[row] >= 0:
            pointers[row] = moved[pointers[row]]

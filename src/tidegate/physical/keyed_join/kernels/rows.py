"""Loops over the rows of a table: add new rows, chain them, and remove them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.keyed_join.kernels.bounds import LEAST
from tidegate.physical.keyed_join.kernels.index import home_slot
from tidegate.physical.keyed_join.kernels.layout import END, GIVEN, HIGH, LOW, NOTED, NUMBER, ROW, START
from tidegate.physical.keyed_join.kernels.model import COLD, GONE, NO, UNKNOWN

BLOCK = 64
"""Rows that are checked together, if one of them must be."""

EMPTY = 2**63 - 1
"""Sentinel expiry of an empty block."""

_NEW = 255
"""Differs from all components."""


@compiled
def chain_rows(
    heads: Any, ints: Any, pointers: Any, component: Any, keys: Any, most: Any, first: Any, after: Any
) -> None:
    """Put elements in front of the chains of their keys, except those that never join or do not stay."""
    for edge in range(len(heads)):
        head, key, following = heads[edge], ints[keys[edge]], pointers[:, len(heads) + edge]
        for row in range(first, after):
            if component[row] <= most or component[row] == COLD:
                bucket = home_slot(key[row], len(head))
                following[row] = head[bucket]
                head[bucket] = row


@compiled
def fill_defaults(ints: Any, pointers: Any, was: Any, blanks: Any, first: Any, before: Any, after: Any) -> None:
    """Fill new rows with default values, in the columns from `first` on."""
    for column in range(first, len(ints)):
        if blanks[column] != GIVEN:
            ints[column, before:after] = blanks[column]
    pointers[before:after] = -1
    was[before:after] = _NEW


@compiled
def write_arrivals(
    ints: Any, pointers: Any, component: Any, was: Any, soonest: Any, blanks: Any, before: Any,
    start: Any, end: Any, number: Any, row: Any, passes: Any,
) -> None:  # fmt: skip
    """Add new elements, with default values in the other columns.

    Blocks with elements that never join are marked for the next sweep.
    """
    after = before + len(start)
    fill_defaults(ints, pointers, was, blanks, NOTED, before, after)
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
def pack_rows(ints: Any, pointers: Any, component: Any, was: Any, count: Any) -> Any:
    """Move rows that are not gone to the front; return the new position of each row, or -1."""
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
def redirect_pointers(pointers: Any, moved: Any) -> None:
    """Update pointers into a table after its rows have moved."""
    for row in range(len(pointers)):
        if pointers[row] >= 0:
            pointers[row] = moved[pointers[row]]

"""Loops over the rows of a table: add new rows, chain them, and remove them."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Bytes, Ints, Positions
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.keyed_join.kernels.bounds import LEAST
from tidegate.physical.keyed_join.kernels.index import home_slot
from tidegate.physical.keyed_join.kernels.layout import (
    END,
    GIVEN,
    HIGH,
    LOW,
    NOTED,
    NUMBER,
    ROW,
    START,
    ElementArrays,
    ElementColumns,
)
from tidegate.physical.keyed_join.kernels.model import COLD, GONE, NO, UNKNOWN, Components

BLOCK = 64
"""Rows that are checked together, if one of them must be."""

EMPTY = 2**63 - 1
"""Sentinel expiry of an empty block."""

_NEW = 255
"""Differs from all components."""


@compiled
def chain_rows(
    heads: Positions,
    ints: Ints,
    pointers: Positions,
    component: Components,
    keys: Ints,
    most: int,
    first: int,
    after: int,
) -> None:
    """Put the elements of [first, after) in front of the chains of their keys. `keys` are the columns of the keys.

    Elements whose component is greater than `most` never join or do not stay, and are left out, except cold ones.
    """
    for edge in range(len(heads)):
        head, key, following = heads[edge], ints[keys[edge]], pointers[:, len(heads) + edge]
        for row in range(first, after):
            if component[row] <= most or component[row] == COLD:
                bucket = home_slot(key[row], len(head))
                following[row] = head[bucket]
                head[bucket] = row


@compiled
def fill_defaults(elements: ElementColumns, blanks: Ints, first: int, before: int, after: int) -> None:
    """Fill the rows of [before, after) with default values, in the columns from `first` on."""
    for column in range(first, len(elements.ints)):
        if blanks[column] != GIVEN:
            elements.ints[column, before:after] = blanks[column]
    elements.pointers[before:after] = -1
    elements.was[before:after] = _NEW


@compiled
def write_arrivals(
    arrays: ElementArrays, blanks: Ints, before: int, start: Ints, end: Ints, number: Ints, rows: Ints, passes: Bytes
) -> None:
    """Add new elements from row `before` on, with default values in the other columns.

    `passes` is empty if all elements may join. Blocks with elements that never join are marked for the next sweep.
    """
    elements = ElementColumns(*arrays)
    ints, component, soonest = elements.ints, elements.component, elements.soonest
    fill_defaults(elements, blanks, NOTED, before, before + len(start))
    for i in range(len(start)):
        row = before + i
        ints[START, row], ints[END, row] = start[i], end[i]
        ints[LOW, row], ints[HIGH, row] = start[i], end[i]
        ints[NUMBER, row], ints[ROW, row] = number[i], rows[i]
        component[row] = UNKNOWN
    _add_to_soonest(soonest, before, end)
    for i in range(len(passes)):
        if not passes[i]:
            component[before + i], soonest[(before + i) // BLOCK] = NO, LEAST


@compiled
def _add_to_soonest(soonest: Ints, before: int, end: Ints) -> None:
    """Set when the first element of each block expires, given the ends of new elements from row `before` on."""
    for block in range(before // BLOCK, (before + len(end) + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        least = EMPTY if first >= before else soonest[block]
        for i in range(max(first - before, 0), min(first + BLOCK - before, len(end))):
            least = min(least, end[i])
        soonest[block] = least


@compiled
def count_alive(component: Components, count: int) -> int:
    alive = 0
    for row in range(count):
        alive += component[row] < GONE
    return alive


@compiled
def pack_rows(elements: ElementColumns, count: int) -> Positions:
    """Move rows that are not gone to the front; return the new position of each row, or -1."""
    pointers, component, was = elements.pointers, elements.component, elements.was
    moved, rows = np.empty(count, np.int32), np.empty(count, np.int32)
    alive = 0
    for row in range(count):
        lives = component[row] < GONE
        moved[row] = alive if lives else -1
        rows[alive] = row
        alive += lives
    for column in elements.ints:
        for i in range(alive):
            column[i] = column[rows[i]]
    for i in range(alive):
        for edge in range(pointers.shape[1] // 2):
            pointers[i, edge] = pointers[rows[i], edge]
    for i in range(alive):
        component[i], was[i] = component[rows[i]], was[rows[i]]
    return moved


@compiled
def redirect_pointers(pointers: Positions, moved: Positions) -> None:
    """Update pointers into a table after its rows have moved."""
    for row in range(len(pointers)):
        if pointers[row] >= 0:
            pointers[row] = moved[pointers[row]]

"""Changes of a table, for its log."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.keyed_join.kernels.model import GONE, Components


class TableChanges(NamedTuple):
    """Positions of new or changed elements, the rows of new ones that may join, and of those that no longer may.

    `gone` are the rows of the log that are no longer valid.
    """

    at: Ints
    new: Ints
    removed: Ints
    gone: Ints


RemovedRows = tuple[Ints, Ints]
"""Rows, and their rows in the log."""


@compiled
def take_changed_positions(component: Components, was: Components) -> Ints:
    """Return the positions of elements whose component has changed, and record the current components in `was`."""
    at = np.empty(len(component), np.int64)
    count = 0
    for row in range(len(component)):
        if component[row] < GONE and component[row] != was[row]:
            at[count] = row
            count += 1
            was[row] = component[row]
    return at[:count].copy()


@compiled
def take_removed_rows(component: Components, noted: Ints, row: Ints) -> RemovedRows:
    """Return the elements that are gone but still in the log, and mark them as removed from it."""
    rows, gone = np.empty(len(component), np.int64), np.empty(len(component), np.int64)
    count = 0
    for at in range(len(component)):
        if component[at] >= GONE and noted[at] >= 0:
            rows[count], gone[count] = row[at], noted[at]
            count += 1
            noted[at] = -1
    return rows[:count].copy(), gone[:count].copy()

"""What has changed in a table, for the log of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.keyed_join.kernels.model import GONE


class Changes(NamedTuple):
    """Where elements are that are new or not as they were, the rows of those that are new, and of those removed.

    `gone` are the rows of the log that do not count any more.
    """

    at: Ints
    new: Ints
    removed: Ints
    gone: Ints


Removed = tuple[Ints, Ints]
"""Rows, and which rows of the log have them."""


@compiled
def unlike(component: Any, was: Any) -> Any:
    """Which elements are not as they were; the log knows them then."""
    at = np.empty(len(component), np.int64)
    count = 0
    for row in range(len(component)):
        if component[row] < GONE and component[row] != was[row]:
            at[count] = row
            count += 1
            was[row] = component[row]
    return at[:count].copy()


@compiled
def removed(component: Any, noted: Any, row: Any) -> Any:
    """Those that are gone, which the log has; it knows that they are removed then."""
    rows, gone = np.empty(len(component), np.int64), np.empty(len(component), np.int64)
    count = 0
    for at in range(len(component)):
        if component[at] >= GONE and noted[at] >= 0:
            rows[count], gone[count] = row[at], noted[at]
            count += 1
            noted[at] = -1
    return rows[:count].copy(), gone[:count].copy()

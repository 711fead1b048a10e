"""Elements that wait for a child, in graphs in which they are not found by their keys."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Positions
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.keyed_join.kernels.model import UNKNOWN, Components
from tidegate.physical.keyed_join.kernels.table import Table


def list_waiting(table: Table) -> None:
    """List the Unknown elements: those that still are, then new ones."""
    table.waiting = _unknown_positions(table.waiting, table.component, table.fresh, table.count)


@compiled
def _unknown_positions(waiting: Positions, component: Components, fresh: int, after: int) -> Positions:
    still = np.empty(len(waiting) + after - fresh, np.int32)
    count = 0
    for row in waiting:
        still[count] = row
        count += component[row] == UNKNOWN
    for row in range(fresh, after):
        still[count] = row
        count += component[row] == UNKNOWN
    return still[:count]

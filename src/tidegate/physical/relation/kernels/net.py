"""Net rows: what remains of rows with positive and negative weights at each instant."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.groups import sort_by_group_and_time


def net_rows(groups: Ints, times: Ints, weights: Ints) -> Ints:
    """Return a row for each unit by which the total weight of its group at its time exceeds zero.

    Examples
    --------
    >>> net_rows(np.array([0, 0, 0, 1]), np.array([5, 5, 7, 5]), np.array([1, -1, 1, 2])).tolist()
    [2, 3, 3]
    """
    if not len(groups):
        return np.empty(0, np.int64)
    _, order = sort_by_group_and_time(groups, times, count=int(groups.max()) + 1)
    owners, instants = groups[order], times[order]
    firsts = np.flatnonzero(np.append([True], (owners[1:] != owners[:-1]) | (instants[1:] != instants[:-1])))
    sums = np.add.reduceat(weights[order], firsts)
    return np.repeat(order[firsts], np.where(sums > 0, sums, 0))

"""Coalesce equal elements that are adjacent in time, up to a bound on the length."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.groups import sort_by_group_and_time


def chains(groups: Ints, start: Ints, end: Ints, length: int) -> tuple[Ints, Ints]:
    """Return the last row of each chain of adjacent rows, and when the chain starts; it ends with that row.

    Rows of one group are adjacent if one ends when the other starts. Each row continues at most one other, and no chain
    of several rows is longer than `length`.

    Examples
    --------
    >>> last, since = chains(np.array([0, 0, 0]), np.array([1, 3, 4]), np.array([3, 4, 9]), 5)
    >>> last.tolist(), since.tolist()
    ([1, 2], [1, 4])
    """
    by_end = np.argsort(end, kind="stable")
    groups, start, end = groups[by_end], start[by_end], end[by_end]
    count = int(groups.max(initial=-1)) + 1
    bounds, starting = sort_by_group_and_time(groups, start, count=count)
    last, since = _link_rows(bounds, starting, sort_by_group_and_time(groups, end, count=count)[1], start, end, length)
    return by_end[last], since


@compiled
def _link_rows(bounds: Ints, by_start: Ints, by_end: Ints, start: Ints, end: Ints, length: int) -> tuple[Ints, Ints]:
    """Link the rows of each group by start with the rows that end there.

    Among rows with the same start, the shortest comes first: if a chain is too long with it, it is too long with the
    others.
    """
    since, continued = start.copy(), np.zeros(len(start), np.bool_)
    for group in range(len(bounds) - 1):
        ending, stop = bounds[group], bounds[group + 1]
        for at in range(bounds[group], stop):
            row = by_start[at]
            while ending < stop and end[by_end[ending]] < start[row]:
                ending += 1
            while ending < stop and end[by_end[ending]] == start[row]:
                before = by_end[ending]
                ending += 1
                if since[before] >= end[row] - length:
                    since[row] = since[before]
                    continued[before] = True
                    break
    last = np.flatnonzero(~continued)
    return last, since[last]

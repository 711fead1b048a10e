"""Cut validities at given instants."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Ints


def cut_at(start: Ints, end: Ints, instants: Ints) -> tuple[Ints, Ints, Ints]:
    """Cut validities at ascending instants; return the row, start and end of each piece.

    Examples
    --------
    >>> [each.tolist() for each in cut_at(np.array([0, 5]), np.array([9, 6]), np.array([0, 3, 5, 9]))]
    [[0, 0, 0, 1], [0, 3, 5, 5], [3, 5, 9, 6]]
    """
    first = np.searchsorted(instants, start, side="right")
    cuts = np.maximum(np.searchsorted(instants, end, side="left") - first, 0)
    rows = np.repeat(np.arange(len(start)), cuts + 1)
    number = np.arange(len(rows)) - np.repeat(np.cumsum(cuts + 1) - (cuts + 1), cuts + 1)
    if not len(instants):
        return rows, start, end
    at = first[rows] + number
    begin = np.where(number == 0, start[rows], instants[np.clip(at - 1, 0, len(instants) - 1)])
    until = np.where(number == cuts[rows], end[rows], instants[np.clip(at, 0, len(instants) - 1)])
    return rows, begin, until

"""Shorten or coarsen validities: arithmetic on columns, without state."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.time import BEGINNING, FOREVER


def split_validities(start: Ints, end: Ints, length: int) -> tuple[Ints, Ints, Ints]:
    """Split validities into fragments of at most `length`, cut at start + k·length; return row, start and end of each.

    Examples
    --------
    >>> [a.tolist() for a in split_validities(np.array([3, 5]), np.array([8, 6]), 2)]
    [[0, 0, 0, 1], [3, 5, 7, 5], [5, 7, 8, 6]]
    """
    pieces = -((start - end) // length)
    rows = np.repeat(np.arange(len(start)), pieces)
    number = np.arange(len(rows)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    begin = start[rows] + number * length
    return rows, begin, np.minimum(begin + length, end[rows])


def coarsen_times(times: Ints, size: Ints | int) -> Ints:
    """Return the first multiple of `size` at or after each time; FOREVER stays. Each time may have its own size.

    Examples
    --------
    >>> coarsen_times(np.array([-3, 0, 1, 2]), 2).tolist()
    [-2, 0, 2, 2]
    """
    return np.where(times >= FOREVER, FOREVER, -(-times // size) * size)


def coarsen_watermark(watermark: int, size: int) -> int:
    """Return where an element at the watermark itself would start on the grid of `size`."""
    return watermark if watermark in (BEGINNING, FOREVER) else min(-(-watermark // size) * size, FOREVER)

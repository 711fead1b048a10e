"""Validities made shorter or coarser: arithmetic on columns, no state."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidegate.time import BEGINNING, FOREVER

Times = npt.NDArray[np.int64]


def split_validities(start: Times, end: Times, length: int) -> tuple[Times, Times, Times]:
    """Fragments of at most `length`, cut at start + k·length: the row of each, its start and its end.

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


def coarsened(times: Times, size: int) -> Times:
    """The first multiple of `size` at or after each time; what never ends stays so.

    Examples
    --------
    >>> coarsened(np.array([-3, 0, 1, 2]), 2).tolist()
    [-2, 0, 2, 2]
    """
    return np.where(times >= FOREVER, FOREVER, -(-times // size) * size)


def coarsened_watermark(watermark: int, size: int) -> int:
    """Where an element at the watermark itself would begin on the grid of `size`."""
    return watermark if watermark in (BEGINNING, FOREVER) else min(-(-watermark // size) * size, FOREVER)

"""Index of the rows of a piece by the ids of their subscriptions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidegate.physical.common.arrays import Ints

_SPARSE = 8
"""Numbers in the span of the ids, per id, above which the index is a sorted list instead of a table."""


class IdIndex(NamedTuple):
    """Index of ids: a table of rows from the first id on, with -1 for missing ids; or sorted ids with their rows."""

    first: int
    row: npt.NDArray[np.int32]
    ids: Ints | None


def index_ids(ids: Ints) -> IdIndex:
    """Return the index of ids; there must be at least one."""
    first, span = int(ids.min()), int(ids.max()) - int(ids.min()) + 1
    if span > _SPARSE * len(ids):
        order = np.argsort(ids).astype(np.int32)
        return IdIndex(first, order, ids[order])
    row = np.full(span, -1, np.int32)
    row[ids - first] = np.arange(len(ids), dtype=np.int32)
    return IdIndex(first, row, None)


def rows_of(index: IdIndex, wanted: Ints) -> Ints:
    """Return the rows that have the ids, or -1.

    Examples
    --------
    >>> rows_of(index_ids(np.array([7, 5])), np.array([4, 5, 6, 7])).tolist()
    [-1, 1, -1, 0]
    >>> rows_of(index_ids(np.array([7, 500])), np.array([7, 8, 500, 501])).tolist()
    [0, -1, 1, -1]
    """
    if index.ids is None:
        place = wanted - index.first
        inside = (place >= 0) & (place < len(index.row))
        return np.where(inside, index.row[np.where(inside, place, 0)], -1).astype(np.int64)
    place = np.minimum(np.searchsorted(index.ids, wanted), len(index.ids) - 1)
    return np.where(index.ids[place] == wanted, index.row[place], -1).astype(np.int64)

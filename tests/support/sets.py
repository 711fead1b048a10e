"""Columns of sets, as similarity joins compare them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tidegate.physical.similarity_join.kernels.values import Sets


def sets_of(sets: Sequence[Collection[int]]) -> Sets:
    """Return sets as a column. Weighted sets are given as mappings.

    Examples
    --------
    >>> column = sets_of([[3, 1], [], [2]])
    >>> column.bounds.tolist(), column.items.tolist()
    ([0, 2, 2, 3], [1, 3, 2])
    >>> sets_of([{7: 0.5}]).weights.tolist()
    [0.5]
    """
    rows = [sorted(set(each)) for each in sets]
    items = np.array([item for row in rows for item in row], np.int64)
    bounds = np.cumsum([0, *(len(row) for row in rows)])
    weighted = [(each, row) for each, row in zip(sets, rows, strict=True) if isinstance(each, Mapping)]
    if not weighted:
        return Sets(bounds, items)
    return Sets(bounds, items, np.array([each[item] for each, row in weighted for item in row], np.float64))

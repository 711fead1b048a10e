"""Keys of parents whose child has not come: when each has occurred, so that the child can be told."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tidegate.physical.kernels.compiled import compiled
from tidegate.physical.kernels.synopses.index import slot_of
from tidegate.physical.kernels.synopses.model import NEVER, Ints, Mask
from tidegate.physical.kernels.synopses.table import Table


class Clusters(NamedTuple):
    """For each key: the number of its first parent, how many came since, when the first started and the last ends."""

    key: Ints
    base: Ints
    after: Ints
    first: Ints
    end: Ints

    @classmethod
    def empty(cls) -> Clusters:
        return cls(*np.empty((5, 0), np.int64))

    def retain(self, keep: Mask) -> Clusters:
        return self if keep.all() else Clusters(*(column[keep] for column in self))

    def add(self, key: Ints, number: Ints, start: Ints, end: Ints) -> Clusters:
        """Count more parents."""
        if not len(key):
            return self
        more = (key, number, np.zeros(len(key), np.int64), start, end)
        columns = [np.concatenate(pair) for pair in zip(self, more, strict=True)]
        count = _merge(*columns)
        return Clusters(*(column[:count] for column in columns))

    def hand_over(self, child: Table, edge: int) -> Clusters:
        """Tell new children of the parents that came before them; what is left then."""
        if not len(self.key) or child.fresh == child.count:
            return self
        keep = np.ones(len(self.key), np.bool_)
        known = (child[f"base{edge}"], child[f"after{edge}"], child[f"first{edge}"])
        _hand_over(self, child[f"key{edge}"], child.fresh, *known, keep)
        return self.retain(keep)


@compiled
def _slots(count: Any) -> Any:
    size = 16
    while size < 2 * count:
        size *= 2
    slots = np.empty((size, 2), np.int64)
    slots[:, 1] = -1
    return slots


@compiled
def _merge(key: Any, base: Any, after: Any, first: Any, end: Any) -> Any:
    """Make one row of those with equal keys, in place; how many there are then."""
    slots = _slots(len(key))
    count = 0
    for row in range(len(key)):
        slot = slot_of(slots, key[row])
        at = slots[slot, 1]
        if at < 0:
            slots[slot, 0], slots[slot, 1] = key[row], count
            key[count], base[count], after[count] = key[row], base[row], after[row]
            first[count], end[count] = first[row], end[row]
            count += 1
        else:
            base[at], after[at] = min(base[at], base[row]), after[at] + after[row] + 1
            first[at], end[at] = min(first[at], first[row]), max(end[at], end[row])
    return count


@compiled
def _hand_over(clusters: Any, key: Any, fresh: Any, base: Any, after: Any, first: Any, keep: Any) -> None:
    slots = _slots(len(clusters.key))
    for at in range(len(clusters.key)):
        slot = slot_of(slots, clusters.key[at])
        slots[slot, 0], slots[slot, 1] = clusters.key[at], at
    for row in range(fresh, len(key)):
        at = slots[slot_of(slots, key[row]), 1]
        if at >= 0 and keep[at]:
            after[row] += clusters.after[at] + (base[row] < NEVER)
            base[row], first[row] = min(base[row], clusters.base[at]), min(first[row], clusters.first[at])
            keep[at] = False

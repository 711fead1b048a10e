"""Observe how long after its first arrival a value arrives again.

For each value a *mark* is kept: the place of its first arrival, in rows plus the number of repeats. The distance of a
repeat is its place minus the mark. A value that arrives beyond its limit counts as new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.physical.common.arrays import Columns
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.keyed_join.kernels.monitor import (
    Limits,
    Observations,
    WatchedArrivals,
    build_key_table,
    filter_rows,
    keyed_columns,
    limits_of_keys,
    no_rows,
    slot_of_key,
)

_NOWHERE = -(2**63)


@dataclass(frozen=True, slots=True, eq=False)
class ClustersSeen:
    """Values with their marks, and arrivals that wait for the watermark because earlier ones may still arrive."""

    marks: Columns = field(default_factory=no_rows)
    pending: Columns = field(default_factory=no_rows)

    def __len__(self) -> int:
        return len(self.marks["key"]) + len(self.pending["key"])

    def to_columns(self) -> dict[str, Columns]:
        """Return the parts. A part that has not changed is the same object as before."""
        return {"marks": self.marks, "pending": self.pending}

    @classmethod
    def from_columns(cls, parts: Mapping[str, Columns]) -> ClustersSeen:
        return cls(parts["marks"], parts["pending"])


def observe_clusters(
    seen: ClustersSeen, arrivals: WatchedArrivals, limits: Limits, *, in_rows: bool
) -> tuple[ClustersSeen, Observations]:
    """Measure how far values that the watermark has passed are from their first arrival."""
    settled, pending = _split_at_watermark(seen.pending, arrivals)
    key, at = settled["key"], settled["at"]
    marks, distance = seen.marks, np.empty(0, np.int64)
    if len(key):
        bounds = (limits.hash_limit, limits.sampled_limit, limits.kept)
        value, mark, distance = _measure_repeats(marks["key"], marks["at"], key, at, int(in_rows), *bounds)
        marks = keyed_columns(value, mark)
    apart = arrivals.watermark - marks["at"] - int(in_rows)
    marks = filter_rows(marks, apart <= limits_of_keys(marks["key"], limits))
    return ClustersSeen(marks, pending), Observations.of(distance)


def _split_at_watermark(pending: Columns, arrivals: WatchedArrivals) -> tuple[Columns, Columns]:
    """Return the arrivals before the watermark, by place, and the rest."""
    key, at = arrivals.key, arrivals.at
    if len(pending["key"]):
        key, at = np.concatenate([pending["key"], key]), np.concatenate([pending["at"], at])
    if (at[1:] < at[:-1]).any():
        order = np.argsort(at, kind="stable")
        key, at = key[order], at[order]
    count = int(np.searchsorted(at, arrivals.watermark))
    unchanged = (count == 0 and not len(arrivals.at)) or (count == len(at) and not len(pending["at"]))
    return keyed_columns(key[:count], at[:count]), pending if unchanged else keyed_columns(key[count:], at[count:])


@compiled
def _measure_repeats(
    marked: Any, mark: Any, key: Any, at: Any, step: Any, chosen: Any, farthest: Any, kept: Any
) -> tuple[Any, Any, Any]:
    """Return values and marks after the arrivals, which are sorted by place, and the distances of repeats."""
    table, keys = build_key_table(key, key[:0])
    now = np.full(len(keys), _NOWHERE, np.int64)
    values, marks = np.empty(len(marked) + len(keys), np.uint64), np.empty(len(marked) + len(keys), np.int64)
    rows = 0
    for i in range(len(marked)):
        number = table[slot_of_key(table, keys, marked[i])]
        if number >= 0:
            now[number] = mark[i]
        else:
            values[rows], marks[rows] = marked[i], mark[i]
            rows += 1
    distance, count = np.empty(len(key), np.int64), 0
    for i in range(len(key)):
        number = table[slot_of_key(table, keys, key[i])]
        limit = farthest if key[i] >> np.uint64(32) < chosen else kept
        if now[number] == _NOWHERE or at[i] - now[number] - step > limit:
            now[number] = at[i]
        else:
            now[number] += step
            distance[count] = max(at[i] - now[number], 0)
            count += 1
    for number in range(len(keys)):
        values[rows], marks[rows] = keys[number], now[number]
        rows += 1
    return values[:rows], marks[:rows], distance[:count]

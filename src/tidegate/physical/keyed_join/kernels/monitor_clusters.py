"""Observe how long after its first arrival a value arrives again.

For each value a *mark* is kept: the place of its first arrival, in rows plus the number of repeats. The distance of a
repeat is its place minus the mark. A value that arrives beyond its limit counts as new.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.hashing import Hashes
from tidegate.physical.keyed_join.kernels.monitor import (
    KeyedPlaces,
    KeyLimits,
    Limits,
    Observations,
    ObserverState,
    WatchedArrivals,
    build_key_table,
    filter_rows,
    keyed_columns,
    limit_of_key,
    limits_of_keys,
    no_rows,
    number_of_key,
)

_NOWHERE = -(2**63)


@dataclass(frozen=True, slots=True, eq=False)
class ClustersSeen(ObserverState):
    """Values with their marks, and arrivals that wait for the watermark because earlier ones may still arrive."""

    marks: Columns = field(default_factory=no_rows)
    pending: Columns = field(default_factory=no_rows)


def observe_clusters(
    seen: ClustersSeen, arrivals: WatchedArrivals, limits: Limits, *, in_rows: bool
) -> tuple[ClustersSeen, Observations]:
    """Measure how far values that the watermark has passed are from their first arrival."""
    settled, pending = _split_at_watermark(seen.pending, arrivals)
    marks, distance = seen.marks, np.empty(0, np.int64)
    if len(settled["key"]):
        known, new = KeyedPlaces(marks["key"], marks["at"]), KeyedPlaces(settled["key"], settled["at"])
        value, mark, distance = _measure_repeats(known, new, int(in_rows), limits.of_keys)
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
    known: KeyedPlaces, arrivals: KeyedPlaces, step: int, limits: KeyLimits
) -> tuple[Hashes, Ints, Ints]:
    """Return values and marks after the arrivals, which are sorted by place, and the distances of repeats.

    `known` are values and marks before the arrivals. A repeat moves the mark of its value by `step`.
    """
    table, key, at = build_key_table(arrivals.key, arrivals.key[:0]), arrivals.key, arrivals.at
    now = np.full(len(table.keys), _NOWHERE, np.int64)
    room = len(known.key) + len(table.keys)
    values, marks = np.empty(room, np.uint64), np.empty(room, np.int64)
    rows = 0
    for i in range(len(known.key)):
        number = number_of_key(table, known.key[i])
        if number >= 0:
            now[number] = known.at[i]
        else:
            values[rows], marks[rows] = known.key[i], known.at[i]
            rows += 1
    distance, count = np.empty(len(key), np.int64), 0
    for i in range(len(key)):
        number = number_of_key(table, key[i])
        if now[number] == _NOWHERE or at[i] - now[number] - step > limit_of_key(key[i], limits):
            now[number] = at[i]
        else:
            now[number] += step
            distance[count] = max(at[i] - now[number], 0)
            count += 1
    for number in range(len(table.keys)):
        values[rows], marks[rows] = table.keys[number], now[number]
        rows += 1
    return values[:rows], marks[:rows], distance[:count]

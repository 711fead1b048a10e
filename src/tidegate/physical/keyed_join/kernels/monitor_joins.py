"""Observe how long after a parent its child arrives.

A parent waits for its child, and a child is remembered for later parents, for a while. A pair counts if the places of
the two are no farther apart than the limit of their key. A child that precedes its parent has distance zero. Each key
has one child.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.hashing import Hashes
from tidegate.physical.keyed_join.kernels.monitor import (
    KeyedPlaces,
    KeyLimits,
    KeyTable,
    Limits,
    Observations,
    ObserverState,
    WatchedArrivals,
    build_key_table,
    keyed_columns,
    limit_of_key,
    no_rows,
    number_of_key,
)

_NOWHERE = -(2**63)


@dataclass(frozen=True, slots=True, eq=False)
class JoinsSeen(ObserverState):
    """Parents that wait for a child, and children that may still get parents."""

    parents: Columns = field(default_factory=no_rows)
    children: Columns = field(default_factory=no_rows)


def observe_joins(
    seen: JoinsSeen, parents: WatchedArrivals, children: WatchedArrivals, limits: Limits
) -> tuple[JoinsSeen, Observations]:
    """Measure the distances from parents to children, over all pairs that the batch completes."""
    new_parents, new_children = keyed_columns(parents.key, parents.at), keyed_columns(children.key, children.at)
    waiting, remembered, bounds = _keyed_places(seen.parents), _keyed_places(seen.children), limits.of_keys
    distance, old, new = _measure_pairs(
        waiting, remembered, _keyed_places(new_parents), _keyed_places(new_children), bounds
    )
    everyone = np.ones(len(remembered.key), np.bool_), np.ones(len(children.key), np.bool_)
    return JoinsSeen(
        _remaining_columns(seen.parents, old, new_parents, new, children.watermark, bounds),
        _remaining_columns(seen.children, everyone[0], new_children, everyone[1], parents.watermark, bounds),
    ), Observations.of(distance)


def _keyed_places(part: Columns) -> KeyedPlaces:
    return KeyedPlaces(part["key"], part["at"])


def _remaining_columns(
    part: Columns, old: Mask, arrivals: Columns, new: Mask, watermark: int, limits: KeyLimits
) -> Columns:
    """Return the rows of the part and of the arrivals that may still find a partner."""
    key, at, unchanged = _remaining_rows(_keyed_places(part), old, _keyed_places(arrivals), new, watermark, limits)
    return part if unchanged else keyed_columns(key, at)


@compiled
def _remaining_rows(
    part: KeyedPlaces, old: Mask, arrivals: KeyedPlaces, new: Mask, watermark: int, limits: KeyLimits
) -> tuple[Hashes, Ints, bool]:
    """Return keys and places of rows that may still find a partner within their limit, and whether none changed."""
    room = len(part.key) + len(arrivals.key)
    rows = KeyedPlaces(np.empty(room, np.uint64), np.empty(room, np.int64))
    still = _append_remaining(rows, 0, part, old, watermark, limits)
    count = _append_remaining(rows, still, arrivals, new, watermark, limits)
    unchanged = still == len(part.key) and count == still
    if count < room // 2:
        return rows.key[:count].copy(), rows.at[:count].copy(), unchanged
    return rows.key[:count], rows.at[:count], unchanged


@compiled
def _append_remaining(
    rows: KeyedPlaces, count: int, given: KeyedPlaces, goes_on: Mask, watermark: int, limits: KeyLimits
) -> int:
    """Append rows that may still find a partner to the first `count` rows; return the number of rows."""
    key, at = given.key, given.at
    for i in range(len(key)):
        if goes_on[i] and at[i] + limit_of_key(key[i], limits) >= watermark:
            rows.key[count], rows.at[count] = key[i], at[i]
            count += 1
    return count


@compiled
def _measure_pairs(
    waiting: KeyedPlaces, remembered: KeyedPlaces, parents: KeyedPlaces, children: KeyedPlaces, limits: KeyLimits
) -> tuple[Ints, Mask, Mask]:
    """Measure all pairs with a new side. Only new keys are put into a table; old rows are looked up in it."""
    table = build_key_table(children.key, parents.key)
    child_at = np.full(len(table.keys), _NOWHERE, np.int64)
    _record_children(child_at, table, children)
    _record_children(child_at, table, remembered)
    distance = np.empty(len(waiting.key) + len(parents.key), np.int64)
    old, new = np.ones(len(waiting.key), np.bool_), np.ones(len(parents.key), np.bool_)
    count = _append_distances(distance, 0, waiting, old, child_at, table, limits)
    count = _append_distances(distance, count, parents, new, child_at, table, limits)
    return distance[:count], old, new


@compiled
def _record_children(child_at: Ints, table: KeyTable, children: KeyedPlaces) -> None:
    """Record the place of each child whose key is in the table."""
    for i in range(len(children.key)):
        number = number_of_key(table, children.key[i])
        if number >= 0:
            child_at[number] = children.at[i]


@compiled
def _append_distances(
    distance: Ints,
    count: int,
    parents: KeyedPlaces,
    goes_on: Mask,
    child_at: Ints,
    table: KeyTable,
    limits: KeyLimits,
) -> int:
    """Append the distances of parents that have a child, and end their wait; return the number of distances."""
    key, at = parents.key, parents.at
    for i in range(len(key)):
        number = number_of_key(table, key[i])
        if number >= 0 and child_at[number] != _NOWHERE:
            goes_on[i] = False
            apart = child_at[number] - at[i]
            if abs(apart) <= limit_of_key(key[i], limits):
                distance[count] = max(apart, 0)
                count += 1
    return count

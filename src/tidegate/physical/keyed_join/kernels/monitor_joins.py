"""Observe how long after a parent its child arrives.

A parent waits for its child, and a child is remembered for later parents, for a while. A pair counts if the places of
the two are no farther apart than the limit of their key. A child that precedes its parent has distance zero. Each key
has one child.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.hashing import Hashes
from tidegate.physical.keyed_join.kernels.monitor import (
    Limits,
    Observations,
    WatchedArrivals,
    build_key_table,
    keyed_columns,
    no_rows,
    slot_of_key,
)

_NOWHERE = -(2**63)

_Bounds = tuple[np.uint64, int, int]
"""Upper end of the sample's hashes, the limit of sampled keys, and the limit of others."""


@dataclass(frozen=True, slots=True, eq=False)
class JoinsSeen:
    """Parents that wait for a child, and children that may still get parents."""

    parents: Columns = field(default_factory=no_rows)
    children: Columns = field(default_factory=no_rows)

    def __len__(self) -> int:
        return len(self.parents["key"]) + len(self.children["key"])

    def to_columns(self) -> dict[str, Columns]:
        """Return the parts. A part that has not changed is the same object as before."""
        return {"parents": self.parents, "children": self.children}

    @classmethod
    def from_columns(cls, parts: Mapping[str, Columns]) -> JoinsSeen:
        return cls(parts["parents"], parts["children"])


def observe_joins(
    seen: JoinsSeen, parents: WatchedArrivals, children: WatchedArrivals, limits: Limits
) -> tuple[JoinsSeen, Observations]:
    """Measure the distances from parents to children, over all pairs that the batch completes."""
    new_parents, new_children = keyed_columns(parents.key, parents.at), keyed_columns(children.key, children.at)
    waiting, remembered = _key_and_place(seen.parents), _key_and_place(seen.children)
    bounds = (limits.hash_limit, limits.sampled_limit, limits.kept)
    distance, old, new = _measure_pairs(
        waiting, remembered, _key_and_place(new_parents), _key_and_place(new_children), *bounds
    )
    everyone = np.ones(len(remembered[0]), np.bool_), np.ones(len(children.key), np.bool_)
    return JoinsSeen(
        _remaining_columns(seen.parents, old, new_parents, new, children.watermark, bounds),
        _remaining_columns(seen.children, everyone[0], new_children, everyone[1], parents.watermark, bounds),
    ), Observations.of(distance)


def _key_and_place(part: Columns) -> tuple[Hashes, Ints]:
    return part["key"], part["at"]


def _remaining_columns(
    part: Columns, old: Mask, arrivals: Columns, new: Mask, watermark: int, bounds: _Bounds
) -> Columns:
    """Return the rows of the part and of the arrivals that may still find a partner."""
    key, at, unchanged = _remaining_rows(_key_and_place(part), old, _key_and_place(arrivals), new, watermark, *bounds)
    return part if unchanged else keyed_columns(key, at)


@compiled
def _remaining_rows(
    part: Any, old: Any, arrivals: Any, new: Any, watermark: Any, chosen: Any, farthest: Any, kept: Any
) -> Any:
    """Return keys and places of rows that may still find a partner within their limit, and whether none changed."""
    room = len(part[0]) + len(arrivals[0])
    keys, places = np.empty(room, np.uint64), np.empty(room, np.int64)
    still = _append_remaining(keys, places, 0, part[0], part[1], old, watermark, chosen, farthest, kept)
    count = _append_remaining(keys, places, still, arrivals[0], arrivals[1], new, watermark, chosen, farthest, kept)
    unchanged = still == len(part[0]) and count == still
    if count < room // 2:
        return keys[:count].copy(), places[:count].copy(), unchanged
    return keys[:count], places[:count], unchanged


@compiled
def _append_remaining(
    keys: Any,
    places: Any,
    count: Any,
    key: Any,
    at: Any,
    goes_on: Any,
    watermark: Any,
    chosen: Any,
    farthest: Any,
    kept: Any,
) -> Any:
    """Append rows that may still find a partner; return the number of rows."""
    for i in range(len(key)):
        limit = farthest if key[i] >> np.uint64(32) < chosen else kept
        if goes_on[i] and at[i] + limit >= watermark:
            keys[count], places[count] = key[i], at[i]
            count += 1
    return count


@compiled
def _measure_pairs(
    waiting: Any, remembered: Any, parents: Any, children: Any, chosen: Any, farthest: Any, kept: Any
) -> Any:
    """Measure all pairs with a new side. Only new keys are put into a table; old rows are looked up in it."""
    table, keys = build_key_table(children[0], parents[0])
    child = np.full(len(keys), _NOWHERE, np.int64)
    _record_children(child, table, keys, children[0], children[1])
    _record_children(child, table, keys, remembered[0], remembered[1])
    distance = np.empty(len(waiting[0]) + len(parents[0]), np.int64)
    old, new = np.ones(len(waiting[0]), np.bool_), np.ones(len(parents[0]), np.bool_)
    count = _append_distances(distance, 0, old, child, table, keys, waiting[0], waiting[1], chosen, farthest, kept)
    count = _append_distances(distance, count, new, child, table, keys, parents[0], parents[1], chosen, farthest, kept)
    return distance[:count], old, new


@compiled
def _record_children(child: Any, table: Any, keys: Any, key: Any, at: Any) -> None:
    """Record the place of each child whose key is in the table."""
    for i in range(len(key)):
        number = table[slot_of_key(table, keys, key[i])]
        if number >= 0:
            child[number] = at[i]


@compiled
def _append_distances(
    distance: Any,
    count: Any,
    goes_on: Any,
    child: Any,
    table: Any,
    keys: Any,
    key: Any,
    at: Any,
    chosen: Any,
    farthest: Any,
    kept: Any,
) -> Any:
    """Append the distances of parents that have a child, and end their wait; return the number of distances."""
    for i in range(len(key)):
        number = table[slot_of_key(table, keys, key[i])]
        if number >= 0 and child[number] != _NOWHERE:
            goes_on[i] = False
            apart = child[number] - at[i]
            if abs(apart) <= (farthest if key[i] >> np.uint64(32) < chosen else kept):
                distance[count] = max(apart, 0)
                count += 1
    return count

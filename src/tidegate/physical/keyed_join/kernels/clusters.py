"""Clusters: when parents with a key occurred, and when no more arrive. Keys may be known before their child."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.keyed_join.kernels.bounds import LEAST
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.index import slot_of
from tidegate.physical.keyed_join.kernels.layout import END, NUMBER, START
from tidegate.physical.keyed_join.kernels.model import NEVER
from tidegate.physical.keyed_join.kernels.table import Table

_NAMES = ("key", "base", "after", "first", "end")
_KEY, _BASE, _AFTER, _FIRST, _END = range(5)
"""Columns of clusters."""


@dataclass(slots=True, eq=False)
class Clusters:
    """Clusters of parents by key, for keys without a child.

    For each key: the number of its first parent, the number of parents since, when the first starts and the last ends.
    A removed cluster ends at the least time. Its space is freed when room is needed.
    """

    known: Ints = field(default_factory=lambda: np.empty((0, 5), np.int64))
    slots: Ints = field(default_factory=lambda: _empty_slots(16))
    count: int = 0

    @classmethod
    def of(cls, columns: Columns) -> Clusters:
        return cls(*_repack(np.stack([columns[name] for name in _NAMES], axis=1), len(columns["key"]), 0))

    def to_columns(self) -> dict[str, Ints]:
        """Return the clusters that are not removed."""
        known = self.known[: self.count]
        return dict(zip(_NAMES, known[known[:, _END] > LEAST].T.copy(), strict=True))

    def add(self, parent: Table, stop: int, child: Table, edge: int, same: int | None) -> None:
        """Move clusters to their new children, and count new parents up to row `stop`.

        A parent whose child exists is counted at the child. Parents have their own numbers, or all have the number
        `same`.
        """
        if parent.fresh == stop and (child.fresh == child.count or not self.count):
            return
        self._make_room(stop - parent.fresh)
        here = (parent.ints, parent.layout.key[edge], parent.columns[f"child{edge}"], parent.fresh, stop)
        there = (child.ints, child.layout.key[edge], child.layout.base[edge], child.fresh, child.count)
        self.count = _update_clusters(self.known, self.slots, self.count, *here, -1 if same is None else same, *there)

    def _make_room(self, more: int) -> None:
        if self.count + more > len(self.known):
            self.known, self.slots, self.count = _repack(self.known, self.count, more)

    def forget(self, ending: Ending, horizon: int) -> None:
        """Remove keys that no longer arrive, and keys whose parents have expired."""
        if self.count:
            _remove_ended(self.known, self.count, *ending, horizon)


@compiled
def _update_clusters(
    known: Any, slots: Any, count: Any,
    ints: Any, key_at: Any, children: Any, begin: Any, stop: Any, same: Any,
    child_ints: Any, child_key_at: Any, base_at: Any, fresh: Any, child_count: Any,
) -> Any:  # fmt: skip
    """Update clusters; return their number."""
    key, number, start, end = ints[key_at], ints[NUMBER], ints[START], ints[END]
    base, after, first = child_ints[base_at], child_ints[base_at + 1], child_ints[base_at + 2]
    child_key = child_ints[child_key_at]
    for row in range(fresh, child_count if count else fresh):
        at = slots[slot_of(slots, child_key[row]), 1]
        if at >= 0 and known[at, _END] > LEAST:
            after[row] += known[at, _AFTER] + (base[row] < NEVER)
            base[row], first[row] = min(base[row], known[at, _BASE]), min(first[row], known[at, _FIRST])
            known[at, _END] = LEAST
    for row in range(begin, stop):
        child, now = children[row], number[row] if same < 0 else same
        if child >= 0:
            after[child] += base[child] < NEVER
            base[child], first[child] = min(base[child], now), min(first[child], start[row])
            continue
        slot = slot_of(slots, key[row])
        at = slots[slot, 1]
        if at >= 0 and known[at, _END] > LEAST:
            known[at, _BASE], known[at, _AFTER] = min(known[at, _BASE], now), known[at, _AFTER] + 1
            known[at, _FIRST] = min(known[at, _FIRST], start[row])
            known[at, _END] = max(known[at, _END], end[row])
            continue
        slots[slot, 0], slots[slot, 1] = key[row], count
        known[count, _KEY], known[count, _BASE], known[count, _AFTER] = key[row], now, 0
        known[count, _FIRST], known[count, _END] = start[row], end[row]
        count += 1
    return count


@compiled
def _repack(known: Any, count: Any, more: Any) -> Any:
    """Return clusters without the removed ones, with room for more, their slots, and their number."""
    size, left = 64, 0
    for at in range(count):
        left += known[at, _END] > LEAST
    while size < 4 * (left + more):
        size *= 2
    packed, slots = np.empty((size // 2, 5), np.int64), _empty_slots(size)
    left = 0
    for at in range(count):
        if known[at, _END] > LEAST:
            packed[left] = known[at]
            slot = slot_of(slots, known[at, _KEY])
            slots[slot, 0], slots[slot, 1] = known[at, _KEY], left
            left += 1
    return packed, slots, left


@compiled
def _empty_slots(size: Any) -> Any:
    """Return empty slots."""
    slots = np.empty((size, 2), np.int64)
    slots[:, 1] = -1
    return slots


@compiled
def _remove_ended(known: Any, count: Any, counter: Any, gap: Any, time: Any, low: Any, horizon: Any) -> None:
    """Remove clusters that have ended. Columns without a limit are not read."""
    for at in range(count):
        if known[at, _END] <= horizon or counter - known[at, _BASE] - known[at, _AFTER] > gap:
            known[at, _END] = LEAST
        if (time > LEAST and known[at, _FIRST] < time) or (low > LEAST and known[at, _KEY] < low):
            known[at, _END] = LEAST


class Ending(NamedTuple):
    """End of the parents with a key.

    No more of them arrive if more than `gap` of `counter` elements since a base had other keys, if the first of them
    started before `time`, or if the key is below `low`.
    """

    counter: int
    gap: int
    time: int
    low: int


_ENDLESS = Ending(0, NEVER, LEAST, LEAST)
"""No limit is known."""


def count_parents(
    graph: Graph,
    tables: Sequence[Table],
    clusters: Mapping[int, Clusters],
    batch: Mapping[int, int],
    met: Sequence[int] | None,
) -> None:
    """Count the parents of this batch, at their children if these exist.

    `batch` is the number of new elements of each stream. `met` are the numbers to count by, or None to use their own.
    """
    for edge, each in clusters.items():
        stream, child = graph.edges[edge]
        parent, number = tables[stream], None if met is None else met[stream]
        each.add(parent, parent.fresh + batch.get(stream, 0), tables[child], edge, number)


def forget_clusters(
    graph: Graph, clusters: Mapping[int, Clusters], endings: Mapping[int, Ending], horizons: Sequence[int]
) -> None:
    """Remove keys that no longer arrive, and keys whose parents have expired."""
    for edge, each in clusters.items():
        each.forget(endings.get(edge, _ENDLESS), horizons[graph.edges[edge].parent])


def note_waiting(graph: Graph, tables: Sequence[Table], watched: frozenset[int], counters: Sequence[int]) -> None:
    """Record at new children that parents have been waiting for them: their key has occurred before.

    If parents are found by their keys, this happens when the parents are asked.
    """
    for edge in watched:
        parent, child = tables[graph.edges[edge].parent], tables[graph.edges[edge].child]
        if child.fresh < child.count and len(parent.waiting):
            known = (child.columns[f"base{edge}"], child.columns[f"first{edge}"], counters[graph.edges[edge].parent])
            _note_waiting_parents(parent.waiting, parent[f"child{edge}"], parent["start"], child.fresh, *known)


@compiled
def _note_waiting_parents(
    waiting: Any, children: Any, start: Any, fresh: Any, base: Any, first: Any, counter: Any
) -> None:
    for row in waiting:
        child = children[row]
        if child >= fresh:
            base[child], first[child] = min(base[child], counter), min(first[child], start[row])

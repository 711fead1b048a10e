"""Clusters: when parents with a key occurred, and when no more arrive. Keys may be known before their child."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints, Positions
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
        base = child.layout.above[edge].base
        counts = child.elements.ints[base : base + 3]
        if child.fresh < child.count and self.count:
            _move_to_children(self.known, self.slots, child.keys[edge], counts, child.fresh, child.count)
        if parent.fresh < stop:
            self._make_room(stop - parent.fresh)
            clusters, new = (self.known, self.slots, self.count), (parent.layout.key[edge], parent.fresh, stop)
            number = -1 if same is None else same
            self.count = _count_parents(clusters, parent.elements.ints, parent.children[edge], *new, number, counts)

    def _make_room(self, more: int) -> None:
        if self.count + more > len(self.known):
            self.known, self.slots, self.count = _repack(self.known, self.count, more)

    def forget(self, ending: Ending, horizon: int) -> None:
        """Remove keys that no longer arrive, and keys whose parents have expired."""
        if self.count:
            _remove_ended(self.known, self.count, *ending, horizon)


@compiled
def _move_to_children(known: Ints, slots: Ints, key: Ints, counts: Ints, fresh: int, stop: int) -> None:
    """Move clusters to the new children of [fresh, stop) that have their keys.

    `key` and `counts` are columns of the children: the keys, and when parents occurred.
    """
    base, after, first = counts[0], counts[1], counts[2]
    for row in range(fresh, stop):
        cluster = slots[slot_of(slots, key[row]), 1]
        if cluster >= 0 and known[cluster, _END] > LEAST:
            after[row] += known[cluster, _AFTER] + (base[row] < NEVER)
            base[row] = min(base[row], known[cluster, _BASE])
            first[row] = min(first[row], known[cluster, _FIRST])
            known[cluster, _END] = LEAST


@compiled
def _count_parents(
    clusters: tuple[Ints, Ints, int],
    ints: Ints,
    child_of: Positions,
    key_column: int,
    fresh: int,
    stop: int,
    same: int,
    counts: Ints,
) -> int:
    """Count the parents of [fresh, stop) at their children, or in the clusters of their keys.

    `ints` and `child_of` are columns of the parents, and `counts` columns of the children. Parents have the number
    `same`, or their own numbers if it is negative. Return the number of clusters.
    """
    known, slots, count = clusters
    key, number, start, end = ints[key_column], ints[NUMBER], ints[START], ints[END]
    base, after, first = counts[0], counts[1], counts[2]
    for row in range(fresh, stop):
        child, now = child_of[row], number[row] if same < 0 else same
        if child >= 0:
            after[child] += base[child] < NEVER
            base[child], first[child] = min(base[child], now), min(first[child], start[row])
            continue
        slot = slot_of(slots, key[row])
        cluster = slots[slot, 1]
        if cluster >= 0 and known[cluster, _END] > LEAST:
            known[cluster, _BASE], known[cluster, _AFTER] = min(known[cluster, _BASE], now), known[cluster, _AFTER] + 1
            known[cluster, _FIRST] = min(known[cluster, _FIRST], start[row])
            known[cluster, _END] = max(known[cluster, _END], end[row])
            continue
        slots[slot, 0], slots[slot, 1] = key[row], count
        known[count, _KEY], known[count, _BASE], known[count, _AFTER] = key[row], now, 0
        known[count, _FIRST], known[count, _END] = start[row], end[row]
        count += 1
    return count


@compiled
def _repack(known: Ints, count: int, more: int) -> tuple[Ints, Ints, int]:
    """Return clusters without the removed ones, with room for more, their slots, and their number."""
    size, left = 64, 0
    for cluster in range(count):
        left += known[cluster, _END] > LEAST
    while size < 4 * (left + more):
        size *= 2
    packed, slots = np.empty((size // 2, 5), np.int64), _empty_slots(size)
    left = 0
    for cluster in range(count):
        if known[cluster, _END] > LEAST:
            packed[left] = known[cluster]
            slot = slot_of(slots, known[cluster, _KEY])
            slots[slot, 0], slots[slot, 1] = known[cluster, _KEY], left
            left += 1
    return packed, slots, left


@compiled
def _empty_slots(size: int) -> Ints:
    """Return empty slots."""
    slots = np.empty((size, 2), np.int64)
    slots[:, 1] = -1
    return slots


@compiled
def _remove_ended(known: Ints, count: int, counter: int, gap: int, time: int, low: int, horizon: int) -> None:
    """Remove clusters that have ended, see `Ending`. Columns without a limit are not read."""
    for cluster in range(count):
        others = counter - known[cluster, _BASE] - known[cluster, _AFTER]
        if known[cluster, _END] <= horizon or others > gap:
            known[cluster, _END] = LEAST
        if (time > LEAST and known[cluster, _FIRST] < time) or (low > LEAST and known[cluster, _KEY] < low):
            known[cluster, _END] = LEAST


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
    waiting: Positions, children: Positions, start: Ints, fresh: int, base: Ints, first: Ints, counter: int
) -> None:
    for row in waiting:
        child = children[row]
        if child >= fresh:
            base[child], first[child] = min(base[child], counter), min(first[child], start[row])

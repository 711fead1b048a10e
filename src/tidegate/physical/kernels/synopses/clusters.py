"""When parents with a key have occurred and do not come any more; for keys whose child has not come, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tidegate.physical.kernels.compiled import compiled, inlined
from tidegate.physical.kernels.synopses.bounds import LEAST
from tidegate.physical.kernels.synopses.graph import Graph
from tidegate.physical.kernels.synopses.index import home, slot_of
from tidegate.physical.kernels.synopses.layout import END, NUMBER, START
from tidegate.physical.kernels.synopses.model import NEVER, UNKNOWN, Ints
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

    def counted(self, parent: Table, stop: int, child: Table, edge: int, same: int | None) -> Clusters:
        """Tell new children of parents that came before them, and count new parents, up to a row.

        Parents whose child is there are counted at the child. They have their own numbers, or all of them the same.
        """
        if parent.fresh == stop and (child.fresh == child.count or not len(self.key)):
            return self
        here = (parent.ints, parent.at(f"key{edge}"), parent.columns[f"child{edge}"], parent.fresh, stop)
        there = (child.ints, child.at(f"key{edge}"), child.at(f"base{edge}"), child.fresh, child.count)
        changed, columns = _counted(self, *here, -1 if same is None else same, *there)
        return Clusters(*columns) if changed else self


@compiled
def _counted(
    clusters: Any, ints: Any, key_at: Any, children: Any, begin: Any, stop: Any, same: Any,
    child_ints: Any, child_key_at: Any, base_at: Any, fresh: Any, child_count: Any,
) -> Any:  # fmt: skip
    """The columns of clusters, and whether they are others than before."""
    key, number, start, end = ints[key_at], ints[NUMBER], ints[START], ints[END]
    base, after, first = child_ints[base_at], child_ints[base_at + 1], child_ints[base_at + 2]
    child_key = child_ints[child_key_at]
    count = len(clusters.key)
    columns = np.empty((5, count + stop - begin), np.int64)
    columns[0, :count], columns[1, :count], columns[2, :count] = clusters.key, clusters.base, clusters.after
    columns[3, :count], columns[4, :count] = clusters.first, clusters.end
    slots, told = _indexed(clusters.key, stop - begin), np.zeros(count + stop - begin, np.bool_)
    for row in range(fresh, child_count if count else fresh):
        at = slots[slot_of(slots, child_key[row]), 1]
        if at >= 0 and not told[at]:
            after[row] += columns[2, at] + (base[row] < NEVER)
            base[row], first[row] = min(base[row], columns[1, at]), min(first[row], columns[3, at])
            told[at] = True
    changed = bool(told.any())
    for row in range(begin, stop):
        child, now = children[row], number[row] if same < 0 else same
        if child >= 0:
            after[child] += base[child] < NEVER
            base[child], first[child] = min(base[child], now), min(first[child], start[row])
            continue
        changed = True
        slot = slot_of(slots, key[row])
        at = slots[slot, 1]
        if at >= 0 and not told[at]:
            columns[1, at], columns[2, at] = min(columns[1, at], now), columns[2, at] + 1
            columns[3, at], columns[4, at] = min(columns[3, at], start[row]), max(columns[4, at], end[row])
            continue
        slots[slot, 0], slots[slot, 1] = key[row], count
        columns[0, count], columns[1, count], columns[2, count] = key[row], now, 0
        columns[3, count], columns[4, count] = start[row], end[row]
        count += 1
    return changed, columns[:, :count][:, ~told[:count]]


@compiled
def _indexed(key: Any, more: Any) -> Any:
    """Slots in which each key has its place, with room for more."""
    size = 16
    while size < 2 * (len(key) + more):
        size *= 2
    slots = np.empty((size, 2), np.int64)
    slots[:, 1] = -1
    for at in range(len(key)):
        slot = slot_of(slots, key[at])
        slots[slot, 0], slots[slot, 1] = key[at], at
    return slots


class Ending(NamedTuple):
    """When parents with a key do not come any more.

    … if since a base more than `gap` of `counter` elements had other keys, if the first of them started
    before `time`, or if the key is below `low`.
    """

    counter: int
    gap: int
    time: int
    low: int


_ENDLESS = Ending(0, NEVER, LEAST, LEAST)
"""Nothing is known."""


def count_parents(
    graph: Graph,
    tables: Sequence[Table],
    clusters: Mapping[int, Clusters],
    batch: Mapping[int, int],
    met: Sequence[int] | None,
) -> dict[int, Clusters]:
    """Count the parents of this batch, at their children if these are there.

    `batch` says for each stream how many they are, and `met` how they are counted, if not by their own numbers.
    """
    counted = {}
    for edge, before in clusters.items():
        parent, child = tables[graph.edges[edge].parent], tables[graph.edges[edge].child]
        new = batch.get(graph.edges[edge].parent, 0)
        number = None if met is None else met[graph.edges[edge].parent]
        counted[edge] = before.counted(parent, parent.fresh + new, child, edge, number)
    return counted


def forget_clusters(
    graph: Graph, clusters: Mapping[int, Clusters], endings: Mapping[int, Ending], horizons: Sequence[int]
) -> dict[int, Clusters]:
    """Leave out keys that do not come any more, and those of parents that are expired."""
    left = {}
    for edge, each in clusters.items():
        if len(each.key):
            keep = _coming(each, endings.get(edge, _ENDLESS), horizons[graph.edges[edge].parent])
            left[edge] = each if keep.all() else Clusters(*(column[keep] for column in each))
        else:
            left[edge] = each
    return left


@compiled
def _coming(clusters: Any, ending: Any, horizon: Any) -> Any:
    coming = clusters.end > horizon
    counter, gap, time, low = ending
    for at in range(len(coming)):
        known = (clusters.key[at], clusters.base[at], clusters.after[at], clusters.first[at])
        coming[at] &= not _is_over(known[0], known[1], known[2], known[3], counter, gap, time, low)
    return coming


def note_waiting(graph: Graph, tables: Sequence[Table], watched: frozenset[int], counters: Sequence[int]) -> None:
    """Tell new children that parents have been waiting for them: their key has occurred before now."""
    for edge in watched:
        parent, child = tables[graph.edges[edge].parent], tables[graph.edges[edge].child]
        counter = counters[graph.edges[edge].parent]
        if child.fresh == child.count:
            continue
        known = (child.columns[f"base{edge}"], child.columns[f"first{edge}"], counter)
        if parent.layout.chained:
            place = graph.below[graph.edges[edge].parent].index(edge)
            here = (parent.ints, parent.at(f"key{edge}"), parent.pointers, parent.heads, place, parent.component)
            _note_chained(*here, child.key(edge), child.fresh, child.count, *known)
        elif len(parent.waiting):
            _note(parent.waiting, parent[f"child{edge}"], parent["start"], child.fresh, *known)


@compiled
def _note(waiting: Any, children: Any, start: Any, fresh: Any, base: Any, first: Any, counter: Any) -> None:
    for row in waiting:
        child = children[row]
        if child >= fresh:
            base[child], first[child] = min(base[child], counter), min(first[child], start[row])


@compiled
def _note_chained(
    ints: Any, key: Any, pointers: Any, heads: Any, place: Any, component: Any,
    wanted: Any, fresh: Any, after: Any, base: Any, first: Any, counter: Any,
) -> None:  # fmt: skip
    head, edges = heads[place], len(heads)
    for child in range(fresh, after):
        row = head[home(wanted[child], len(head))]
        while row >= 0:
            if component[row] == UNKNOWN and ints[key, row] == wanted[child] and pointers[row, place] < 0:
                base[child], first[child] = min(base[child], counter), min(first[child], ints[START, row])
            row = pointers[row, edges + place]


@inlined
def _is_over(key: Any, base: Any, after: Any, first: Any, counter: Any, gap: Any, time: Any, low: Any) -> Any:
    """Whether parents with a key do not come any more."""
    apart = base < NEVER and counter - base - after > gap
    return apart or first < time or key < low

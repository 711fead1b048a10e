"""What need not be kept: expired elements, those that no later parent can join, and all that need those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tidegate.physical.kernels.compiled import compiled
from tidegate.physical.kernels.synopses.clusters import Clusters
from tidegate.physical.kernels.synopses.graph import Graph
from tidegate.physical.kernels.synopses.model import COLD, COLD_YES, GONE, NEVER, NO, REPEATED, UNKNOWN, YES, Mask
from tidegate.physical.kernels.synopses.table import Table


class Ending(NamedTuple):
    """When parents with a key do not come any more.

    … if since a base more than `gap` of `counter` elements had other keys, if the first of them started
    before `time`, or if the key is below `low`.
    """

    counter: int
    gap: int
    time: int
    low: int


def count_parents(
    graph: Graph, tables: Sequence[Table], clusters: Mapping[int, Clusters], batch: Mapping[int, int]
) -> dict[int, Clusters]:
    """Count the parents of this batch, at their children if these are there; `batch` has their number by stream."""
    counted = {}
    for edge, before in clusters.items():
        parent, child = tables[graph.edges[edge].parent], tables[graph.edges[edge].child]
        fresh = slice(parent.fresh, parent.fresh + batch.get(graph.edges[edge].parent, 0))
        children, number, start = parent[f"child{edge}"][fresh], parent["number"][fresh], parent["start"][fresh]
        left = before.hand_over(child, edge)
        _count(children, number, start, child[f"base{edge}"], child[f"after{edge}"], child[f"first{edge}"])
        alone = children < 0
        columns = (parent[f"key{edge}"][fresh], number, start, parent["end"][fresh])
        counted[edge] = left.add(*(column[alone] for column in columns))
        child.changed |= fresh.stop > fresh.start
    return counted


def forget_clusters(
    graph: Graph, clusters: Mapping[int, Clusters], endings: Mapping[int, Ending], horizons: Sequence[int]
) -> dict[int, Clusters]:
    """Leave out keys that do not come any more, and those of parents that are expired."""
    left = {}
    for edge, each in clusters.items():
        keep = each.end > horizons[graph.edges[edge].parent]
        if edge in endings:
            keep &= ~_over(each.key, each.base, each.after, each.first, endings[edge])
        left[edge] = each.retain(keep)
    return left


@compiled
def _count(children: Any, number: Any, start: Any, base: Any, after: Any, first: Any) -> None:
    for i in range(len(children)):
        child = children[i]
        if child < 0:
            continue
        if base[child] < NEVER:
            after[child] += 1
        base[child] = min(base[child], number[i])
        first[child] = min(first[child], start[i])


def note_waiting(graph: Graph, tables: Sequence[Table], watched: frozenset[int], counters: Sequence[int]) -> None:
    """Tell new children that parents have been waiting for them: their key has occurred before now."""
    for edge in watched:
        parent, child = tables[graph.edges[edge].parent], tables[graph.edges[edge].child]
        at = parent.waiting
        found = parent[f"child{edge}"][at]
        at, found = at[found >= child.fresh], found[found >= child.fresh]
        base = child[f"base{edge}"]
        base[found] = np.minimum(base[found], counters[graph.edges[edge].parent])
        np.minimum.at(child[f"first{edge}"], found, parent["start"][at])


def expendable(graph: Graph, tables: Sequence[Table], stream: int, endings: Mapping[int, Ending]) -> Mask | None:
    """Which elements of a stream no later combination can have, as far as that follows from constraints."""
    members = [[e for e in graph.above[stream] if graph.edges[e].parent in group] for group in graph.sources]
    chosen = [next((edge for edge in edges if edge in endings), None) for edges in members]
    table, component = tables[stream], tables[stream]["component"]
    ended = {edge: _ended(table, edge, endings[edge]) for edge in graph.above[stream] if edge in endings}
    done = np.zeros(table.count, np.bool_)
    if all(edge is not None for edge in chosen):
        done = component <= YES
        for edge in chosen:
            assert edge is not None
            parent = tables[graph.edges[edge].parent]
            children = parent[f"child{edge}"][parent.waiting]
            done &= ended[edge]
            done[children[children >= 0]] = False
    if len(ended) == len(graph.above[stream]):
        never = component == NO
        for each in ended.values():
            never &= each
        done |= never
    return done if done.any() else None


def _ended(table: Table, edge: int, ending: Ending) -> Mask:
    if f"base{edge}" in table.columns:
        known = (table[f"base{edge}"], table[f"after{edge}"], table[f"first{edge}"])
        return _over(table[f"key{edge}"], *known, ending)
    below: Mask = table[f"key{edge}"] < ending.low
    return below


@compiled
def _over(key: Any, base: Any, after: Any, first: Any, ending: Any) -> Any:
    over = np.empty(len(key), np.bool_)
    for row in range(len(key)):
        apart = base[row] < NEVER and ending.counter - base[row] - after[row] > ending.gap
        over[row] = apart or first[row] < ending.time or key[row] < ending.low
    return over


def sweep(
    graph: Graph,
    tables: Sequence[Table],
    horizons: Sequence[int],
    keeps_no: frozenset[int],
    settled: Sequence[bool],
) -> None:
    """Let all be gone that is expired or not to be kept, and let what needs others go as they do.

    Of streams that are settled, nothing goes but by its own validity.
    """
    for stream, table in enumerate(tables):
        flags = (stream not in graph.singles, stream in keeps_no and bool(graph.above[stream]))
        table.changed |= bool(_expire(table["component"], table["high"], horizons[stream], *flags))
    again = True
    while again:
        again = False
        for stream in graph.children_first:
            for edge in graph.below[stream]:
                child = graph.edges[edge].child
                if settled[child] and _goes_before(graph, horizons, stream, child):
                    continue
                found = (tables[stream][f"child{edge}"], tables[child]["component"])
                lost = bool(_follow(tables[stream]["component"], *found))
                tables[stream].changed |= lost
                again |= lost and graph.shape == "cyclic"
    for table in tables:
        table.waiting = _still(table.waiting, table["component"])


def _goes_before(graph: Graph, horizons: Sequence[int], parent: int, child: int) -> bool:
    """Whether parents are gone when a child expires: they are not valid for longer than it is."""
    return graph.shape == "tree" and not graph.below[child] and horizons[parent] >= horizons[child]


@compiled
def _still(waiting: Any, component: Any) -> Any:
    still = np.empty(len(waiting), np.int32)
    count = 0
    for row in waiting:
        still[count] = row
        count += component[row] == UNKNOWN
    return still[:count].copy()


@compiled
def _expire(component: Any, high: Any, horizon: Any, keeps_yes: Any, keeps_no: Any) -> Any:
    lost = False
    for row in range(len(component)):
        state = component[row]
        if state == GONE:
            continue
        unkept = (state == YES and not keeps_yes) or (state == NO and not keeps_no) or state == REPEATED
        if unkept or high[row] <= horizon:
            component[row] = GONE
            lost = True
    return lost


@compiled
def _follow(component: Any, children: Any, below: Any) -> Any:
    """An element whose child is gone goes, too; one whose child is cold gets cold."""
    lost = False
    for row in range(len(component)):
        if component[row] == NO or component[row] == GONE:
            continue
        child = children[row]
        state = GONE if child < 0 and component[row] == YES else UNKNOWN
        if child >= 0 and below[child] >= GONE:
            state = GONE
            if below[child] in (COLD, COLD_YES):
                state = COLD_YES if component[row] in (YES, COLD_YES) else COLD
        if state >= GONE and state != component[row]:
            component[row] = state
            lost = True
    return lost

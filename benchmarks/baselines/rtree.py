"""Range thresholds by an R-tree over the ranges: find the queries that an element is in, and count it for each.

The tree is packed by sorting and tiling (Leutenegger, Lopez and Edgington, 1997): every node but the last ones has as
many children as it can have. A query that leaves is counted out of all nodes above it, and nodes without queries are
skipped. A comparison: an element costs as much as it has queries, and as nodes overlap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from benchmarks.baselines.tracking_level import Complete
from benchmarks.baselines.tracking_levels import LevelTracker
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.subscriptions.kernels.boxes import boxes_of, places
from tidegate.physical.subscriptions.kernels.model import Subscriptions, WeightedElements

FAN = 16
"""Children of a node."""

DEEPEST = 16
"""Levels of a tree of any size that fits into memory."""


class Nodes(NamedTuple):
    """Nodes level by level, from the queries, which are leaves, to the root; with half-open bounds for each dimension.

    The children of the node at k in its level are from 16 k on in the level before it. `begin` has where each level
    begins, and the end.
    """

    low: Ints
    high: Ints
    begin: Ints
    query: Ints
    """The query of each leaf."""


class _Queries(NamedTuple):
    """What completes queries, what they lack, the leaf of each, and the number of live queries below each node."""

    threshold: Ints
    left: Ints
    leaf: Ints
    live: Ints
    repeats: bool


@dataclass(slots=True, eq=False)
class RTree:
    """A packed R-tree that queries can only leave."""

    nodes: Nodes
    queries: _Queries

    @classmethod
    def over(cls, ranges: Subscriptions, needed: Ints, *, repeats: bool) -> Self:
        boxes = boxes_of(ranges)
        order = _tiled(boxes.low / 2 + boxes.high / 2)
        nodes = _packed(boxes.low[:, order], boxes.high[:, order], order)
        leaf, live = np.empty(len(order), np.int64), [(needed[order] > 0).astype(np.int64)]
        leaf[order] = np.arange(len(order))
        while len(live[-1]) > 1:
            live.append(np.add.reduceat(live[-1], np.arange(0, len(live[-1]), FAN)))
        return cls(nodes, _Queries(np.array(ranges.threshold), needed.copy(), leaf, np.concatenate(live), repeats))

    def copy(self) -> Self:
        queries = self.queries._replace(left=self.queries.left.copy(), live=self.queries.live.copy())
        return replace(self, queries=queries)

    def remove(self, rows: Ints) -> None:
        _count_all_out(self.nodes.begin, self.queries.live, self.queries.leaf[rows])
        self.queries.left[rows] = 0

    def absorb(self, elements: WeightedElements, live: int, enough: int) -> tuple[int, Complete]:
        complete = np.empty((3, live + enough), np.int64)
        points = np.ascontiguousarray(places(elements.value)), elements.weight
        counted, found = _absorb(*points, self.nodes, self.queries, enough, complete)
        return counted, Complete(*complete[:, :found])

    def lacking(self) -> Ints:
        return self.queries.left.copy()


class RTreeTracker(LevelTracker):
    """Live queries in levels of R-trees."""

    index = RTree


def _tiled(centre: np.ndarray) -> Ints:
    """The order in which 16 neighbours are close: slices along one dimension, cut into slices along the next."""
    dimensions, rows = centre.shape
    slices = math.ceil((rows / FAN) ** (1 / dimensions)) if rows else 1
    order = np.argsort(centre[0], kind="stable")
    for axis in range(1, dimensions):
        width = max(1, math.ceil(rows / slices**axis))
        order = order[np.lexsort((centre[axis][order], np.arange(rows) // width))]
    return order.astype(np.int64)


def _packed(low: Ints, high: Ints, query: Ints) -> Nodes:
    lows, highs = [low], [high]
    while lows[-1].shape[1] > 1:
        starts = np.arange(0, lows[-1].shape[1], FAN)
        lows.append(np.minimum.reduceat(lows[-1], starts, axis=1))
        highs.append(np.maximum.reduceat(highs[-1], starts, axis=1))
    begin = np.cumsum([0, *(each.shape[1] for each in lows)])
    least, most = (np.ascontiguousarray(np.concatenate(each, axis=1).T) for each in (lows, highs))
    return Nodes(least, most, begin.astype(np.int64), query)


@inlined
def _count_out(begin: Ints, live: Ints, leaf: int) -> None:
    """Count a query out of its leaf and all nodes above it."""
    at = leaf
    for level in range(len(begin) - 1):
        live[begin[level] + at] -= 1
        at //= FAN


@compiled
def _count_all_out(begin: Ints, live: Ints, leaves: Ints) -> None:
    for leaf in leaves:
        _count_out(begin, live, leaf)


@inlined
def _is_inside(nodes: Nodes, node: int, value: Ints) -> bool:
    inside = True
    for axis in range(len(value)):
        inside &= (nodes.low[node, axis] <= value[axis]) & (value[axis] < nodes.high[node, axis])
    return inside


@compiled
def _absorb(value: Ints, weight: Ints, nodes: Nodes, queries: _Queries, enough: int, complete: Ints) -> tuple[int, int]:
    """Count elements until `enough` queries are complete; how many elements were counted, and queries completed."""
    begin, left, live, found = nodes.begin, queries.left, queries.live, 0
    top = len(begin) - 2
    level_of, place_of = np.empty(DEEPEST * FAN, np.int64), np.empty(DEEPEST * FAN, np.int64)
    for i in range(len(value)):
        level_of[0], place_of[0], depth = top, 0, 1
        while depth:
            depth -= 1
            level, place = level_of[depth], place_of[depth]
            node = begin[level] + place
            if live[node] == 0 or not _is_inside(nodes, node, value[i]):
                continue
            if level:
                for child in range(FAN * place, min(FAN * place + FAN, begin[level] - begin[level - 1])):
                    level_of[depth], place_of[depth] = level - 1, child
                    depth += 1
                continue
            query = nodes.query[place]
            left[query] -= weight[i]
            if left[query] <= 0:
                complete[0, found], complete[1, found] = query, i
                complete[2, found] = queries.threshold[query] - left[query]
                found += 1
                if queries.repeats:
                    left[query] = queries.threshold[query]
                else:
                    _count_out(begin, live, place)
        if found >= enough:
            return i + 1, found
    return len(value), found

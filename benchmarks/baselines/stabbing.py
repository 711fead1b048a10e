"""Range thresholds by stabbing: find the queries that an element is in, and count it for each of them.

In one dimension the queries are in an interval tree; in more, in segment trees of all dimensions but the
last, with interval trees below their nodes. A comparison: an element costs as much as it has queries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from benchmarks.baselines.tracking_cuts import Cells, Cuts, find_cells, in_cells
from benchmarks.baselines.tracking_level import Complete
from benchmarks.baselines.tracking_levels import LevelTracker
from benchmarks.baselines.tracking_signals import LEVELS
from benchmarks.baselines.tracking_trees import Grove, Trees, leaf_of, push_trees_below, range_trees
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.subscriptions.kernels.boxes import places
from tidegate.physical.subscriptions.kernels.model import Subscriptions, WeightedElements


class Intervals(NamedTuple):
    """Intervals at the node that is the first to separate them from others: its leaf is within them.

    Those of node v are in the rows from `at[v]` to `at[v + 1]`, once in order of their first leaf, once by the
    leaf after their last, greatest first.
    """

    at: Ints
    low: Cells
    by_low: Cells
    high: Cells
    by_high: Cells


class _Queries(NamedTuple):
    """What completes queries, and what they lack; those that have left lack nothing."""

    threshold: Ints
    left: Ints
    repeats: bool


@dataclass(slots=True, eq=False)
class IntervalTrees:
    """Interval trees of the last dimension below segment trees of the others."""

    cuts: Cuts
    trees: Trees
    intervals: Intervals
    threshold: Ints
    left: Ints
    repeats: bool

    @classmethod
    def over(cls, ranges: Subscriptions, needed: Ints, *, repeats: bool) -> Self:
        boxes = in_cells(ranges)
        trees, grove = range_trees(boxes, boxes.not_empty())
        return cls(boxes.cuts, trees, _intervals(grove), ranges.threshold, needed.copy(), repeats)

    def copy(self) -> Self:
        return replace(self, left=self.left.copy())

    def remove(self, rows: Ints) -> None:
        self.left[rows] = 0

    def absorb(self, elements: WeightedElements, live: int, enough: int) -> tuple[int, Complete]:
        complete = np.empty((3, live + enough), np.int64)
        points, state = (self.cuts, places(elements.value), elements.weight), (self.trees, self.intervals)
        queries = _Queries(self.threshold, self.left, self.repeats)
        counted, found = _absorb(*points, *state, queries, enough, complete)
        return counted, Complete(*complete[:, :found])

    def lacking(self) -> Ints:
        return self.left.copy()


class StabbingTracker(LevelTracker):
    """Live queries in levels of interval trees."""

    index = IntervalTrees


def _intervals(grove: Grove) -> Intervals:
    leaves, tree = grove.leaves, grove.members.tree
    node = _centres(grove.low_leaf, grove.high_leaf, leaves[tree]) + (np.cumsum(2 * leaves) - 2 * leaves)[tree]
    counts = np.bincount(node, minlength=2 * int(leaves.sum()))
    by_low, by_high = np.lexsort((grove.low_leaf, node)), np.lexsort((-grove.high_leaf, node))
    query = grove.members.query.astype(np.int32)
    return Intervals(
        np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))),
        grove.low_leaf[by_low].astype(np.int32),
        query[by_low],
        grove.high_leaf[by_high].astype(np.int32),
        query[by_high],
    )


@compiled
def _centres(low: Ints, high: Ints, leaves: Ints) -> Ints:
    """The first leaf within each interval that halving the leaves again and again comes upon."""
    centres = np.empty(len(low), np.int64)
    for i in range(len(low)):
        begin, end = 0, leaves[i]
        while True:
            middle = (begin + end) >> 1
            if high[i] <= middle:
                end = middle
            elif low[i] > middle:
                begin = middle + 1
            else:
                break
        centres[i] = middle
    return centres


@compiled
def _absorb(
    cuts: Cuts,
    value: Ints,
    weight: Ints,
    trees: Trees,
    intervals: Intervals,
    queries: _Queries,
    enough: int,
    complete: Ints,
) -> tuple[int, int]:
    """Count elements until `enough` queries are complete; how many elements were counted, and queries completed."""
    dimensions, found = value.shape[1], 0
    cells = np.empty(dimensions, np.int64)
    waiting = np.empty(dimensions * LEVELS, np.int64)
    left, query = queries.left, complete[0]  # the inner loop is much faster with plain arrays
    for i in range(len(value)):
        find_cells(cuts, value[i], cells)
        before, waiting[0], depth = found, 0, 1
        while depth:
            depth -= 1
            tree = waiting[depth]
            dimension = trees.dimension[tree]
            leaf = leaf_of(trees, tree, cells[dimension])
            if leaf < 0:
                continue
            leaves = trees.starts_at[tree + 1] - trees.starts_at[tree] - 1
            first = trees.nodes_at[tree]
            if dimension + 1 == dimensions:
                found = _stab(intervals, first, leaves, leaf, weight[i], left, query, found)
            else:
                depth = push_trees_below(trees, first, leaf + leaves, waiting, depth)
        complete[1, before:found] = i
        for at in range(before, found):
            q = query[at]
            complete[2, at] = queries.threshold[q] - left[q]
            if queries.repeats:
                left[q] = queries.threshold[q]
        if found >= enough:
            return i + 1, found
    return len(value), found


@inlined
def _stab(
    intervals: Intervals,
    first: int,
    leaves: int,
    leaf: int,
    weight: int,
    left: Ints,
    query: Ints,
    found: int,
) -> int:
    """Count for all intervals of a tree that a leaf is in; the number of complete queries."""
    begin, end = 0, leaves
    while begin < end:
        middle = (begin + end) >> 1
        at, last = intervals.at[first + middle], intervals.at[first + middle + 1]
        if leaf <= middle:
            while at < last and intervals.low[at] <= leaf:
                found = _count(left, intervals.by_low[at], weight, query, found)
                at += 1
            begin, end = (begin, middle) if leaf < middle else (0, 0)
        else:
            while at < last and intervals.high[at] > leaf:
                found = _count(left, intervals.by_high[at], weight, query, found)
                at += 1
            begin = middle + 1
    return found


@inlined
def _count(left: Ints, q: int, weight: int, query: Ints, found: int) -> int:
    """Count for a query unless it has left; an element meets it once."""
    if left[q] <= 0:
        return found
    left[q] -= weight
    if left[q] > 0:
        return found
    query[found] = q
    return found + 1

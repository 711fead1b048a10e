"""Range thresholds by distributed tracking (Qiao, Gan, Tao: Range Thresholding on Streams, SIGMOD 2016).

An element is counted once at each node of a tree that covers it, for all queries together, and a query hears
of it only when a node has something to signal. That makes an element cost a logarithm of the number of
queries, even if it comes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from benchmarks.baselines import tracking_heaps, tracking_signals
from benchmarks.baselines.tracking_cuts import Cuts, in_cells
from benchmarks.baselines.tracking_heaps import Heaps, heaps_of
from benchmarks.baselines.tracking_level import Complete
from benchmarks.baselines.tracking_levels import LevelTracker
from benchmarks.baselines.tracking_signals import Rounds, slack_of
from benchmarks.baselines.tracking_trees import Trees, canonical, range_trees
from tidegate.physical.common.arrays import Ints
from tidegate.physical.subscriptions.kernels.boxes import places
from tidegate.physical.subscriptions.kernels.model import Subscriptions, WeightedElements


@dataclass(slots=True, eq=False)
class EndpointTrees:
    """Trees over the ends of queries, with a heap at each node and the rounds of the queries."""

    cuts: Cuts
    trees: Trees
    heaps: Heaps
    rounds: Rounds

    @classmethod
    def over(cls, ranges: Subscriptions, needed: Ints, *, repeats: bool) -> Self:
        boxes = in_cells(ranges)
        trees, grove = range_trees(boxes, boxes.not_empty())
        entries = canonical(grove, np.argsort(grove.members.query, kind="stable"))
        nodes = np.bincount(entries.query, minlength=len(ranges))
        slack = slack_of(needed, nodes)
        count = 2 * int(grove.leaves.sum())
        heaps = heaps_of(entries.node.astype(np.int32), np.maximum(slack, 1)[entries.query], count)
        entries_at = np.concatenate((np.zeros(1, np.int64), np.cumsum(nodes)))
        signals = np.zeros(len(ranges), np.int32)
        owner, weights = entries.query.astype(np.int32), (ranges.threshold, needed.copy(), needed.copy())
        return cls(boxes.cuts, trees, heaps, Rounds(entries_at, owner, *weights, slack, signals, repeats))

    def copy(self) -> Self:
        heaps, rounds = tracking_heaps.copied(self.heaps), tracking_signals.copied(self.rounds)
        return type(self)(self.cuts, self.trees, heaps, rounds)

    def remove(self, rows: Ints) -> None:
        tracking_signals.all_leave(self.heaps, self.rounds, rows)

    def absorb(self, elements: WeightedElements, live: int, enough: int) -> tuple[int, Complete]:
        complete = np.empty((3, live + enough), np.int64)
        points, state = (self.cuts, places(elements.value), elements.weight), (self.trees, self.heaps, self.rounds)
        counted, found = tracking_signals.absorb(*points, *state, enough, complete)
        return counted, Complete(*complete[:, :found])

    def lacking(self) -> Ints:
        return tracking_signals.all_lacking(self.heaps, self.rounds)


class DistributedTracker(LevelTracker):
    """Live queries in levels of endpoint trees."""

    index = EndpointTrees

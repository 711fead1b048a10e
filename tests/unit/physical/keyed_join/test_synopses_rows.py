"""Many parents of one child, and rows that leave at once: lists that get longer, and blocks that are looked at."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tidegate.physical.keyed_join.kernels.graph import Edge, Graph
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import (
    GONE,
    REPEATED,
    UNKNOWN,
    YES,
    Bound,
    Constraints,
    Moment,
    StreamArrivals,
)

SHARED = Graph(("S1", "S2", "S3"), (Edge(0, 2), Edge(1, 2)))
ONE_EDGE = Graph(("S1", "S2"), (Edge(0, 1),))
CLUSTERED = Constraints(clustered={0: Bound(0), 1: Bound(0)})
MANY = 700


class Feed:
    """A join to which elements come by their keys, in batches."""

    def __init__(self, graph, constraints=None, *, exact=False):
        self.constraints = constraints or Constraints()
        self.join = SynopsisJoin.empty(graph, exact=exact, watched=frozenset(self.constraints.clustered))
        self.counts, self.now = [0] * len(graph), 0

    def step(self, length=1000, passes=None, **keys):
        """Let elements of s1, s2 … arrive; their rows are their numbers."""
        batch = {}
        for name, some in keys.items():
            stream = int(name[1:]) - 1
            edges = self.join.graph.below[stream] + self.join.graph.above[stream]
            number = self.counts[stream] + np.arange(1, len(some) + 1)
            start = np.full(len(some), self.now)
            flags = None if passes is None else np.array(passes)
            batch[stream] = StreamArrivals(
                {e: np.array(some) for e in edges}, start, start + length, number, number, flags
            )
            self.counts[stream] += len(some)
        self.now += 1
        moment = Moment([self.now] * len(self.counts), list(self.counts))
        return self.join.step(batch, moment, self.constraints)

    def states(self, stream):
        return self.join.tables[stream]["component"].tolist()


@pytest.mark.parametrize("arrives", ["together", "apart"])
def test_all_pairs_of_parents_are_found_however_many_there_are(arrives):
    feed, count = Feed(SHARED), 60
    if arrives == "together":
        feed.step(s1=[5] * count, s2=[5] * count)
        found = feed.step(s3=[5]).combinations
    else:
        feed.step(s1=[5] * count, s3=[5])
        found = feed.step(s2=[5] * count).combinations
    numbers = range(1, count + 1)
    assert sorted(zip(*(rows.tolist() for rows in found.rows), strict=True)) == sorted(product(numbers, numbers, [1]))


@pytest.mark.parametrize("exact", [False, True])
def test_all_parents_go_with_their_child_however_many_there_are(exact):
    feed = Feed(SHARED, CLUSTERED, exact=exact)
    assert len(feed.step(s1=[5] * MANY, s2=[5], s3=[5]).combinations) == MANY
    answer = feed.step(s1=[6], s2=[6])
    assert all(state in (UNKNOWN, GONE) for state in feed.states(0))
    assert [len(rows) for rows in answer.cold] == ([MANY, 1, 1] if exact else [0, 0, 0])
    if exact:
        found = feed.step(s2=[5]).combinations
        assert sorted(found.rows[0].tolist()) == list(range(1, MANY + 1))


def test_elements_that_repeat_a_key_do_not_stay():
    feed = Feed(ONE_EDGE)
    feed.step(s2=[1, 2, 3])
    answer = feed.step(s2=[4, 2, 5, 5])
    assert answer.repeated[1].tolist() == [5, 7]
    assert REPEATED not in feed.states(1)
    assert feed.states(1).count(YES) == 5


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200])
def test_elements_that_never_join_do_not_stay_wherever_they_lie(rows):
    feed = Feed(ONE_EDGE)
    feed.step(s2=range(rows), passes=[number % 7 > 0 for number in range(rows)])
    assert feed.states(1).count(YES) == rows - len(range(0, rows, 7))
    assert all(state in (YES, GONE) for state in feed.states(1))
    feed.now = 2000
    feed.step()
    assert all(state == GONE for state in feed.states(1))


def test_elements_go_when_they_end_though_later_ones_of_their_block_do_not():
    feed = Feed(ONE_EDGE)
    feed.step(s2=range(10), length=5)
    feed.step(s2=range(10, 20), length=1000)
    feed.now = 10
    feed.step()
    assert feed.states(1) == [GONE] * 10 + [YES] * 10


def test_elements_that_end_at_once_go_and_the_others_of_their_block_when_they_end():
    feed = Feed(ONE_EDGE)
    feed.step(s2=range(10), length=5)
    feed.step(s2=range(10, 20), length=0)
    assert feed.states(1) == [YES] * 10 + [GONE] * 10
    feed.now = 10
    feed.step()
    assert all(state == GONE for state in feed.states(1))

"""What keyed joins keep in the settings of the paper, and how rows must be counted in several buckets."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.support.kmon_figures import EXPERIMENTS
from benchmarks.support.kmon_runs import lived
from benchmarks.support.kmon_setups import feed
from tidegate.physical.keyed_join.kernels.graph import Edge, Graph
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import Bound, Constraints, Moment, StreamArrivals

LEVELS = {"fig4": 1000, "fig6": 1250, "fig8": 1250, "fig20": 750}
"""What the window join keeps with windows of 500 rows: a hundredth of what the paper's windows have."""


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.figure)
def test_the_window_join_that_we_are_compared_with_keeps_full_windows(experiment):
    given = feed(experiment.graph, experiment.make(14_400, 50), 12_000, 500)
    course = lived(given, experiment.constraints(experiment.make(14_400, 50)), 100)
    assert course.equal
    assert course.window_level() == pytest.approx(LEVELS[experiment.figure], rel=0.03)


SECOND, RANGE = 10**6, 600 * 10**6
LINKS = Graph(("C", "B", "O"), (Edge(0, 1), Edge(1, 0), Edge(1, 2), Edge(2, 1)))
BOUNDED = Constraints(arriving={0: Bound(None, SECOND), 1: Bound(None, 0), 2: Bound(None, SECOND), 3: Bound(None, 0)})
RATES = (1, 10, 1)
"""Packets a second on three links, a thousandth of the paper's. Of ten, one is on the next link 0.75 seconds later."""


def packets(second):
    """The ids of packets that pass each link in a second."""
    backbone = [second - 1 if second % 10 == 1 else -second, *range(10**6 + 9 * second, 10**6 + 9 * second + 9)]
    return [second], backbone, [second - 2 if second % 100 == 2 else 10**9 + second]


def test_three_links_need_little_more_than_their_results_section_1_1():
    join, counts, found, kept, windows = SynopsisJoin.empty(LINKS, exact=False), [0, 0, 0], 0, [], []
    for second in range(1, 1300):
        batch = {}
        for stream, ids in enumerate(packets(second)):
            start = np.full(len(ids), second * SECOND + (2 - stream) * SECOND // 4)
            number = counts[stream] + np.arange(1, len(ids) + 1)
            edges = LINKS.below[stream] + LINKS.above[stream]
            batch[stream] = StreamArrivals({e: np.array(ids) for e in edges}, start, start + RANGE, number, number)
            counts[stream] += len(ids)
        answer = join.step(batch, Moment([(second + 1) * SECOND] * 3, list(counts)), BOUNDED)
        found += len(answer.combinations)
        kept.append(sum(size.yes + size.unknown + size.no for size in join.sizes()))
        windows.append(sum(min(second, 600) * rate for rate in RATES))
    assert found == 12
    assert windows[-1] == 72_000_000 // 10 // 1000
    results, waiting = 180_000 // 10 // 1000, 2 * sum(RATES)
    assert max(kept) <= results + waiting


K, BUCKETS, ROWS = 40, 4, 2000


def joined_by_buckets(*, local):
    """Results where each child is the k-th behind its parent, in buckets by key that count all rows or their own."""
    keys = np.random.default_rng(3).permutation(ROWS)
    graph = Graph(("P", "C"), (Edge(0, 1),))
    joins = [SynopsisJoin.empty(graph, exact=False) for _ in range(BUCKETS)]
    constraints = Constraints(arriving={0: Bound(K // BUCKETS if local else K)})
    own, results = np.zeros((BUCKETS, 2), np.int64), 0
    for now in range(ROWS + K):
        came = [(0, now)] * (now < ROWS) + [(1, now - K)] * (now >= K)
        for bucket, join in enumerate(joins):
            batch = {}
            for stream, at in came:
                if keys[at] % BUCKETS == bucket:
                    own[bucket, stream] += 1
                    start, number = np.array([now]), np.array([at + 1])
                    batch[stream] = StreamArrivals({0: keys[at : at + 1]}, start, start + 10**9, number, number)
            counts = own[bucket].tolist() if local else [min(now + 1, ROWS), max(now + 1 - K, 0)]
            results += len(join.step(batch, Moment([now + 1, now + 1], counts), constraints).combinations)
    return results


def test_rows_must_be_counted_for_all_buckets_together():
    assert joined_by_buckets(local=False) == ROWS
    assert joined_by_buckets(local=True) < 0.97 * ROWS

"""What distributed tracking does on the way: rounds, levels, rebuilding; and what its state looks like."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.baselines.rtree import RTreeTracker
from benchmarks.baselines.scan import ScanTracker
from benchmarks.baselines.stabbing import StabbingTracker
from benchmarks.baselines.tracking import DistributedTracker
from benchmarks.baselines.tracking_heaps import TOTAL
from benchmarks.baselines.tracking_signals import DIRECT
from tidegate.physical.subscriptions.kernels.model import Subscriptions, WeightedElements

TRACKERS = [DistributedTracker, StabbingTracker, RTreeTracker, ScanTracker]


def closed(*spans, threshold, first=0):
    """Queries over closed ranges of one dimension."""
    ends = np.array(spans, np.float64)
    ids = np.arange(first, first + len(ends))
    is_open = np.zeros((len(ends), 1), np.bool_)
    return Subscriptions(ids, ends[:, :1], ends[:, 1:], is_open, is_open, np.full(len(ends), threshold))


def points(*values, weight=1):
    return WeightedElements(np.array(values, np.float64)[:, np.newaxis], np.full(len(values), weight))


def rows(matured):
    return list(zip(matured.id.tolist(), matured.element.tolist(), matured.total.tolist(), strict=True))


def rounds(tracker):
    (level,) = [level for level in tracker.levels if level]
    return level.index.rounds


STAIRS = [(k, k + 7) for k in range(16)]


@pytest.mark.parametrize("tracker", TRACKERS)
def test_the_element_that_completes_a_query_is_reported_with_the_exact_total(tracker):
    trades = WeightedElements(np.array([[100.0], [103.0], [107.0], [105.0]]), np.array([40, 30, 500, 60]))
    live, matured = tracker().register(closed((100, 105), threshold=100)).absorb(trades)
    assert rows(matured) == [(0, 3, 130)]
    assert len(live) == 0


@pytest.mark.parametrize("tracker", TRACKERS)
def test_queries_of_one_element_are_in_order_of_id(tracker):
    one, other = closed((0, 9), (1, 8), threshold=2), closed((2, 7), threshold=2, first=-5)
    _, matured = tracker().register(one).register(other).absorb(points(5, 5))
    assert rows(matured) == [(-5, 1, 2), (0, 1, 2), (1, 1, 2)]


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_query_counts_from_its_registration_on(tracker):
    live, _ = tracker().register(closed((0, 9), threshold=3)).absorb(points(5, 5))
    live, matured = live.register(closed((0, 9), threshold=3, first=1)).absorb(points(5, 5, 5))
    assert rows(matured) == [(0, 0, 3), (1, 2, 3)]


@pytest.mark.parametrize("tracker", TRACKERS)
def test_the_next_number_after_an_open_end_is_outside_and_the_one_before_it_inside(tracker):
    no, yes = np.zeros((1, 1), np.bool_), np.ones((1, 1), np.bool_)
    below_one = Subscriptions(np.array([0]), np.array([[0.0]]), np.array([[1.0]]), yes, yes, np.array([2]))
    up_to_one = Subscriptions(np.array([1]), np.array([[0.0]]), np.array([[1.0]]), no, no, np.array([2]))
    least, last = math.nextafter(0.0, 1.0), math.nextafter(1.0, 0.0)
    live = tracker().register(below_one).register(up_to_one)
    live, matured = live.absorb(points(math.nextafter(0.0, -1.0), math.nextafter(1.0, 2.0), 0.0, 1.0))
    assert rows(matured) == [(1, 3, 2)]
    _, matured = live.absorb(points(least, last))
    assert rows(matured) == [(0, 1, 2)]


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_range_that_is_empty_never_matures_and_can_be_terminated(tracker):
    live, matured = tracker().register(closed((3, 2), threshold=1)).absorb(points(2, 2.5, 3, math.nan))
    assert rows(matured) == []
    live, known = live.terminate(np.array([0, 0, 7]))
    assert known.tolist() == [True, False, False]
    assert len(live) == 0


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_tracker_of_nothing_answers_nothing(tracker):
    live, matured = tracker().absorb(points(1, 2))
    assert rows(matured) == []
    assert live.terminate(np.array([1]))[1].tolist() == [False]
    assert len(tracker.from_columns(live.to_columns())) == 0


@pytest.mark.parametrize("tracker", TRACKERS)
def test_weights_and_thresholds_of_many_digits_are_exact(tracker):
    live = tracker().register(closed((0, 9), (5, 5), threshold=2**61))
    live, matured = live.absorb(points(5, 5, 5, weight=2**59 + 1))
    assert rows(matured) == []
    live, matured = live.absorb(points(5, weight=2**59 - 3))
    assert rows(matured) == [(0, 0, 2**61), (1, 0, 2**61)]


def test_the_slack_shrinks_from_round_to_round_until_every_change_is_told():
    live = DistributedTracker().register(closed(*STAIRS, threshold=1000))
    query = 5
    slacks = [int(rounds(live).slack[query])]
    while query not in (live := live.absorb(points(*range(5, 12)))[0]).absorb(points())[1].id and len(live) == 16:
        slacks.append(int(rounds(live).slack[query]))
    assert slacks == sorted(slacks, reverse=True)
    assert len(set(slacks)) > 4
    assert slacks[-1] == DIRECT


def test_a_query_is_looked_at_far_less_often_than_it_is_hit():
    live = DistributedTracker().register(closed(*STAIRS, threshold=100_000))
    live, _ = live.absorb(points(*[8] * 30_000))
    assert rounds(live).left[5] == 100_000
    assert 0 < rounds(live).signals[5] < 10


def test_an_element_heavier_than_many_slacks_ends_one_round_and_begins_the_next_with_what_is_left():
    live = DistributedTracker().register(closed(*STAIRS, threshold=1000))
    live, matured = live.absorb(points(8, weight=900))
    assert rows(matured) == []
    assert rounds(live).left[5] == 100
    assert rounds(live).signals[5] == 0
    _, matured = live.absorb(points(8, weight=100))
    assert [total for _, _, total in rows(matured)] == [1000] * 8


def one_value_of_each_node(tracker, query):
    """Points of a range that are counted at different nodes."""
    found = {}
    for value in np.arange(STAIRS[query][0], STAIRS[query][1] + 0.5, 0.5):
        index = tracker.copy().absorb(points(value))[0].levels[0].index
        entries = slice(*index.rounds.entries_at[query : query + 2])
        found[int(np.flatnonzero(index.heaps.nodes[index.heaps.node[entries], TOTAL])[0])] = value
    return list(found.values())


def test_what_a_node_holds_back_when_it_signals_is_not_forgotten():
    """All nodes but one signal and hold back nearly a slack; as much again comes to each, and is too much."""
    live = DistributedTracker().register(closed(*STAIRS, threshold=1000))
    query = int(np.argmax(np.diff(rounds(live).entries_at)))
    values, slack = one_value_of_each_node(live, query), int(rounds(live).slack[query])
    assert len(values) == np.diff(rounds(live).entries_at)[query] > 3
    weight = np.array([2 * slack - 1] * (len(values) - 1) + [slack - 1] * len(values))
    _, matured = live.absorb(WeightedElements(np.array([*values[1:], *values])[:, np.newaxis], weight))
    completed = int(np.argmax(weight.cumsum() >= 1000))
    assert (query, completed, int(weight[: completed + 1].sum())) in rows(matured)


def test_levels_hold_twice_as_many_queries_each_and_the_first_ones_are_merged():
    live = DistributedTracker(smallest=1)
    for number in range(100):
        live = live.register(closed((0, 9), threshold=1000, first=number))
        assert all(level is None or level.count <= 2**i for i, level in enumerate(live.levels))
    assert [level.count if level else 0 for level in live.levels] == [0, 0, 4, 0, 0, 32, 64]


def test_registering_a_few_does_not_build_the_many_anew():
    live = DistributedTracker().register(closed(*STAIRS * 100, threshold=1000))
    many = live.levels[-1]
    live = live.register(closed((0, 9), threshold=5, first=5000))
    assert live.levels[-1] is many


def test_a_level_is_built_anew_when_half_of_its_queries_have_left():
    live = DistributedTracker().register(closed(*STAIRS, threshold=1000))
    live, _ = live.absorb(points(*range(23)))
    before = live.levels[0]
    live, _ = live.terminate(np.arange(7))
    assert live.levels[0] is before
    live, _ = live.terminate(np.arange(7, 9))
    assert live.levels[0] is not before
    assert live.levels[0].ranges.id.tolist() == list(range(9, 16))
    assert rounds(live).needed.tolist() == [992] * 7


def test_a_level_is_built_anew_in_the_middle_of_a_batch():
    live = DistributedTracker().register(closed(*STAIRS, threshold=10))
    live, matured = live.absorb(points(*[8] * 10, *[15] * 10))
    assert rows(matured) == [(i, 9 if i <= 8 else 19, 10) for i in range(1, 16)]
    assert len(live) == 1


@pytest.mark.parametrize("tracker", [DistributedTracker, StabbingTracker])
def test_the_columns_of_queries_stay_the_same_arrays_while_elements_come(tracker):
    live = tracker().register(closed(*STAIRS, threshold=1000))
    before = live.to_columns()
    after = live.absorb(points(8))[0].to_columns()
    assert all(after["queries.0"][name] is column for name, column in before["queries.0"].items())
    assert before["progress.0"]["left"].tolist() == [1000] * 16
    assert after["progress.0"]["left"].tolist() == [999 if 1 <= k <= 8 else 1000 for k in range(16)]


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_copy_goes_its_own_way(tracker):
    ranges = replace(closed(*STAIRS * 3, threshold=1), threshold=np.arange(30, 30 + 48) * 7 % 97 + 20)
    stream = points(*np.arange(900) * 7 % 23)
    expected = rows(tracker().register(ranges).absorb(stream)[1])
    live = tracker().register(ranges)
    other = live.copy()
    live.terminate(np.arange(0, 48, 3))
    live.absorb(points(*np.arange(60) * 5 % 23))
    assert rows(other.absorb(stream)[1]) == expected
    assert len(expected) == 48

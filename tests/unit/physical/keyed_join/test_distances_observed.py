"""Adherence to constraints: sequences with known distances, what the monitor decides, and what it loses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
from reference import adherence as defined
from reference.adherence import Arrival, exact_k
from support.monitored_orders import lowest_to_come

from benchmarks.baselines.monitor_control import (
    Adherence,
    MonitorSettings,
    Record,
    decide,
    limits_in_force,
)
from benchmarks.support import kmon_data as made
from tidegate.physical.common.kernels.hashing import hash_columns
from tidegate.physical.keyed_join.kernels.monitor import Limits, Observations, WatchedArrivals
from tidegate.physical.keyed_join.kernels.monitor_clusters import ClustersSeen, observe_clusters
from tidegate.physical.keyed_join.kernels.monitor_joins import JoinsSeen, observe_joins
from tidegate.physical.keyed_join.kernels.monitor_orders import (
    OrderedArrivals,
    OrdersSeen,
    observe_orders,
)

WINDOW = 50_000


def hashes(values):
    return hash_columns([pa.array(values, pa.int64())])


def arrivals(values, at, watermark):
    return WatchedArrivals(hashes(values), np.array(at, np.int64), watermark)


# --- sequences with known distances -----------------------------------------------------------------


@pytest.mark.parametrize(("rows", "k"), defined.JOINS)
def test_join_distances_of_the_examples(rows, k):
    assert exact_k(defined.join_distances([Arrival(*row) for row in rows], "rows")) == k
    count = np.cumsum([stream == "C" for stream, _ in rows])
    parents, children = (
        arrivals(
            [value for s, value in rows if s == stream],
            [at for (s, _), at in zip(rows, count, strict=True) if s == stream],
            int(count[-1]) + (stream == "C"),
        )
        for stream in "PC"
    )
    assert observe_joins(JoinsSeen(), parents, children, Limits())[1].greatest == k


@pytest.mark.parametrize(("values", "k"), defined.CLUSTERS)
def test_clustering_distances_of_the_examples(values, k):
    assert exact_k(defined.clustering_distances([Arrival("S", value) for value in values], "rows")) == k
    assert clusters(values, Limits())[1].greatest == k


def clusters(values, limits):
    new = arrivals(values, range(1, len(values) + 1), len(values) + 1)
    return observe_clusters(ClustersSeen(), new, limits, in_rows=True)


def marks(seen):
    names = {int(hash_): value for value, hash_ in enumerate(hashes(range(11)))}
    return {names[int(key)]: int(at) for key, at in zip(seen.marks["key"], seen.marks["at"], strict=True)}


def test_marks_of_values_are_those_of_the_example():
    values, after, (k, over) = defined.CLUSTER_MARKS
    for count, expected in enumerate(after, 1):
        assert marks(clusters(values[:count], Limits())[0]) == expected
    assert set(marks(clusters(values, Limits(kept=k))[0])) == set(after[-1]) - over


@pytest.mark.parametrize(("values", "k", "distances"), defined.ORDERS)
def test_scrambling_distances_of_the_examples(values, k, distances):
    assert defined.scrambling_distances([Arrival("S", value) for value in values], "rows") == distances
    assert orders(values)[1] == Observations.of(np.array(distances))
    assert exact_k(distances) == k


def orders(values):
    at = np.arange(1, len(values) + 1)
    return observe_orders(OrdersSeen(), OrderedArrivals(np.array(values), at, len(values) + 1), Limits())


def test_values_below_which_none_comes_are_those_of_the_example():
    values, lowest = defined.LOWEST
    seen, _ = orders(values)
    assert {k: lowest_to_come(seen, len(values) + 1, k) for k in lowest} == lowest
    assert lowest_to_come(seen, len(values) + 1, 3) is None


def test_a_value_below_all_that_is_kept_is_one_farther_than_the_limit():
    first, said = observe_orders(OrdersSeen(), OrderedArrivals(np.array([9, 10]), np.array([1, 2]), 7), Limits(kept=2))
    assert said.greatest == 0
    _, said = observe_orders(first, OrderedArrivals(np.array([3]), np.array([7]), 8), Limits(kept=2))
    assert (len(first), said.greatest) == (1, 3)


def test_parts_that_do_not_change_are_the_same_objects():
    nobody = arrivals([], [], 4)
    joins, _ = observe_joins(JoinsSeen(), arrivals([1, 2], [1, 2], 2), arrivals([3], [3], 4), Limits())
    again, said = observe_joins(joins, nobody, nobody, Limits())
    assert said == Observations()
    assert all(part is joins.to_columns()[name] for name, part in again.to_columns().items())
    seen, _ = clusters([5, 8], Limits())
    same, _ = observe_clusters(seen, nobody, Limits(), in_rows=True)
    assert all(part is seen.to_columns()[name] for name, part in same.to_columns().items())
    ordered, _ = orders([5, 8])
    nothing = OrderedArrivals(np.empty(0, np.int64), np.empty(0, np.int64), 4)
    alike, _ = observe_orders(ordered, nothing, Limits())
    assert all(part is ordered.to_columns()[name] for name, part in alike.to_columns().items())


# --- what the monitor decides -----------------------------------------------------------------------

SETTINGS = MonitorSettings(threshold=1000, margin=0.0, factor=1.5, slack=10, batches=3, events=5)
UNUSED = Adherence(None, 1500)


def replayed(greatest, settings=SETTINGS, events=5):
    """What is decided after each batch."""
    history, decided = [], [decide([], settings)]
    for distance in greatest:
        history.append(Record(decided[-1], Observations(events if distance is not None else 0, distance or 0)))
        decided.append(decide(history, settings))
        assert decide(history[-settings.batches :], settings) == decided[-1]
    return decided


def test_a_constraint_is_used_once_enough_batches_have_passed():
    assert replayed([4, 100, 7]) == [UNUSED, UNUSED, UNUSED, Adherence(100, 150)]


def test_the_distance_that_is_counted_on_falls_when_the_greatest_is_forgotten():
    assert replayed([4, 100, 7, 7, 7])[3:] == [Adherence(100, 150), Adherence(100, 150), Adherence(7, 17)]


def test_a_constraint_that_is_exceeded_is_not_used_until_all_batches_have_passed():
    assert [each.k_used for each in replayed([4, 4, 4, 9, 2, 2, 2])] == [None, None, None, 4, None, None, None, 2]


def test_without_events_nothing_is_lowered():
    assert [each.k_used for each in replayed([4, 4, 4, None, None, None, None])][3:] == [4, 4, 4, 4, 4]
    assert [each.k_used for each in replayed([4, 4, 4], events=1)] == [None] * 4


def test_a_constraint_above_the_threshold_is_not_used():
    assert replayed([4, 1001, 7])[-1] == UNUSED
    assert replayed([4, 1000, 7])[-1] == Adherence(1000, 1500)


def test_more_than_is_counted_on_is_observed_even_where_that_is_nothing():
    assert replayed([0, 0, 0])[-1] == Adherence(0, 10)
    assert limits_in_force(Adherence(0, 10), SETTINGS, 500) == Limits(kept=10, sampled=500, share=0.01)


def test_a_margin_is_added_to_what_was_seen():
    assert replayed([4, 100, 0], replace(SETTINGS, margin=0.1))[-1].k_used == 111
    assert replayed([0, 0, 0], replace(SETTINGS, margin=0.1))[-1].k_used == 0


# --- what it follows and what it loses --------------------------------------------------------------


@dataclass
class Followed:
    """What was counted on in each batch, which pairs there were and which of them were lost, by batch."""

    used: list[int | None]
    pairs: list[int]
    lost: list[int]


def follow_joins(data, settings, batch):
    """Watch S1 → S2 in batches of so many arrivals, beside a join that keeps parents as long as it is told to."""
    hashed, number = hashes(data.a), data.number(2)
    history: list[Record] = []
    seen, followed = JoinsSeen(), Followed([], [], [])
    kept_key, kept_at = np.empty(0, np.uint64), np.empty(0, np.int64)
    for begin in range(0, len(data), batch):
        rows = slice(begin, begin + batch)
        end = int(number[rows][-1])
        parent, child = (data.stream[rows] == stream for stream in (1, 2))
        parents = WatchedArrivals(hashed[rows][parent], number[rows][parent], end)
        children = WatchedArrivals(hashed[rows][child], number[rows][child], end + 1)
        adherence = decide(history[-settings.batches :], settings)
        seen, said = observe_joins(seen, parents, children, limits_in_force(adherence, settings, WINDOW))
        history.append(Record(adherence, said))
        followed.used.append(adherence.k_used)
        followed.pairs.append(late_pairs(data, rows))
        kept_key, kept_at = np.append(kept_key, parents.key), np.append(kept_at, parents.at)
        met = np.isin(kept_key, children.key)
        followed.lost.append(followed.pairs[-1] - int(np.count_nonzero(met)))
        gone = (kept_at + adherence.k_kept < end + 1) & (adherence.k_used is not None)
        kept_key, kept_at = kept_key[~met & ~gone], kept_at[~met & ~gone]
    return followed


def late_pairs(data, rows):
    """Pairs whose child is in the batch and whose parent is before the end of it, and not behind an older child."""
    child = data.a[rows][data.stream[rows] == 2]
    before = data.a[: rows.stop][data.stream[: rows.stop] == 1]
    return int(np.count_nonzero(np.isin(before, child)))


def follow(observe, seen, count, settings, batch):
    """What is counted on in each batch, for numbers of one stream."""
    history: list[Record] = []
    for begin in range(0, count, batch):
        at = np.arange(begin + 1, min(begin + batch, count) + 1)
        adherence = decide(history[-settings.batches :], settings)
        seen, said = observe(seen, at, limits_in_force(adherence, settings, WINDOW))
        history.append(Record(adherence, said))
    return [record.adherence.k_used for record in history]


CAUTIOUS = MonitorSettings(threshold=20_000, factor=1.2, slack=200, share=0.05, batches=10)
BATCH = 700
"""Arrivals of a batch, of which 100 are children of each stream."""


def assert_close(used, k, settings):
    late = used[2 * settings.batches :]
    assert len(late) > 5
    assert all(each is not None and abs(each / k - 1) < 0.05 for each in late)


def test_a_constant_k_of_joins_is_found():
    data = made.many_children(60_000, 400, seed=1)
    followed = follow_joins(data, CAUTIOUS, BATCH)
    assert_close(followed.used, made.joins_k(data, 1, 2), CAUTIOUS)
    assert sum(followed.lost) == 0


def test_a_constant_k_of_clusters_is_found():
    data = made.many_parents(110_000, 2000, seed=2, ordered=False)
    values = hashes(data.a[data.stream == 1])

    def observe(seen, at, limits):
        return observe_clusters(seen, WatchedArrivals(values[at - 1], at, int(at[-1]) + 1), limits, in_rows=True)

    used = follow(observe, ClustersSeen(), len(values), CAUTIOUS, 1000)
    assert_close(used, made.clusters_k(data, 1), CAUTIOUS)


def test_a_constant_k_of_orders_is_found():
    data = made.many_parents(110_000, 2000, seed=3, ordered=True)
    values = data.a[data.stream == 1]

    def observe(seen, at, limits):
        return observe_orders(seen, OrderedArrivals(values[at - 1], at, int(at[-1]) + 1), limits)

    used = follow(observe, OrdersSeen(), len(values), CAUTIOUS, 1000)
    assert_close(used, made.orders_k(data, 1), CAUTIOUS)


@pytest.mark.parametrize("settings", [CAUTIOUS, replace(CAUTIOUS, factor=6.0, slack=0), replace(CAUTIOUS, share=0.0)])
@pytest.mark.parametrize("change", ["jump", "fast up", "slow up", "fast down", "slow down"])
def test_nothing_is_lost_when_k_changes_as_long_as_some_distances_are_little_more(change, settings):
    data = made.many_children(100_000, made.course(change, 100, 500, 40_000, 30_000), seed=4)
    followed = follow_joins(data, settings, BATCH)
    assert sum(followed.lost) == 0
    assert sum(followed.pairs) > 10_000
    assert followed.used[50] is not None
    assert abs(followed.used[-1] / (100 if "down" in change else 500) - 1) < 0.05


def test_losses_end_once_a_jump_past_everything_that_is_kept_is_seen_by_the_sample():
    data = made.many_children(160_000, made.course("jump", 300, 1500, 60_000, 1), seed=5, nearest=0.9)
    followed = follow_joins(data, CAUTIOUS, BATCH)
    assert sum(followed.lost) > 0
    assert max(i for i, lost in enumerate(followed.lost) if lost) < 120
    assert min(each for each in followed.used if each is not None) > 250
    assert abs(followed.used[-1] / 1500 - 1) < 0.05


def test_without_evidence_and_sample_nothing_is_counted_on_that_is_less():
    data = made.many_children(160_000, made.course("jump", 300, 1500, 60_000, 1), seed=5, nearest=0.9)
    blind = replace(CAUTIOUS, share=0.0)
    assert min(each for each in follow_joins(data, blind, BATCH).used if each is not None) > 250
    assert min(each for each in follow_joins(data, replace(blind, events=0), BATCH).used if each is not None) == 0

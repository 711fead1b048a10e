"""Observers of distances against their definition: the same whatever the cuts, the order and the parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.adherence import (
    Arrival,
    clustering_distances,
    clusters_within,
    exact_k,
    histogram,
    join_distances,
    joins_within,
    scrambling_distances,
    scrambling_within,
)
from support.monitored_orders import joined_orders

from benchmarks.support import kmon_data as made
from tidegate.physical.common.kernels.hashing import hash_columns
from tidegate.physical.keyed_join.kernels.monitor import Limits, Observations, WatchedArrivals, sum_observations
from tidegate.physical.keyed_join.kernels.monitor_clusters import ClustersSeen, observe_clusters
from tidegate.physical.keyed_join.kernels.monitor_joins import JoinsSeen, observe_joins
from tidegate.physical.keyed_join.kernels.monitor_orders import (
    OrderedArrivals,
    OrdersSeen,
    observe_orders,
)
from tidegate.time import FOREVER

VALUES = range(5)


@dataclass(frozen=True)
class Placed:
    """An arrival with its place, in the batch in which it is delivered."""

    arrival: Arrival
    at: int
    batch: int


def observed(distances):
    return Observations(len(distances), max(distances, default=0), histogram(distances))


def hashes(values):
    return hash_columns([pa.array(values, pa.int64())])


limits = st.builds(
    Limits,
    kept=st.sampled_from([0, 1, 2, 3, 5, 100, FOREVER]),
    sampled=st.sampled_from([0, 1, 4, 100]),
    share=st.sampled_from([0.0, 0.4, 0.7, 1.0]),
)
units = st.sampled_from(["rows", "time"])
parts = st.sampled_from([1, 2, 3])


def limit_of_values(limit):
    """A value's limit, by the upper half of its hash."""
    return {
        value: max(limit.kept, limit.sampled)
        if limit.share == 1.0 or (int(hash_) >> 32) / 2**32 < limit.share
        else limit.kept
        for value, hash_ in zip(VALUES, hashes(VALUES), strict=True)
    }


@st.composite
def sequences(draw, joined=False):
    """Arrivals in order of time; of a joined stream, each value has at most one child."""
    streams = st.sampled_from(["P", "P", "C"]) if joined else st.just("S")
    rows = draw(st.lists(st.tuples(streams, st.sampled_from(VALUES), st.integers(0, 3)), max_size=14))
    time, children, sequence = 0, set(), []
    for stream, value, later in rows:
        time += later
        if stream == "C" and value in children:
            continue
        children |= {value} if stream == "C" else set()
        sequence.append(Arrival(stream, value, time))
    return sequence


@st.composite
def deliveries(draw, joined=False):
    """A sequence, a unit, and its arrivals with place and batch: numbers are cut, times come as late as they like."""
    sequence, unit = draw(sequences(joined)), draw(units)
    batches = draw(st.lists(st.integers(0, 3), min_size=len(sequence), max_size=len(sequence)))
    if unit == "rows":
        batches.sort()
    return sequence, unit, placed(sequence, unit, batches)


def placed(sequence, unit, batches):
    """Places are times, or numbers of arrivals: for parents, of children so far."""
    counted = [each.stream != "P" for each in sequence]
    at = [each.time for each in sequence] if unit == "time" else np.cumsum(counted).tolist()
    return [Placed(*each) for each in zip(sequence, at, batches, strict=True)]


def watermark(rows, batch, stream, unit):
    """The least place of what is still to come, as far as can be known."""
    if unit == "rows":
        numbered = [each.at for each in rows if each.batch <= batch]
        return max(numbered, default=0) + (stream != "P")
    return min((each.at for each in rows if each.batch > batch and each.arrival.stream == stream), default=FOREVER)


def arrivals(rows, batch, stream, unit, part=lambda _: True):
    here = [each for each in rows if each.batch == batch and each.arrival.stream == stream]
    here = [each for each in here if part(each.arrival.value)][::-1]
    values = [each.arrival.value for each in here]
    at = np.array([each.at for each in here], np.int64)
    return values, at, watermark(rows, batch, stream, unit)


def keyed(values, at, watermark):
    return WatchedArrivals(hashes(values), at, watermark)


def part_of(count, number):
    return lambda value: value % count == number


def seen_joins(rows, unit, limit, count=1):
    said = []
    for number in range(count):
        seen = JoinsSeen()
        for batch in range(4):
            new = (keyed(*arrivals(rows, batch, stream, unit, part_of(count, number))) for stream in "PC")
            parents, children = new
            seen, one = observe_joins(JoinsSeen.from_columns(seen.to_columns()), parents, children, limit)
            said.append(one)
    return sum_observations(said)


def seen_clusters(rows, unit, limit, count=1):
    said = []
    for number in range(count):
        seen = ClustersSeen()
        for batch in range(4):
            new = keyed(*arrivals(rows, batch, "S", unit, part_of(count, number)))
            seen = ClustersSeen.from_columns(seen.to_columns())
            seen, one = observe_clusters(seen, new, limit, in_rows=unit == "rows")
            said.append(one)
    return sum_observations(said)


def seen_orders(rows, unit, limit, count=1):
    """Parts begin each batch with what all of them have seen together."""
    seen, said = OrdersSeen(), []
    for batch in range(4):
        after = []
        for number in range(count):
            values, at, least = arrivals(rows, batch, "S", unit, part_of(count, number))
            begin = seen if number == 0 else OrdersSeen(seen.steps)
            state, one = observe_orders(begin, OrderedArrivals(np.array(values, np.int64), at, least), limit)
            after.append(state)
            said.append(one)
        seen = joined_orders(after)
    return sum_observations(said)


@given(deliveries(joined=True), limits, parts)
def test_join_distances_are_as_defined_whatever_the_cuts_and_parts(delivery, limit, count):
    sequence, unit, rows = delivery
    assert seen_joins(rows, unit, limit, count) == observed(joins_within(sequence, unit, limit_of_values(limit)))


@given(deliveries(), limits, parts)
def test_clustering_distances_are_as_defined_whatever_the_cuts_and_parts(delivery, limit, count):
    sequence, unit, rows = delivery
    assert seen_clusters(rows, unit, limit, count) == observed(clusters_within(sequence, unit, limit_of_values(limit)))


@given(deliveries(), limits)
def test_scrambling_distances_are_as_defined_whatever_the_cuts(delivery, limit):
    sequence, unit, rows = delivery
    for kept in (limit.kept, *range(5)):
        said = seen_orders(rows, unit, replace(limit, kept=kept))
        assert said == observed(scrambling_within(sequence, unit, kept))


@given(deliveries(joined=True))
def test_all_join_distances_are_seen_without_a_limit(delivery):
    sequence, unit, rows = delivery
    assert seen_joins(rows, unit, Limits()) == observed(join_distances(sequence, unit))


@given(deliveries())
def test_the_greatest_distances_are_those_of_the_definition_without_a_limit(delivery):
    sequence, unit, rows = delivery
    assert seen_clusters(rows, unit, Limits()) == observed(clustering_distances(sequence, unit))
    assert seen_orders(rows, unit, Limits()) == observed(scrambling_distances(sequence, unit))


def at_ends_of_batches(rows):
    """The same, with the number of arrivals at the end of the batch as the place of all of it."""
    ends = {batch: max((each.at for each in rows if each.batch <= batch), default=0) for batch in range(4)}
    return [Placed(each.arrival, ends[each.batch], each.batch) for each in rows]


def positive(said):
    return said.greatest, said.histogram[1:]


@given(deliveries(joined=True), parts)
def test_what_is_seen_of_joins_with_counts_of_batches_is_enough_to_keep(delivery, count):
    _, unit, rows = delivery
    rows = at_ends_of_batches(rows) if unit == "rows" else rows
    said = seen_joins(rows, unit, Limits(), count)
    assert positive(seen_joins(rows, unit, Limits(kept=said.greatest), count)) == positive(said)
    assert seen_joins(rows, unit, Limits()) == said


@given(deliveries(), parts)
def test_what_is_seen_of_clusters_with_counts_of_batches_is_enough_to_keep(delivery, count):
    _, unit, rows = delivery
    rows = at_ends_of_batches(rows) if unit == "rows" else rows
    said = seen_clusters(rows, unit, Limits(), count)
    assert seen_clusters(rows, unit, Limits(kept=said.greatest), count) == said
    assert seen_clusters(rows, unit, Limits()) == said


@given(sequences(), st.lists(st.integers(0, 3), min_size=14, max_size=14), parts)
def test_what_is_seen_of_orders_with_counts_of_batches_is_enough_to_keep(sequence, batches, count):
    rows = at_ends_of_batches(placed(sequence, "rows", sorted(batches[: len(sequence)])))
    said = seen_orders(rows, "rows", Limits(), count)
    assert seen_orders(rows, "rows", Limits(kept=said.greatest), count) == said
    assert seen_orders(rows, "rows", Limits()) == said


@given(deliveries(joined=True), limits)
def test_nobody_is_kept_who_can_meet_nobody_within_the_limit(delivery, limit):
    _, unit, rows = delivery
    seen, said = JoinsSeen(), limit_of_values(limit)
    by_hash = {int(hash_): said[value] for value, hash_ in zip(VALUES, hashes(VALUES), strict=True)}
    for batch in range(4):
        parents, children = (keyed(*arrivals(rows, batch, stream, unit)) for stream in "PC")
        seen, _ = observe_joins(seen, parents, children, limit)
        for part, least in ((seen.parents, children.watermark), (seen.children, parents.watermark)):
            assert all(at + by_hash[int(key)] >= least for key, at in zip(part["key"], part["at"], strict=True))


@given(st.integers(0, 12), st.integers(0, 9))
def test_the_k_of_made_data_is_as_defined(k, seed):
    data = made.many_children(70, k, seed, dangling=0.2)
    columns: list[tuple[int, Any, Literal["a", "b"]]] = [(2, data.a, "a"), (3, data.b, "b")]
    for child, values, column in columns:
        names = {1: "P", child: "C"}
        sequence = [Arrival(names.get(int(s), ""), int(value)) for s, value in zip(data.stream, values, strict=True)]
        assert exact_k(join_distances(sequence, "rows")) == made.joins_k(data, 1, child, column) <= k
    data = made.many_parents(100, k, seed, ordered=True)
    sequence = [Arrival("S", int(value)) for value in data.a[data.stream == 2]]
    assert exact_k(clustering_distances(sequence, "rows")) == made.clusters_k(data, 2)
    assert exact_k(scrambling_distances(sequence, "rows")) == made.orders_k(data, 2)


@pytest.mark.parametrize("k", [0, 50, 400])
def test_made_data_have_about_the_k_that_was_asked_for(k):
    assert made.joins_k(made.many_children(20_000, k, seed=1), 1, 3, "b") == k
    assert made.clusters_k(made.many_parents(50_000, k, seed=1, ordered=False), 2) == pytest.approx(k, rel=0.3)
    assert made.orders_k(made.many_parents(50_000, k, seed=1, ordered=True), 2) == pytest.approx(k, rel=0.3)
    assert made.orders_k(made.one_edge(50_000, seed=1, orders=k), 2) == pytest.approx(k, rel=0.3)
    assert made.orders_k(made.combined(50_000, seed=1, orders=k), 3, "b") == pytest.approx(k, rel=0.3)
    assert made.clusters_k(made.combined(50_000, seed=1, orders=k), 1) == 0


@given(deliveries(), limits)
def test_of_each_value_one_mark_is_kept_within_its_limit_and_of_far_steps_the_last(delivery, limit):
    _, unit, rows = delivery
    seen, steps = ClustersSeen(), OrdersSeen()
    for batch in range(4):
        values, at, least = arrivals(rows, batch, "S", unit)
        seen, _ = observe_clusters(seen, keyed(values, at, least), limit, in_rows=unit == "rows")
        assert len(set(seen.marks["key"].tolist())) == len(seen.marks["key"]) <= len(VALUES)
        assert all(
            least - mark - (unit == "rows") <= max(limit.kept, limit.sampled) for mark in seen.marks["at"].tolist()
        )
        steps, _ = observe_orders(steps, OrderedArrivals(np.array(values, np.int64), at, least), limit)
        assert sum(step + limit.kept < least for step in steps.steps["at"].tolist()) <= 1

"""What buckets report of streams, added up: by definition the same for all cuts and numbers of buckets."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.adherence import (
    Arrival,
    clustering_distances,
    exact_k,
    histogram,
    join_distances,
    scrambling_distances,
)
from support.examples import examples

from tidegate.algebra.keyed_join import ConstraintKind
from tidegate.physical.keyed_join import losses
from tidegate.physical.keyed_join.kernels.graph import Edge, Graph
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import Bound, Constraints, Moment, StreamArrivals
from tidegate.physical.keyed_join.kernels.monitor import Observations, sum_observations
from tidegate.physical.keyed_join.monitor import NO_PARTS, Watch, watch_elements
from tidegate.physical.keyed_join.report import ArrivalSummary, KeyedJoinReport
from tidegate.physical.keyed_join.sample_joins import JoinSample, KeySample
from tidegate.time import FOREVER

GRAPH = Graph(("p", "c"), (Edge(0, 1),))
SEEDS = st.integers(0, 10**9)
FEW = settings(max_examples=examples(40), deadline=None)
DEFINED = {
    ConstraintKind.ARRIVING: lambda all_: join_distances(all_, "time"),
    ConstraintKind.CLUSTERED: lambda all_: clustering_distances([each for each in all_ if each.stream == "P"], "time"),
    ConstraintKind.ORDERED_PARENTS: lambda all_: scrambling_distances(
        [each for each in all_ if each.stream == "P"], "time"
    ),
    ConstraintKind.ORDERED_CHILDREN: lambda all_: scrambling_distances(
        [each for each in all_ if each.stream == "C"], "time"
    ),
}
FIELDS = {
    ConstraintKind.ARRIVING: "arriving",
    ConstraintKind.CLUSTERED: "clustered",
    ConstraintKind.ORDERED_PARENTS: "ordered_parents",
    ConstraintKind.ORDERED_CHILDREN: "ordered_children",
}


def sequence(random):
    """Arrivals in the order of time and, at one time, of value; each value has at most one child."""
    values, time, all_, children = random.randint(1, 8), 0, [], set()
    for _ in range(random.randint(0, 30)):
        time += random.randint(0, 3)
        stream, value = random.choice("PPC"), random.randrange(values)
        if stream == "P" or value not in children:
            children |= {value} if stream == "C" else set()
            all_.append(Arrival(stream, value, time))
    return sorted(all_, key=lambda each: (each.time, each.value))


def cut(random, all_, late):
    """Steps, in which elements come in any order; if they may be late, any of them in any step."""
    steps = random.randint(1, 5)
    numbers = [random.randrange(steps) for _ in all_]
    if not late:
        numbers.sort()
    batches = [[each for each, number in zip(all_, numbers, strict=True) if number == step] for step in range(steps)]
    return [random.sample(batch, len(batch)) for batch in batches]


def moments(batches):
    for step, batch in enumerate(batches):
        later = [each for after in batches[step + 1 :] for each in after]
        watermarks = [min((e.time for e in later if e.stream == s), default=FOREVER) for s in "PC"]
        so_far = [each for before in batches[: step + 1] for each in before]
        yield batch, Moment(watermarks, [sum(e.stream == s for e in so_far) for s in "PC"])


def arrivals(batch, moment, window=10**6):
    found = {}
    for number, stream in enumerate("PC"):
        mine = [each for each in batch if each.stream == stream]
        if mine:
            start = np.array([each.time for each in mine])
            counted, row = np.full(len(mine), moment.counters[number]), np.zeros(len(mine), np.int64)
            found[number] = StreamArrivals({0: np.array([e.value for e in mine])}, start, start + window, counted, row)
    return found


def reported(each, batches, buckets):
    """What is said of all steps in all buckets together."""
    observed = []
    for bucket in range(buckets):
        parts = NO_PARTS
        for batch, moment in moments(batches):
            mine = [e for e in batch if e.value % buckets == bucket]
            parts, watched = watch_elements([each], None, parts, GRAPH, arrivals(mine, moment), moment)
            own = watched[each.name]
            observed.append(Observations(own.events, own.greatest, own.histogram))
    return sum_observations(observed)


@pytest.mark.parametrize("kind", [ConstraintKind.ARRIVING, ConstraintKind.CLUSTERED])
@FEW
@given(SEEDS)
def test_in_time_reports_add_up_to_the_distances_of_the_whole_stream(kind, seed):
    random = Random(seed)
    all_ = sequence(random)
    distances = DEFINED[kind](all_)
    expected = Observations(len(distances), exact_k(distances), histogram(distances))
    assert reported(Watch(0, kind), cut(random, all_, late=True), random.randint(1, 3)) == expected


@pytest.mark.parametrize("kind", [ConstraintKind.ORDERED_PARENTS, ConstraintKind.ORDERED_CHILDREN])
@FEW
@given(SEEDS)
def test_of_orders_a_bucket_never_reports_more_than_the_whole_stream_has(kind, seed):
    random = Random(seed)
    all_ = sequence(random)
    distances = DEFINED[kind](all_)
    expected = Observations(len(distances), exact_k(distances), histogram(distances))
    batches = cut(random, all_, late=True)
    assert reported(Watch(0, kind), batches, 1) == expected
    parts = reported(Watch(0, kind), batches, 3)
    assert parts.greatest <= expected.greatest
    assert parts.events == expected.events


@pytest.mark.parametrize("kind", [ConstraintKind.ARRIVING, ConstraintKind.CLUSTERED])
@FEW
@given(SEEDS)
def test_in_rows_reports_do_not_depend_on_buckets(kind, seed):
    random = Random(seed)
    batches = cut(random, sequence(random), late=False)
    assert reported(Watch(0, kind, in_rows=True), batches, 3) == reported(Watch(0, kind, in_rows=True), batches, 1)


@pytest.mark.parametrize("in_rows", [True, False])
@pytest.mark.parametrize("kind", list(ConstraintKind))
@FEW
@given(SEEDS)
def test_a_join_that_counts_on_what_was_reported_loses_nothing(kind, in_rows, seed):
    random = Random(seed)
    batches, buckets = cut(random, sequence(random), late=not in_rows), random.randint(1, 3)
    worst = reported(Watch(0, kind, in_rows), batches, buckets).greatest
    bound = Bound(rows=worst) if in_rows else Bound(time=worst)
    used: dict[str, Any] = {FIELDS[kind]: {0: bound}}
    lean = Constraints(**used)
    assert results(batches, buckets, lean) == results(batches, buckets, Constraints())


def results(batches, buckets, constraints):
    found: Counter[int] = Counter()
    for bucket in range(buckets):
        join = SynopsisJoin.empty(GRAPH, exact=False, watched=frozenset({0}))
        for batch, moment in moments(batches):
            new = arrivals([e for e in batch if e.value % buckets == bucket], moment)
            keyed = {stream: replace(each, row=each.keys[0]) for stream, each in new.items()}
            found.update(join.step(keyed, moment, constraints).combinations.rows[0].tolist())
    return found


# --- losses -----------------------------------------------------------------------------------------


def with_losses(report):
    """The report of a bucket in which nothing but losses is reported."""
    return KeyedJoinReport(ArrivalSummary((), (), (), (), ()), (), (), losses=report)


def lost(batches, buckets, constraints, share, *, common):
    """What is counted in all buckets together, and how many results there really are, without and with constraints."""
    counted = None
    for bucket in range(buckets):
        join, sample = SynopsisJoin.empty(GRAPH, exact=False, watched=frozenset({0})), JoinSample()
        for batch, moment in moments(batches):
            new = arrivals([e for e in batch if e.value % buckets == bucket], moment)
            keyed = {stream: replace(each, row=each.keys[0]) for stream, each in new.items()}
            found = join.step(keyed, moment, constraints).combinations.rows[0]
            keys = (
                losses.CommonKeyCodes({stream: each.keys[0] for stream, each in new.items()}, found) if common else None
            )
            sample = JoinSample(sample.parts)  # as if the state had been loaded
            report = losses.observe_losses(sample, join, new, moment, constraints, keys, [0], KeySample(share))
            counted = losses.add_lost_counts(counted, [with_losses(report)])
    return counted


@pytest.mark.parametrize("common", [True, False])
@FEW
@given(SEEDS)
def test_if_all_keys_are_sampled_what_is_missing_is_counted(common, seed):
    random = Random(seed)
    batches, buckets = cut(random, sequence(random), late=False), random.randint(1, 3)
    names = random.sample(sorted(FIELDS.values()), 2)
    bounds = [Bound(rows=1), Bound(time=1), Bound(0, 2)]
    used: dict[str, Any] = {name: {0: random.choice(bounds)} for name in names}
    lean = Constraints(**used)
    missing = results(batches, buckets, Constraints()).total() - results(batches, buckets, lean).total()
    assert losses.estimate_missing(lost(batches, buckets, lean, 1.0, common=common), KeySample(1.0)).estimate == missing


@FEW
@given(SEEDS)
def test_what_is_counted_in_the_sample_depends_neither_on_cuts_nor_on_buckets(seed):
    random = Random(seed)
    all_ = sequence(random)
    once, cuts = [all_], cut(random, all_, late=False)
    found = [lost(each, b, Constraints(), 0.5, common=True) for each, b in ((once, 1), (cuts, 1), (cuts, 3))]
    assert [each.results for each in found if each] == [found[0].results] * len([each for each in found if each])
    lean = Constraints(arriving={0: Bound(time=1)})
    assert lost(cuts, 1, lean, 0.5, common=True) == lost(cuts, 3, lean, 0.5, common=True)

"""What a bucket reports of streams, what it keeps for that, and what is estimated to be missing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference import adherence as defined
from support.watched import choice_of, followed

from benchmarks.support import kmon_data as made
from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse, Monitoring, Reach
from tidegate.algebra.keyed_join import ConstraintKind, EdgeConstraint
from tidegate.physical.keyed_join import losses
from tidegate.physical.keyed_join.directive import KeyedJoinDirective, WatchLimits
from tidegate.physical.keyed_join.kernels.graph import Edge, Graph
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import NEVER, Bound, Constraints, Moment, StreamArrivals
from tidegate.physical.keyed_join.monitor import (
    NO_PARTS,
    Watch,
    count_hits_on_no,
    summarize_arrivals,
    watch_elements,
)
from tidegate.physical.keyed_join.report import ArrivalSummary, KeyedJoinReport, LossSample, LostCounts
from tidegate.physical.keyed_join.sample_joins import GROUPS, JoinSample, KeySample

GRAPH = Graph(("p", "c"), (Edge(0, 1),))


def elements(keys, start, number=0, passes=None, window=10**9):
    keys, start = np.array(keys, np.int64), np.array(start, np.int64)
    row = np.arange(len(keys))
    return StreamArrivals({0: keys}, start, start + window, np.full(len(keys), number), row, passes)


def told_of(each, steps, directive=None):
    """The reports of a watch in some steps, each with the elements of streams and the moment; and what is kept."""
    parts, told = NO_PARTS, []
    for batch, moment in steps:
        parts, watched = watch_elements([each], directive, parts, GRAPH, batch, moment)
        told.append(watched[each.name])
    return told, parts


def with_losses(report):
    """The report of a bucket in which nothing but losses is reported."""
    return KeyedJoinReport(ArrivalSummary((), (), (), (), ()), (), (), losses=report)


def one_by_one(rows):
    """A step for each arrival."""
    counts = [0, 0]
    for stream, value in rows:
        place = "PC".index(stream)
        counts[place] += 1
        yield {place: elements([value], [0], counts[place])}, Moment([0, 0], list(counts))


@pytest.mark.parametrize(("rows", "k"), defined.JOINS)
def test_join_distances_in_rows_are_those_of_the_examples(rows, k):
    told, _ = told_of(Watch(0, ConstraintKind.ARRIVING, in_rows=True), one_by_one(rows))
    assert (max(each.greatest for each in told), sum(each.events for each in told)) == (k, 1)


@pytest.mark.parametrize(("values", "k"), defined.CLUSTERS)
def test_clustering_distances_in_rows_are_those_of_the_examples(values, k):
    told, _ = told_of(Watch(0, ConstraintKind.CLUSTERED, in_rows=True), one_by_one([("P", value) for value in values]))
    assert max(each.greatest for each in told) == k


@pytest.mark.parametrize("kind", [ConstraintKind.ORDERED_PARENTS, ConstraintKind.ORDERED_CHILDREN])
@pytest.mark.parametrize(("values", "k", "distances"), defined.ORDERS)
def test_scrambling_distances_in_rows_are_those_of_the_examples(values, k, distances, kind):
    stream = "P" if kind is ConstraintKind.ORDERED_PARENTS else "C"
    told, _ = told_of(Watch(0, kind, in_rows=True), one_by_one([(stream, value) for value in values]))
    assert [each.greatest for each in told] == distances
    assert max(distances) == k


def test_a_child_of_the_same_step_is_at_no_distance_in_rows():
    step = ({0: elements([7], [5], 1), 1: elements([3, 4, 7], [1, 2, 9], 3)}, Moment([9, 9], [1, 3]))
    (told,), _ = told_of(Watch(0, ConstraintKind.ARRIVING, in_rows=True), [step])
    assert (told.events, told.greatest) == (1, 0)


def test_elements_that_do_not_pass_are_not_watched():
    step = ({0: elements([7], [5]), 1: elements([7], [9], passes=np.array([False]))}, Moment([9, 9], [1, 1]))
    (told,), _ = told_of(Watch(0, ConstraintKind.ARRIVING), [step])
    assert told.events == 0


def test_a_report_tells_of_arrivals_and_validities():
    batch = {0: elements([1, 2], [5, 3], window=10)}
    moment = Moment([0, 0], [2, 7])
    assert watch_elements([], None, NO_PARTS, GRAPH, batch, moment)[1] == {}
    assert summarize_arrivals(GRAPH, batch, moment) == ArrivalSummary(
        elements=(2, 0), first=(3, None), last=(5, None), longest=(10, 0), counters=(2, 7)
    )


def test_parts_that_do_not_change_are_the_same_objects():
    for kind in ConstraintKind:
        first = ({0: elements([1, 2], [1, 2]), 1: elements([3], [3])}, Moment([3, 4], [2, 1]))
        _, parts = told_of(Watch(0, kind), [first])
        again, _ = watch_elements([Watch(0, kind)], None, parts, GRAPH, {}, first[1])
        assert parts.keys() == again.keys()
        assert all(part is parts[name] for name, part in again.items())


def test_only_a_share_of_keys_is_kept_and_all_parts_of_a_key_agree():
    batch = {0: elements(range(1000), range(1000)), 1: elements(range(1000), range(1000))}
    limits = WatchLimits(kept=10**6, sampled=0, sample=0.0, keys=0.25)
    directive = KeyedJoinDirective(watch={"0/arriving": limits})
    (told,), parts = told_of(Watch(0, ConstraintKind.ARRIVING), [(batch, Moment([0, 0], [1000, 1000]))], directive)
    assert 200 < told.events < 300
    assert told.size == told.events
    fewer = KeyedJoinDirective(watch={"0/arriving": replace(limits, keys=0.125)})
    _, watched = watch_elements(
        [Watch(0, ConstraintKind.ARRIVING)], fewer, parts, GRAPH, {}, Moment([0, 0], [1000, 1000])
    )
    assert 90 < watched["0/arriving"].size < 160


def test_of_an_order_only_so_many_steps_are_kept_and_nothing_gets_nearer():
    rising = elements(range(0, 200_000, 2), range(100_000))
    seen = ({0: rising}, Moment([100_000, 0], [100_000, 0]))
    late = elements([150_001], [100_000])
    told, parts = told_of(
        Watch(0, ConstraintKind.ORDERED_PARENTS), [seen, ({0: late}, Moment([100_001, 0], [100_001, 0]))]
    )
    assert told[0].size < 1100
    assert 24_999 <= told[1].greatest < 25_200
    assert sum(len(part["at"]) for part in parts.values()) < 1100


def test_hits_are_new_parents_of_children_that_never_join():
    join = SynopsisJoin.empty(GRAPH)
    no = {1: elements([7, 8], [1, 1], passes=np.array([False, True]))}
    join.step(no, Moment([0, 0], [0, 2]), Constraints(keeps_no=frozenset({1})))
    assert count_hits_on_no(join, {0: elements([7, 7, 8, 9], [2, 2, 2, 2])}) == (2,)


# --- losses -----------------------------------------------------------------------------------------


def test_the_interval_has_what_is_missing_in_most_samples():
    random, inside = np.random.default_rng(1), 0
    size, share = random.integers(1, 20, 20_000), 0.05
    missing = np.where(random.random(20_000) < 0.1, size, 0)
    for _ in range(400):
        chosen, group = random.random(20_000) < share, random.integers(0, GROUPS, 20_000)
        of, lost = (np.bincount(group[chosen], each[chosen], GROUPS).tolist() for each in (size, missing))
        low, middle, high = losses.loss_interval(of, lost, share)
        assert low <= middle <= high
        inside += low <= missing.sum() <= high
    assert inside / 400 > 0.94


def test_where_nothing_is_missing_in_the_sample_something_may_still_be():
    low, middle, high = losses.loss_interval([10] * GROUPS, [0] * GROUPS, 0.01)
    assert (low, middle) == (0, 0)
    assert 300 < high < 400


def test_the_estimate_is_near_to_what_a_wrong_declaration_makes_a_join_miss():
    data = made.many_children(60_000, 400, seed=7)
    wrong = EdgeConstraint(0, ConstraintKind.ARRIVING, Reach(time=2_000_000))
    settings = ConstraintSettings(ConstraintUse.DECLARED, exact=False, monitoring=Monitoring(sample=0.1))
    lean = followed(data, choice_of([], settings, [wrong]), 700, 10**9, sampled=True)
    plain = followed(data, choice_of([], settings), 700, 10**9)
    missing = sum(plain.results) - sum(lean.results)
    told = lean.records[-1].losses
    assert missing > 1000
    assert told.of == "results"
    assert told.low < missing < told.high
    assert told.high < 2 * missing
    fewer = plain.sizes[-1][0].unknown - lean.sizes[-1][0].unknown
    assert lean.records[-1].found[0].rows == pytest.approx(fewer, rel=0.15)


def test_without_a_common_key_pairs_of_each_edge_are_counted():
    graph = Graph(("a", "b", "c"), (Edge(0, 1), Edge(1, 2)))
    join, sample, counted = SynopsisJoin.empty(graph, exact=False), JoinSample(), None
    lean = Constraints(arriving={0: Bound(time=3), 1: Bound(time=3)})
    a, b, c = elements([5], [0]), elements([5], [2]), elements([6], [9])
    b, c = replace(b, keys={**b.keys, 1: np.array([6])}), replace(c, keys={1: c.keys[0]})
    for at, new in ((0, {0: a}), (2, {1: b}), (8, {}), (9, {2: c})):
        moment = Moment([at + 1] * 3, [1, 1, 1])
        assert not len(join.step(new, moment, lean).combinations)
        report = losses.observe_losses(sample, join, new, moment, lean, None, [0, 1], KeySample(1.0))
        counted = losses.add_lost_counts(counted, [with_losses(report)])
    assert {edge: sum(counts.missing) for edge, counts in counted.pairs.items()} == {0: 0, 1: 1}
    told = losses.estimate_missing(counted, KeySample(1.0))
    assert (told.of, told.estimate, told.found) == ("pairs", 1, 2)


def test_without_a_sample_it_is_not_known_what_is_missing_where_a_constraint_is_made_use_of():
    settings = ConstraintSettings(ConstraintUse.DECLARED, exact=False, monitoring=replace(Monitoring(), sample=0.0))
    data = made.many_children(2000, 40, seed=7)
    assert followed(data, choice_of([], settings), 700, 10**9, sampled=True).records[-1].losses is None
    wrong = EdgeConstraint(0, ConstraintKind.ARRIVING, Reach(time=0))
    lean = followed(data, choice_of([], settings, [wrong]), 700, 10**9, sampled=True)
    plain = followed(data, choice_of([], settings), 700, 10**9)
    told = lean.records[-1].losses
    assert (told.of, told.estimate, told.low) == ("results", None, 0)
    assert 0 < sum(plain.results) - sum(lean.results) <= told.high


def test_without_a_sample_nothing_is_joined_beside_the_join():
    join, sample = SynopsisJoin.empty(GRAPH, exact=False), JoinSample()
    report = losses.observe_losses(sample, join, {}, Moment([0, 0], [0, 0]), Constraints(), None, [0], KeySample(0.0))
    none = LostCounts(*((0,) * GROUPS,) * 2)
    assert losses.add_lost_counts(None, [with_losses(report)] * 2) == LossSample(pairs={0: none})
    assert (losses.estimate_missing(report.lost, KeySample(0.0)).of, sample.joins) == ("pairs", {})


@pytest.mark.parametrize("common", [True, False])
def test_a_sample_that_is_halved_stays_small_and_its_estimate_is_near(common: bool) -> None:
    """A third of the children come after their parents have gone; nothing ever ends."""
    random, steps, size = np.random.default_rng(7), 40, 500
    join, sample, counted, halvings, kept = SynopsisJoin.empty(GRAPH, exact=False), JoinSample(), None, 0, 0
    lean = Constraints(arriving={0: Bound(time=0)})
    late = random.random(steps * size) < 1 / 3
    numbers = np.arange(steps * size).reshape(steps, size)
    for step in range(steps + 1):
        came, before = (numbers[at] if 0 <= at < steps else numbers[0, :0] for at in (step, step - 1))
        children = np.concatenate([before[late[before]], came[~late[came]]])
        new = {stream: _endless(keys, step * 10) for stream, keys in enumerate((came, children)) if len(keys)}
        moment = Moment([step * 10 + 10] * 2, [0, 0])
        answer = join.step(new, moment, lean)
        found = came[answer.combinations.rows[0]]
        codes = losses.CommonKeyCodes({s: each.keys[0] for s, each in new.items()}, found) if common else None
        sample = JoinSample(sample.parts)  # as if the state had been loaded
        report = losses.observe_losses(sample, join, new, moment, lean, codes, [0], KeySample(1.0, halvings))
        counted = losses.add_lost_counts(counted, [with_losses(report)])
        kept = max(kept, report.kept)
        halvings += report.kept > 4 * size
    assert halvings > 2
    assert kept < 8 * size
    estimate = losses.estimate_missing(counted, KeySample(1.0, halvings))
    assert estimate is not None
    assert estimate.low <= late.sum() <= estimate.high
    assert estimate.high < 2 * late.sum()


def _endless(keys: np.ndarray, start: int) -> StreamArrivals:
    """Elements that start at a time and never end."""
    rows = np.arange(len(keys))
    return StreamArrivals({0: keys}, np.full(len(keys), start), np.full(len(keys), NEVER), rows + 1, rows)

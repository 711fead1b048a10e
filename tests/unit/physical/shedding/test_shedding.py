"""Joins that shed: the specification's vectors, and what it asks of small runs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from support.sets import sets_of

from benchmarks.support import shedding_data as made
from benchmarks.support import shedding_paper as paper
from benchmarks.support import shedding_runs as runs
from benchmarks.support import shedding_tuples as tuples
from benchmarks.support.shedding_bench import capacity_for_all, volumes
from benchmarks.support.shedding_data import SECOND, Workload
from benchmarks.support.shedding_runs import Way
from tidegate.physical.shedding.kernels.budget import best_first, divide_budget
from tidegate.physical.shedding.kernels.evidence import ASSUMED_DENSITY, Tally, estimate
from tidegate.physical.similarity_join.kernels.conditions import InnerProduct, Overlap, Subset
from tidegate.physical.similarity_join.kernels.join import SheddingJoin
from tidegate.physical.similarity_join.kernels.matching import Method, find_matches
from tidegate.physical.similarity_join.kernels.model import PairUtility, SimilarityJoinSettings, Utilities
from tidegate.physical.similarity_join.kernels.slots import SlotArrivals, split_into_slots

WARM = 20
LATE = Workload(0.8, seconds=100)
"""Most matches are 3/4 of a window apart."""


@pytest.mark.parametrize(
    ("given", "fraction"),
    [
        ((1.0, 2500, 1000, 5), 0.5),
        ((0.5, 5000, 1000, 5), 0.6),
        ((0.9, 5000, 1000, 5), 1.0),
        ((0.6, 4500, 1000, 5), 0.54),
    ],
)
def test_the_fraction_follows_what_is_taken_in(given, fraction):
    assert paper.rate_adapted(*given) == pytest.approx(fraction)


@pytest.mark.parametrize(
    ("fraction", "taken"),
    [
        (0.35, [(3, 35)]),
        (0.55, [(3, 40), (1, 15)]),
        (0.40, [(3, 40)]),
        (1.0, [(3, 40), (1, 20), (0, 10), (2, 30)]),
    ],
)
def test_the_best_basic_windows_are_taken_first(fraction, taken):
    assert paper.selected([10, 20, 30, 40], [3, 1, 0, 2], fraction) == taken


@pytest.mark.parametrize(
    ("fraction", "windows", "densities", "both"),
    [
        (0.3, (10, 20), (2, 1), (0.9, 0.0)),  # as printed (.9, .45): S-08
        (0.3, (10, 20), (1, 2), (0.0, 0.45)),
        (0.5, (20, 20), (2, 1), (1.0, 0.0)),
        (0.5, (20, 20), (1, 2), (0.0, 1.0)),
        (0.9, (10, 20), (2, 1), (1.0, 0.85)),
        (0.2, (20, 5), (1, 2), (0.0, 1.0)),
    ],
)
def test_the_more_productive_direction_takes_what_it_can(fraction, windows, densities, both):
    assert paper.directed(fraction, windows, densities) == pytest.approx(both)


@pytest.mark.parametrize(
    ("fraction", "fractions", "objective"),
    [
        (0.1, [[0.4, 0], [0, 0]], 0.5667),
        (0.3, [[0.7, 0], [1, 0]], 1.15),
        (0.5, [[1, 0.5], [1, 0]], 1.4333),
        (0.8, [[1, 1], [1, 0.4667]], 1.57),
        (1.0, [[1, 1], [1, 1]], 1.65),
    ],
)
def test_fractions_by_kind_are_those_of_the_corrected_algorithm(fraction, fractions, objective):
    given = ([3, 3], [2, 2], [1, 1], [[0.25, 0.75], [0.5, 0.5]], [[1, 0.2], [0.6, 0.1]], [[3, 1, 2], [1, 1, 1]])
    found = paper.utility_adapted(*given, fraction)  # with shares of the window's own stream another one: S-09
    assert np.allclose(found, fractions, atol=1e-4)
    assert paper.utility_of(*given, found) == pytest.approx(objective, abs=1e-4)


@pytest.mark.parametrize(
    ("time", "one", "other"),
    [(0, 1, 38), (1, 3, 41), (10, 26, 63), (15, 38, 76), (25, 63, 1), (39.9, 100, 38), (40, 1, 38), (50, 26, 63)],
)
def test_popular_items_wander(time, one, other):
    assert (made.most_popular(time, 0), made.most_popular(time, 25)) == (one, other)


def test_there_is_one_more_basic_window_than_fit():
    assert [paper.basic_windows(*given) for given in ((20, 1), (20, 3), (125, 5))] == [21, 8, 26]


def bell(mean, deviation):
    return lambda at: np.exp(-(((at - mean) / deviation) ** 2) / 2)


@pytest.mark.parametrize(
    ("density", "fraction", "width", "optimality"),
    [
        (np.ones_like, 1.0, 0.1, 0.95),
        (np.ones_like, 1.0, 0.5, 0.75),
        (np.ones_like, 0.5, 0.5, 1.0),
        (bell(0.75, 0.2), 0.05, 0.2, 0.902),
        (bell(0.75, 0.075), 0.05, 0.5, 0.191),
    ],
)
def test_wide_basic_windows_miss_the_peak(density, fraction, width, optimality):
    assert paper.optimality(density, fraction, width) == pytest.approx(optimality, abs=0.002)


def elements(values):
    count = len(values)
    return split_into_slots(SlotArrivals(np.arange(count), np.arange(count) + 100, np.arange(count), values), 1000)[0]


@pytest.mark.parametrize("method", list(Method))
def test_sets_match_as_in_the_specification(method):
    a, b = elements(sets_of([[1, 2, 3, 4, 5]])), elements(sets_of([[3, 4, 5, 9]]))
    one, two = (
        elements(sets_of([{1: 0.5, 2: 0.5}])),
        elements(sets_of([{2: 1.0, 7: 1.0}])),
    )
    only = np.zeros(1, np.int64)

    def found(condition, left, right):
        return len(find_matches(condition, method, left, only, right, flipped=False).pairs)

    assert (found(Overlap(3), a, b), found(Overlap(4), a, b), found(Subset(), a, b)) == (1, 0, 0)
    assert (found(InnerProduct(0.5), one, two), found(InnerProduct(0.51), one, two)) == (1, 0)


def test_a_pair_is_worth_its_better_element_or_the_mean_of_both():
    worth = np.array([1.0, 1 / 3])
    left, right = np.array([0, 1]), np.array([1, 1])
    assert Utilities(worth, worth).of_pairs(left, right).tolist() == [1.0, 1 / 3]
    assert Utilities(worth, worth, PairUtility.AVERAGE).of_pairs(left, right).tolist() == pytest.approx([2 / 3, 1 / 3])


@pytest.mark.parametrize(("skew", "least_gain"), [(0.6, 2.4), (0.8, 4.5)])
def test_a_late_peak_is_found(skew, least_gain):
    load, way = replace(LATE, skew=skew), Way()
    all_of_it = runs.full(load, way)
    budgets = 0.05 * all_of_it.volume
    ours, best = runs.shed(load, way, budgets), runs.knowing(load, way, budgets)
    share = ours.share_of(all_of_it, WARM)
    assert share >= least_gain * 0.05
    assert share >= 0.93 * best.share_of(all_of_it, WARM)
    assert ours.units.sum() <= 1.02 * budgets.sum()
    assert abs(ours.estimated[60:].mean() - ours.share_of(all_of_it, 60)) < 0.03
    ours_known = Tally.total(ours.tallies[60:])
    chosen = ours_known.comparisons_by_lag > 0.2 * all_of_it.volume[60:].sum() / len(ours_known.comparisons_by_lag)
    truth = Tally.total(all_of_it.tallies[60:])
    density = truth.matches[chosen] / truth.comparisons_by_lag[chosen]
    off = ours_known.matches[chosen] - density * ours_known.comparisons_by_lag[chosen]
    assert chosen.any()
    assert np.all(
        np.abs(off) <= 4 * np.sqrt(density * ours_known.comparisons_by_lag[chosen])
    )  # neighbours share elements


def test_nothing_is_lost_where_the_newest_are_the_best():
    load = Workload(0.8, 0.0, seconds=100)
    all_of_it = runs.full(load, Way())
    ours = runs.shed(load, Way(), 0.05 * all_of_it.volume)
    newest = tuples.run(load, 0.05 * 2 * 200 * 200 * 20, tuples.RATE).matches[60:100].sum()
    assert ours.found[60:].sum() >= 0.9 * newest


def test_where_all_lags_are_alike_it_is_as_good_as_dropping():
    load = Workload(0.0, seconds=80)
    all_of_it = runs.full(load, Way(Overlap(2)))
    share = runs.shed(load, Way(Overlap(2)), 0.1 * all_of_it.volume).share_of(all_of_it, WARM)
    assert share == pytest.approx(0.1, rel=0.05)


def test_a_change_of_the_better_direction_is_followed():
    load = replace(LATE, swap=80.0, seconds=130)
    all_of_it = runs.full(load, Way())
    budgets = 0.05 * all_of_it.volume
    ours, best = runs.shed(load, Way(), budgets), runs.knowing(load, Way(), budgets, since=101)
    assert ours.found[110:].sum() >= 0.9 * best.found[110:].sum()


@pytest.mark.parametrize(
    ("frequencies", "least", "most"), [((1.0, 4.0, 9.0), 1.1, 2.0), ((9.0, 2.25, 1.0), 0.97, 1.06)]
)
def test_rare_and_useful_elements_are_preferred(frequencies, least, most):
    load = replace(LATE, frequencies=frequencies)
    way = Way(utilities=(1.0, 1 / 4, 1 / 9))
    budgets = 0.05 * volumes(load, replace(way, blind=True))
    aware, blind = (runs.shed(load, replace(way, blind=each), budgets) for each in (False, True))
    assert least <= aware.utility[WARM:].sum() / blind.utility[WARM:].sum() <= most


def test_the_papers_direction_does_not_flip_all_the_time():
    trace = tuples.run(replace(LATE, seconds=200), 0.15 * 2 * 200 * 200 * 20, tuples.DIRECTION)
    better = trace.fractions[8:, 1] > trace.fractions[8:, 2]
    assert np.count_nonzero(better[1:] != better[:-1]) <= len(better) / 4  # S-04: at every step
    assert trace.matches[60:].sum() > 3 * tuples.run(LATE, 0.05 * 1.6e6, tuples.DROP).matches[60:].sum()  # S-02


@pytest.mark.parametrize(("skew", "adapts", "share"), [(0.6, tuples.DIRECTION, 0.090), (0.8, tuples.DIRECTION, 0.221)])
def test_the_papers_algorithms_reach_what_they_should(skew, adapts, share):
    found = [_printed(replace(LATE, skew=skew, seconds=160, seed=seed), adapts) for seed in range(1, 9)]
    assert np.mean(found) == pytest.approx(share, abs=0.02)


def _printed(load, adapts):
    whole, printed = (
        tuples.run(load, part * capacity_for_all(load), how) for part, how in ((np.inf, 0), (0.05, adapts))
    )
    return printed.matches[60:].sum() / whole.matches[60:].sum()


def test_dropping_input_yields_the_share_of_comparisons():
    all_of_it = runs.full(LATE, Way())
    dropped = runs.dropped(LATE, Way(), 0.05)
    assert dropped.share_of(all_of_it, WARM) == pytest.approx(0.05, abs=0.01)
    assert dropped.units.sum() == pytest.approx(0.05 * all_of_it.units.sum(), rel=0.1)


def test_nothing_at_all_is_no_problem():
    nothing = np.empty(0, np.int64)
    none = SlotArrivals(nothing, nothing, nothing, sets_of([]))
    some = SlotArrivals(np.array([5]), np.array([50]), np.array([0]), sets_of([[1]]))
    join = SheddingJoin.empty(SimilarityJoinSettings(Overlap(1), 10, 3))
    for arrivals in ((none, none), (some, none), (none, some), (none, none)):
        join, answer = join.step(arrivals, (0, 0), 0)
        assert not len(answer.left)
        assert 0.0 <= answer.results_share <= 1.0
    assert answer.compared_share == 1.0
    assert SheddingJoin.from_columns(join.to_columns(), join.settings).batch == 4


def test_slots_leave_when_nothing_can_meet_them_any_more():
    some = SlotArrivals(np.array([5, 25]), np.array([15, 35]), np.array([0, 1]), sets_of([[1], [1]]))
    nothing = np.empty(0, np.int64)
    none = SlotArrivals(nothing, nothing, nothing, sets_of([]))
    join, _ = SheddingJoin.empty(SimilarityJoinSettings(Overlap(1), 10, 3)).step((some, none), (30, 15))
    assert list(join.slots[0]) == [2]


def test_without_evidence_the_newest_are_taken_first():
    known = estimate(Tally.empty(3, 1), np.ones((2, 1)), prior=1.0, pool=1000.0)
    assert known.density.tolist() == [ASSUMED_DENSITY] * 7
    lag = np.arange(-3, 4)
    planned = divide_budget(known.density, np.full(7, 10.0), lag, 30.0, 0.1)
    assert planned.chosen.tolist() == pytest.approx([0, 0, 1.0, 1.0, 0.7, 0, 0])
    assert (planned.explored * 10).sum() == pytest.approx(3.0)


def test_sums_in_another_order_do_not_change_who_is_the_best():
    value = np.array([0.7, 0.58333333333333326, 0.58333333333333337, 0.58333333333333348])
    assert best_first(value, np.array([5, 1, 2, 3])).tolist() == [0, 1, 2, 3]
    assert best_first(np.array([0.583, 0.584]), np.array([1, 2])).tolist() == [1, 0]


def test_what_is_known_in_several_places_adds_up():
    one, two = Tally.empty(1, 1), Tally.empty(1, 1)
    one.matches[0] = two.matches[0] = 2.0
    assert Tally.total([one, two]).matches.tolist() == [4.0, 0.0, 0.0]
    assert math.isclose(Tally.total([one, two]).with_decay(0.5).matches[0], 2.0)


def counted(matches, made, reach=3):
    """So many matches in so many comparisons, at each lag."""
    lags = 2 * reach + 1
    by_kind = [
        np.broadcast_to(np.array(each, float), lags).reshape(lags, 1, 1) * [[[1.0], [0.0]]] for each in (matches, made)
    ]
    return replace(
        Tally.empty(reach, 1),
        matches=by_kind[0][:, 0, 0],
        utility=by_kind[0],
        units=by_kind[1][:, 0, 0],
        made=by_kind[1],
    )


def learnt(tally, matches, made, batches):
    for _ in range(batches):
        tally = tally.with_newer(counted(matches, made)).with_decay(0.97)
    return tally


def test_little_evidence_is_enough_where_a_lag_has_become_productive():
    long, soon = learnt(Tally.empty(3, 1), 0.01, 100.0, 200), 0
    while (long.matches / long.comparisons_by_lag)[3] < 0.004:
        long, soon = learnt(long, [0, 0, 0.8, 0.8, 0.8, 0, 0], 100.0, 1), soon + 1
    assert soon <= 5
    assert (long.matches / long.comparisons_by_lag)[0] < 0.001
    assert np.all(long.utility <= long.matches[:, None, None] + 1e-9)


def test_what_has_not_changed_is_not_forgotten():
    steady = learnt(Tally.empty(3, 1), 2.0, 100.0, 200)
    assert steady.comparisons_by_lag == pytest.approx(np.full(7, 100 * 0.97 / 0.03), rel=0.01)
    somewhat = learnt(steady, 3.0, 100.0, 5)
    assert somewhat.comparisons_by_lag == pytest.approx(np.full(7, 100 * 0.97 / 0.03), rel=0.01)
    ended = learnt(steady, 0.0, 100.0, 10)
    assert np.all(ended.matches < 0.007 * ended.comparisons_by_lag)
    assert np.all(ended.comparisons_by_lag < 1000)


def test_times_of_the_generator_follow_its_rates():
    left, right = made.streams(Workload(0.8, rates=made.BURST, seconds=120))
    counts = np.bincount(left.start // SECOND, minlength=120)
    assert [round(counts[a:b].mean(), -2) for a, b in ((0, 60), (60, 75), (75, 105), (105, 120))] == [
        100,
        500,
        300,
        100,
    ]
    assert np.all(np.diff(right.start) >= 0)

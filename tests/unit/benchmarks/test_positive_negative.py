"""Positive and negative elements say the same as intervals, and as Tidegate."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from benchmarks.baselines import intervals as tia
from benchmarks.baselines import positive_negative as pna
from benchmarks.positive_negative import are_converted, compare
from benchmarks.support.positive_negative_runs import EXPERIMENTS, count_window_delays, make_auction

RAW = st.lists(st.tuples(st.tuples(st.integers(0, 2)), st.integers(0, 12)), max_size=12).map(
    lambda rows: sorted(rows, key=lambda each: each[1])
)
INTERVALS = st.lists(
    st.builds(
        lambda row, start, length: ((row,), start, start + length),
        st.integers(0, 2),
        st.integers(0, 9),
        st.integers(1, 5),
    ),
    max_size=10,
).map(lambda rows: sorted(rows, key=lambda each: each[1]))


@given(INTERVALS)
@settings(max_examples=examples(60))
def test_converters_keep_the_relation_and_the_order_of_time(given_intervals):
    signed = list(pna.to_signed(given_intervals))
    assert [time for _, time, _ in signed] == sorted(time for _, time, _ in signed)
    assert pna.net_edges(signed) == pna.net_edges(tia.edges_of(given_intervals))
    back = list(pna.to_intervals(signed))
    assert [start for _, start, _ in back] == sorted(start for _, start, _ in back)
    assert pna.net_edges(tia.edges_of(back)) == pna.net_edges(signed)


@given(RAW, RAW, st.integers(1, 5), st.integers(1, 5))
@settings(max_examples=examples(60))
def test_operators_of_both_kinds_give_the_same(left, right, one, other):
    def windows():
        return (
            (pna.window_by_time(left, one, []), pna.window_by_time(right, other, [])),
            (tia.window_by_time(left, one), tia.window_by_time(right, other)),
        )

    def key(row):
        return row[0]

    def same(a, b):
        return a == b

    pairs: list[tuple[Any, Any]] = [
        (lambda w: pna.hash_join(w[0], w[1], (key, key), []), lambda w: tia.hash_join(w[0], w[1], (key, key), [])),
        (lambda w: pna.nested_loops_join(w[0], w[1], same, []), lambda w: tia.nested_loops_join(w[0], w[1], same, [])),
        (lambda w: pna.running_max(w[0], []), lambda w: tia.running_max(w[0], [])),
        (lambda w: pna.recomputed_max(w[0], []), lambda w: tia.coalesce(tia.running_max(w[0], []))),
    ]
    for signed, interval in pairs:
        of_signed, of_intervals = windows()
        assert pna.net_edges(signed(of_signed)) == pna.net_edges(tia.edges_of(interval(of_intervals)))
    # Rows that no later row replaces have no end yet: the interval operator does not give them at all.
    ended = pna.to_intervals(pna.window_by_count(left, one, []))
    assert sorted(ended) == sorted(tia.window_by_count(left, one, []))


def test_no_result_comes_before_time_has_gone_on():
    """Example 14.1: of a 7 that is replaced by a 2 at the same instant, no alarm may be raised."""
    found = list(pna.running_max([((2,), 0, 1), ((7,), 5, 1), ((7,), 5, -1), ((3,), 6, 1)], []))
    assert found == [((2,), 0, 1), ((2,), 6, -1), ((3,), 6, 1)]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.name)
def test_a_query_gives_the_same_in_all_three(experiment):
    found = compare(experiment, make_auction(400), repeats=1)
    assert found.is_equal
    assert found.interval.average <= found.signed.average


def test_intervals_of_a_count_window_come_when_they_end():
    delays = count_window_delays(100)
    assert set(delays["positive-negative"]) == {0.0}
    assert set(delays["interval"]) == {2.0}
    assert are_converted(make_auction(500))

"""Rows in runs: what rules of merging keep and rewrite."""

from __future__ import annotations

import pytest

from tidegate.costs.runs import LONGEST, MergeRule, shares_of_runs

NEVER = MergeRule(lambda _: 0, counts_all=False)
ALWAYS = MergeRule(len, counts_all=True)


@pytest.mark.parametrize("steps", [0.25, 0.5, 1.0])
def test_rows_of_the_last_step_are_kept_as_needed(steps):
    assert shares_of_runs(NEVER, steps).kept == pytest.approx(1.0)


def test_a_run_that_is_never_merged_stays_until_its_last_row_goes():
    # Of ten runs, the oldest is half over on average at no time but the ends of steps, when it is whole.
    found = shares_of_runs(NEVER, 16.0)
    assert found.kept == pytest.approx(1.0)
    assert found.merged == 0.0
    assert found.runs == pytest.approx(16.0)


def test_rows_between_steps_stay_for_the_rest_of_a_step():
    # After 1.41 steps, rows are needed for 1.41 steps, and the older of two runs is there as a whole.
    assert shares_of_runs(NEVER, 2.0**0.5).kept == pytest.approx(2.0 / 2.0**0.5)


def test_one_run_is_rewritten_at_each_step():
    found = shares_of_runs(ALWAYS, 16.0)
    assert (found.kept, found.runs) == pytest.approx((1.0, 1.0))
    assert found.merged == pytest.approx(16.0)


def test_a_run_of_a_side_is_whole_even_if_most_of_it_is_over():
    late = MergeRule(lambda _: 0, counts_all=True)
    assert shares_of_runs(late, 0.25).kept == pytest.approx(4.0)
    assert shares_of_runs(late, 0.025).kept == pytest.approx(40.0)


def test_long_lives_are_alike():
    assert shares_of_runs(ALWAYS, 4 * LONGEST) == shares_of_runs(ALWAYS, LONGEST)


def test_nothing_is_kept_for_no_time():
    assert shares_of_runs(NEVER, 0.0).kept > 0


def test_runs_of_rows_with_spread_lives_stay_until_the_longest_ends():
    late = MergeRule(lambda _: 0, counts_all=True)
    assert shares_of_runs(late, 16.0, 1.0).runs == pytest.approx(32.0, abs=1.0)
    assert shares_of_runs(late, 16.0, 1.0).kept == pytest.approx(2.0, rel=0.05)
    assert shares_of_runs(ALWAYS, 16.0, 1.0).kept == pytest.approx(1.0)

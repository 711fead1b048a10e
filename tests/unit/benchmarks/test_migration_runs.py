"""What chapter 30 says of the strategies, on a small load; nothing here depends on a clock."""

from __future__ import annotations

import pytest

from benchmarks.support.migration_boxes import Load
from benchmarks.support.migration_pictures import rates
from benchmarks.support.migration_runs import MigrationRun, run_strategy

LOAD = Load(elements=1_200, rate=100, window=3, begin=4)
END = LOAD.begin + LOAD.window


@pytest.fixture(name="runs", scope="module")
def _runs() -> dict[str, MigrationRun]:
    return {name: run_strategy(name, LOAD) for name in ("genmig", "parallel_track", "moving_states", "unmoved")}


def rows_of(run: MigrationRun, begin: int, end: int) -> list[float]:
    """Return the rows released in each second after `begin`, up to `end`."""
    return [rows for second, rows in zip(*rates(run), strict=True) if begin < second <= end]


def test_all_strategies_give_the_results_of_the_plan_that_is_not_moved(runs):
    assert runs["unmoved"].results.num_rows > 100
    for run in runs.values():
        assert run.results.equals(runs["unmoved"].results), run.name


def test_genmig_takes_one_window_and_parallel_track_two(runs):
    ended = {name: run.ended for name, run in runs.items()}
    assert ended == {"genmig": 7, "parallel_track": 10, "moving_states": 4, "unmoved": None}


def test_parallel_track_is_silent_for_a_window_and_then_bursts(runs):
    track, unmoved = runs["parallel_track"], runs["unmoved"]
    silent = track.during(END + LOAD.step / 2, END + LOAD.window - LOAD.step / 2)
    assert sum(step.rows for step in silent) == 0
    (burst,) = track.during(END + LOAD.window, END + LOAD.window)
    assert burst.rows > 3 * max(step.rows for step in unmoved.steps)


def test_genmig_goes_on_as_the_plan_that_is_not_moved(runs):
    ours, unmoved = (rows_of(runs[name], LOAD.begin, LOAD.seconds) for name in ("genmig", "unmoved"))
    # A result that is valid at the split comes in two parts.
    assert all(theirs <= own <= 2 * theirs for own, theirs in zip(ours, unmoved, strict=True))
    assert ours[LOAD.window :] == unmoved[LOAD.window :]


def test_genmig_keeps_less_than_parallel_track(runs):
    assert runs["genmig"].peak_kept < runs["parallel_track"].peak_kept

"""Migration of a running plan: GenMig, parallel track and moving states, as in chapter 30 of the dissertation on PIPES.

A join of four streams (5,000 elements each, 100 a second; values up to 500, 500, 1,000 and 1,000; windows of ten
seconds) is moved from ((A ⋈ B) ⋈ C) ⋈ D to A ⋈ (B ⋈ (C ⋈ D)) after 20 seconds. All strategies run on the same engine,
over the same elements, in the same steps of a tenth of a second. `out/migration` gets the table and the pictures:
output rate, memory and CPU over the time of the streams.

`equal`: all strategies give the results of the plan that is not moved, and so does ALTER QUERY in a live session; and
the counterexamples fail where they must: parallel track in Example 28.1 and for counts, the reference point for counts.

`genmig_memory_vs_parallel_track` compares the largest state and buffers during the migration. That takes parallel
track two windows, because it purges results between joins a window after their newest part;
`…_peak_kb_within_a_window` is the peak in the first window.
`genmig_duration_in_windows` is how long both plans run, `moving_states_pause_ms` how long nothing runs while states
move, and `longest_step_during_migration` the CPU time of GenMig's longest step in units of its median step. `live_…`
are of ALTER QUERY, with wall-clock time; it moves states, because only the order of joins changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.baselines.migration import (
    COUNTS,
    DISTINCT_JOIN,
    JOINED,
    Counterexample,
    StrategyFunction,
    Time,
    genmig,
    parallel_track,
    reference_point,
    wrong_instants,
)
from benchmarks.support.migration_boxes import CHAPTER_30, Load
from benchmarks.support.migration_live import migrate_live
from benchmarks.support.migration_pictures import publish, rates
from benchmarks.support.migration_runs import MigrationRun, run_all
from benchmarks.support.report import Report, main, say

QUICK = Load(2_000, 100, 4, 8)
_INSTANTS = range(200)


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    load = QUICK if quick else CHAPTER_30
    runs = run_all(load)
    publish(runs)
    say("strategies done")
    live = migrate_live(load)
    right = runs["unmoved"].results
    counterexamples = wrong_counts()
    are_shown = counterexamples == EXPECTED_WRONG
    found = [*(run.results for run in runs.values()), live.results.rename_columns(right.column_names)]
    equal = all(each.equals(right) for each in found)
    ours, track, moved = runs["genmig"], runs["parallel_track"], runs["moving_states"]
    assert ours.ended is not None
    ratios = {
        "genmig_memory_vs_parallel_track": ours.peak_kept / track.peak_kept,
        "genmig_duration_in_windows": (ours.ended - load.begin) / load.window,
        "moving_states_pause_ms": 1_000 * moved.pause,
        "longest_step_during_migration": max(step.cpu for step in ours.migration) / ours.median_step,
        "live_duration_in_windows": live.windows,
        "live_longest_step_during_migration": live.longest_step,
    }
    figures = {
        "live_alter_ms": live.alter_ms,
        **_figures(runs),
        **{f"wrong_{k}": v for k, v in counterexamples.items()},
    }
    return Report("migration", equal and are_shown, ratios, figures)


def _figures(runs: Mapping[str, MigrationRun]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, run in runs.items():
        begin, window = run.load.begin, run.load.window
        after = [rows for at, rows in zip(*rates(run), strict=True) if begin < at <= begin + 2 * window]
        figures[f"{name}_cpu_seconds"] = sum(step.cpu for step in run.steps)
        early = run.during(begin, begin + window - run.load.step / 2)
        figures[f"{name}_peak_kb_within_a_window"] = max(step.kept for step in early) / 1_000
        figures[f"{name}_least_rate"] = min(after)
        figures[f"{name}_largest_rate"] = max(after)
        if run.ended is not None and run.ended > begin:
            figures[f"{name}_peak_kb"] = run.peak_kept / 1_000
            figures[f"{name}_ended_at"] = run.ended
    return figures


EXPECTED_WRONG = {
    "parallel_track_distinct": 51,
    "parallel_track_count": 5,
    "parallel_track_join": 0,
    "reference_point_count": 3,
    "reference_point_join": 0,
    "genmig_distinct": 0,
    "genmig_count": 0,
    "genmig_join": 0,
}
"""Number of instants at which the answer is wrong, by strategy and counterexample."""


def wrong_counts() -> dict[str, int]:
    """Return at how many instants each strategy is wrong."""
    examples = {"distinct": DISTINCT_JOIN, "count": COUNTS, "join": JOINED}
    found = {f"parallel_track_{name}": _wrong(each, parallel_track, each.begin) for name, each in examples.items()}
    found |= {
        f"reference_point_{name}": _wrong(each, reference_point, each.split)
        for name, each in examples.items()
        if name != "distinct"
    }
    return found | {f"genmig_{name}": _wrong(each, genmig, each.split) for name, each in examples.items()}


def _wrong(example: Counterexample, strategy: StrategyFunction, at: Time) -> int:
    found = strategy(example.old_box, example.new_box, example.inputs, at)
    return len(wrong_instants(found, example.answer(), _INSTANTS))


if __name__ == "__main__":
    main(measure, __doc__ or "")

"""Rows in the sorted runs of a state: the rows that are needed, and those that a run still has although they are over.

New rows become a run at each step, and runs are merged by size. Rows that are over leave with their run or with a
merge. How many of them there are is a property of the rule of merging and of how many steps a row is needed for. It is
found by running the rule on runs of even density, of which only the extents count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import floor, log2

from tidegate.values import value

LONGEST = 512.0
"""Number of steps above which shares hardly change any more."""

SHORTEST = 0.25
"""Number of steps below which a row is in the run of its step alone."""

ENDLESS = 1e9
"""Number of steps above which rows are those of a table: they come at once, and none leaves."""

SPREADS = 4
"""Number of parts by which spreads of lives are distinguished."""


@value
class MergeRule:
    """Rule of merging: how many of the newest runs of these sizes to merge, or 0.

    With `counts_all`, a run is as large as all of its rows, else as those that are still needed.
    """

    count_to_merge: Callable[[Sequence[float]], int]
    counts_all: bool


@value
class RunShares:
    """Average figures of runs, in a steady state."""

    kept: float
    """Rows kept for each row that is needed."""
    merged: float
    """Rows rewritten for each new row."""
    runs: float
    """Number of runs."""


def shares_of_runs(rule: MergeRule, steps: float, spread: float = 0.0) -> RunShares:
    """Return the figures of runs whose rows are needed for a number of steps on average.

    Lives of rows are evenly spread from `1 - spread` to `1 + spread` times the average.
    """
    if steps > ENDLESS:
        return RunShares(1.0, 0.0, 1.0)
    part = round(SPREADS * min(max(spread, 0.0), 1.0)) / SPREADS
    if steps < SHORTEST:
        shortest = _simulate(rule, SHORTEST, part)
        kept = shortest.kept * SHORTEST / steps if rule.counts_all and steps > 0 else shortest.kept
        return RunShares(kept, 0.0, shortest.runs)
    exponent = 2.0 * log2(min(steps, LONGEST))
    low = floor(exponent)
    share = exponent - low
    below, above = (_simulate(rule, 2.0 ** (each / 2.0), part) for each in (low, low + 1))
    return RunShares(
        below.kept + share * (above.kept - below.kept),
        below.merged + share * (above.merged - below.merged),
        below.runs + share * (above.runs - below.runs),
    )


@value
class _Run:
    """Rows that arrived in [first, last), of which those that were over at some time have left."""

    first: float
    last: float
    purged: float


@lru_cache(maxsize=1024)
def _simulate(rule: MergeRule, steps: float, spread: float) -> RunShares:
    """Run the rule until rows of several whole lives have gone."""
    longest = steps * (1.0 + spread)
    warm, whole = int(2 * longest) + 4, int(5 * longest) + 64

    def count_at(run: _Run, time: float) -> float:
        """Return the rows of a run that are not over at a time."""
        return _count_living(time - run.first, steps, spread) - _count_living(time - run.last, steps, spread)

    runs: list[_Run] = []
    kept = needed = merged = counted = 0.0
    for now in range(1, whole + 1):
        time = float(now)
        runs = [run for run in runs if run.last + longest > time]
        # A run of a side has all rows of its step; in a schedule, only those wait that are not over yet.
        runs.append(_Run(time - 1.0, time, time - 1.0 if rule.counts_all else time))
        sizes = [count_at(run, run.purged if rule.counts_all else time) for run in runs]
        newest = rule.count_to_merge(sizes)
        if newest:
            runs[-newest:] = [_Run(runs[-newest].first, time, time)]
            merged += count_at(runs[-1], time) if now > warm else 0.0
        if now > warm:
            kept += sum(count_at(run, run.purged) for run in runs)
            needed += sum(count_at(run, time) for run in runs)
            counted += len(runs)
    rounds = whole - warm
    return RunShares(kept / needed, merged / rounds, counted / rounds)


def _count_living(age: float, steps: float, spread: float) -> float:
    """Return the rows that are not over of those that have come one by one, each at once, since an age ago."""
    if age <= 0.0:
        return age
    low, high = steps * (1.0 - spread), steps * (1.0 + spread)
    if age <= low:
        return age
    if age >= high:
        return steps
    return age - (age - low) ** 2 / (2.0 * (high - low))

"""How cost grows: with keys, with buckets and with rows, embedded, on the alert of the benchmark of rivals.

Cost per row should not depend on the number of keys or buckets, and a run of 100 million rows should need no more
memory than one of ten million. Draws `out/scale/growth.png`. --quick takes about a minute.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.contestants.growth import Growth, Sample, Work
from benchmarks.support.report import Report, main, say
from benchmarks.support.scale_data import write_readings
from benchmarks.support.scale_pictures import draw_growth

KEYS = (1, 10, 100, 1_000, 10_000)
BUCKETS = (1, 2, 8, 64)
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Scale:
    """Rows of a run in which keys or buckets vary, and of the run that grows."""

    rows: int
    growth: int


FULL, QUICK = Scale(2_000_000, 100_000_000), Scale(500_000, 5_000_000)


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    scale = QUICK if quick else FULL
    by_keys = vary(KEYS, lambda keys: Work(rows=scale.rows, keys=keys))
    by_buckets = vary(BUCKETS, lambda buckets: Work(rows=scale.rows, buckets=buckets))
    growth = run_work(Work(rows=scale.growth))
    picture = draw_growth(growth.samples)
    say(as_table(growth.samples))
    say(f"drawn in {picture}")
    return Report(
        "scale",
        all(each.expected == each.found for each in (*by_keys.values(), *by_buckets.values(), growth)),
        {
            "cost_of_keys": spread(by_keys),
            "cost_of_buckets": spread(by_buckets),
            "memory_end_vs_tenth": growth.samples[-1].memory / sample_at(growth.samples, 0.1).memory,
            "rate_end_vs_tenth": rate_between(growth.samples, 0.9, 1.0) / rate_between(growth.samples, 0.1, 0.2),
        },
        {
            **{f"keys_{keys}_rows_per_s": each.rate for keys, each in by_keys.items()},
            **{f"buckets_{buckets}_rows_per_s": each.rate for buckets, each in by_buckets.items()},
            "growth_rows": scale.growth,
            "growth_rows_per_s": growth.rate,
            "growth_memory_mb": growth.samples[-1].memory / 1e6,
        },
    )


def vary(values: Sequence[int], work_of: Callable[[int], Work]) -> dict[int, Growth]:
    """Run the work of each value in turns, and return the fastest run of each: the load of a machine varies."""
    best: dict[int, Growth] = {}
    for _ in range(ROUNDS):
        for each in values:
            run = run_work(work_of(each))
            if each not in best or run.rate > best[each].rate:
                best[each] = run
    return best


def run_work(work: Work) -> Growth:
    """Write the readings, and run the alert over them in a process of its own."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    try:
        expected = write_readings(folder, rows=work.rows, keys=work.keys)
        command = [sys.executable, "-P", "-m", "benchmarks.contestants.growth", str(folder), json.dumps(work._asdict())]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        growth = Growth.from_json(done.stdout.splitlines()[-1], expected)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    say(f"{work.rows:>12,} rows {work.keys:>7,} keys {work.buckets:>3} buckets {growth.rate:>12,.0f} rows/s")
    return growth


def spread(runs: Mapping[int, Growth]) -> float:
    """Return how many times as much a row costs in the slowest of the runs as in the fastest."""
    rates = [each.rate for each in runs.values()]
    return max(rates) / min(rates)


def sample_at(samples: Sequence[Sample], share: float) -> Sample:
    """Return the first sample after a share of the rows."""
    return next(each for each in samples if each.rows >= share * samples[-1].rows)


def rate_between(samples: Sequence[Sample], begin: float, end: float) -> float:
    """Return the rows per second between two shares of the rows; a fast run has few samples, so between these, too."""
    rows, seconds = [0, *(each.rows for each in samples)], [0.0, *(each.seconds for each in samples)]
    first, last = np.interp([begin * rows[-1], end * rows[-1]], rows, seconds)
    return (end - begin) * rows[-1] / float(last - first)


def as_table(samples: Sequence[Sample]) -> str:
    shown = [sample_at(samples, tenth / 10) for tenth in range(1, 11)]
    lines = [f"{'rows':>14}{'seconds':>10}{'rows/s':>14}{'memory, MB':>12}{'state, MB':>11}"]
    lines += [
        f"{s.rows:>14,}{s.seconds:>10.1f}{s.rows / s.seconds:>14,.0f}{s.memory / 1e6:>12,.0f}{s.state / 1e6:>11,.1f}"
        for s in shown
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main(measure, __doc__)

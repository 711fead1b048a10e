"""Live queries: many of few shapes, queries that come and go while rows flow, and what metadata cost.

(a) Processor time per row with 1,000 queries of ten shapes, compared with ten queries.
(b) Registering and dropping 500 queries while rows arrive at a steady rate: how long a statement takes, the longest
time between two steps in steps of median length, and whether a query that stays has the results that it has alone.
(c) Processor time of a step with figures, compared with one without; and with a reader of all metadata after each step.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.support.live_runs import Changes, measure_changes, measure_cost, measure_metadata
from benchmarks.support.report import Report, main, say
from tidegate.session import RuntimeName

RATES: Mapping[RuntimeName, int] = {"embedded": 50_000, "spark": 20_000}
"""Rows per second while queries come and go."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a run: files and rounds that are measured, and queries that come and go."""

    files: int
    rounds: int
    changes: int


FULL, QUICK = Size(files=12, rounds=60, changes=500), Size(files=4, rounds=20, changes=60)


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    size = QUICK if quick else FULL
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    try:
        cost = {queries: measure_cost(folder, queries, size.files, warm=5) for queries in (10, 1_000)}
        metadata = measure_metadata(folder, 100, size.rounds)
        changes = {name: _measure_changes(folder, name, rate, size.changes) for name, rate in RATES.items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report(cost, metadata, changes)


def _measure_changes(folder: Path, runtime: RuntimeName, rate: int, queries: int) -> Changes:
    say(f"{runtime}, {rate:,} rows/s:")
    found = measure_changes(folder / str(runtime), runtime, rate, queries)
    p50, p99 = np.percentile(found.registered, [50, 99])
    say(f"          registered {queries} queries: p50 {p50:,.1f} ms, p99 {p99:,.1f} ms; {found.rows_per_s:,.0f} rows/s")
    say(f"          median step {found.median_step * 1000:,.1f} ms, longest gap {found.longest_gap:,.2f} steps")
    return found


def report(cost: Mapping[int, float], metadata: Mapping[str, float], changes: Mapping[RuntimeName, Changes]) -> Report:
    ratios = {
        "cost_1000_vs_10": cost[1_000] / cost[10],
        "metadata_overhead": metadata["on"] / metadata["off"],
        "metadata_overhead_subscribed": metadata["subscribed"] / metadata["off"],
    }
    figures = {f"cost_us_per_row_{queries}": seconds * 1e6 for queries, seconds in cost.items()}
    for name, each in changes.items():
        for what, times in (("register", each.registered), ("drop", each.dropped)):
            p50, p99 = np.percentile(times, [50, 99])
            figures[f"{what}_p50_ms_{name}"], figures[f"{what}_p99_ms_{name}"] = float(p50), float(p99)
        figures[f"longest_gap_steps_{name}"] = each.longest_gap
        figures[f"median_step_ms_{name}"] = each.median_step * 1000
        figures[f"rows_per_s_{name}"] = each.rows_per_s
    # The slower runtime decides.
    for key in ("register_p50_ms", "register_p99_ms", "longest_gap_steps"):
        figures[key] = max(figures[f"{key}_{name}"] for name in changes)
    return Report("live", all(each.right for each in changes.values()), ratios, figures)


if __name__ == "__main__":
    main(measure, __doc__)

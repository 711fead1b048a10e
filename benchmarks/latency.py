"""End-to-end latency at steady rates, on both runtimes, beside the least that a Spark job takes.

A process appends rows of two streams to files as they are due. An alert raises an alarm for about one row in fifty.
The latency of an alarm is the time from when the last of its rows was due to when `on_rows` has it. The floor is an
empty job of one task on the same session, before and after each run. What it takes with Spark's own settings, in a
process of its own, is the bare floor.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.contestants.bare_jobs import run_jobs
from benchmarks.support.latency_run import Latency, Load, measure_latency
from benchmarks.support.report import Report, main, say
from tidegate.runtime.spark.session import start_spark
from tidegate.session import Session

ROOT = Path(__file__).resolve().parents[1]
JUDGED = 20_000
"""Rows per second of the keys that have a bar."""
JOBS = 100
"""Empty jobs before and after a run."""

FULL = [Load(rate, seconds=30, skipped=10) for rate in (2_000, 20_000, 100_000)]
QUICK = [Load(JUDGED, seconds=14, skipped=6)]


@dataclass(frozen=True, slots=True)
class Floor:
    """What an empty job takes, in milliseconds."""

    p50: float
    p99: float


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    loads = QUICK if quick else FULL
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    try:
        say("embedded")
        embedded = {load.rows_per_s: _embedded(folder, load) for load in loads}
        say("on Spark")
        spark, floors = _on_spark(folder, loads)
        bare = _measure_bare_floor()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report(embedded, spark, floors, bare)


def _embedded(folder: Path, load: Load) -> Latency:
    with Session(runtime="embedded") as session:
        return measure_latency(session, folder / f"embedded-{load.rows_per_s}", load)


def _on_spark(folder: Path, loads: Sequence[Load]) -> tuple[dict[int, Latency], dict[int, Floor]]:
    latencies, floors = {}, {}
    spark = start_spark("local[2]", name="benchmark")
    for load in loads:
        list(run_jobs(spark, JOBS))  # warms up
        before = list(run_jobs(spark, JOBS))
        with Session(spark=spark) as session:
            latencies[load.rows_per_s] = measure_latency(session, folder / f"spark-{load.rows_per_s}", load)
        p50, p99 = np.percentile([*before, *run_jobs(spark, JOBS)], [50, 99])
        floors[load.rows_per_s] = Floor(float(p50), float(p99))
        say(f"          the floor: p50 {p50:,.1f} ms, p99 {p99:,.1f} ms")
    spark.stop()
    return latencies, floors


def _measure_bare_floor() -> Floor:
    """Run empty jobs in a session with Spark's own settings."""
    command = [sys.executable, "-P", "-m", "benchmarks.contestants.bare_jobs", str(2 * JOBS)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=True)
    p50, p99 = np.percentile(json.loads(done.stdout), [50, 99])
    say(f"          the floor with Spark's own settings: p50 {p50:,.1f} ms, p99 {p99:,.1f} ms")
    return Floor(float(p50), float(p99))


def report(embedded: dict[int, Latency], spark: dict[int, Latency], floors: dict[int, Floor], bare: Floor) -> Report:
    ratios = {f"spark_p50_vs_bare_floor_{rate}": spark[rate].p50 / bare.p50 for rate in floors}
    figures = {"bare_floor_p50_ms": bare.p50, "bare_floor_p99_ms": bare.p99}
    for rate, floor in floors.items():
        ratios[f"spark_p50_vs_floor_{rate}"] = spark[rate].p50 / floor.p50
        ratios[f"spark_p99_vs_floor_{rate}"] = spark[rate].p99 / floor.p99
        figures[f"floor_p50_ms_{rate}"], figures[f"floor_p99_ms_{rate}"] = floor.p50, floor.p99
    for name, latencies in (("embedded", embedded), ("spark", spark)):
        for rate, latency in latencies.items():
            figures[f"{name}_p50_ms_{rate}"], figures[f"{name}_p99_ms_{rate}"] = latency.p50, latency.p99
            figures[f"{name}_rows_per_s_{rate}"] = latency.rows_per_s
            figures[f"{name}_alarms_{rate}"] = latency.alarms
    # What the slower runtime reached at the rate that has a bar.
    figures["rows_per_s"] = min(embedded[JUDGED].rows_per_s, spark[JUDGED].rows_per_s)
    right = all(latency.right for latency in (*embedded.values(), *spark.values()))
    return Report("latency", right, ratios, figures)


if __name__ == "__main__":
    main(measure, __doc__)

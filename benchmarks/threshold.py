"""Threshold alerts: what is kept, how fast that is found, and both on Spark beside Spark's own join.

The alert over two streams for 100 keys, at 10, 100 and 1,000 tuples of a key and stream in a window; the
condensation alert over three streams for 200 machines, as fast as it can and at a steady rate; and what
`threshold_omission` measures without Spark. Alarms are compared with a brute-force join in the same run.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks import threshold_omission
from benchmarks.support.report import Report, main
from benchmarks.support.spark import Bench
from benchmarks.support.threshold_condensation import Condensation
from benchmarks.support.threshold_pairs import KEYS, Outcome, Pairs


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured; times are in seconds."""

    rows: int
    densities: dict[int, int]
    """How many tuples are in a window, and into how many batches the rows are cut."""
    limit: float
    """How long Spark's own join may take."""
    skipped: int
    machine_rows: int
    machine_batches: int
    steady_rows_per_s: int
    steady_seconds: float
    steady_skipped: float


FULL = Scale(
    rows=1_000_000,
    # In a window of 1,000, Spark's own join would not end a large batch in its time.
    densities={10: 8, 100: 8, 1_000: 20},
    limit=75,
    skipped=2,
    machine_rows=3_000_000,
    machine_batches=8,
    steady_rows_per_s=20_000,
    steady_seconds=40,
    steady_skipped=8,
)
QUICK = Scale(
    rows=120_000,
    densities={10: 3, 100: 3, 1_000: 3},
    limit=6,
    skipped=1,
    machine_rows=300_000,
    machine_batches=3,
    steady_rows_per_s=20_000,
    steady_seconds=10,
    steady_skipped=4,
)


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    scale = QUICK if quick else FULL
    omission = threshold_omission.measure(quick)
    try:
        bench = Bench.start(folder, scale.skipped)
        on_spark = _on_spark(scale, bench)
        bench.spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Report(
        "threshold",
        omission.equal and on_spark.equal,
        {**omission.ratios, **on_spark.ratios},
        {**on_spark.figures, **omission.figures},
    )


def _on_spark(scale: Scale, bench: Bench) -> Report:
    pairs = {
        density: Pairs(bench, density, scale.rows, batches, scale.limit).measure()
        for density, batches in scale.densities.items()
    }
    condensation = Condensation(bench, scale.machine_rows, scale.machine_batches)
    rate, right = condensation.measure()
    latency = condensation.latency(scale.steady_rows_per_s, scale.steady_seconds, scale.steady_skipped)
    ratios = {f"d{d}_speed_vs_spark": o.ours.rows_per_s / o.native.rows_per_s for d, o in pairs.items()}
    ratios |= {f"d{d}_state_vs_spark": o.ours.state_bytes / o.native.state_bytes for d, o in pairs.items() if d >= 100}
    figures = {
        "condensation_rows_per_s": rate.rows_per_s,
        "condensation_state_bytes": rate.state_bytes,
        "condensation_state_rows": rate.state_rows,
        "condensation_rows": scale.machine_rows,
        "latency_p50_ms": latency.p50,
        "latency_p99_ms": latency.p99,
        "latency_alarms": latency.alarms,
        "latency_rows_per_s": latency.rows_per_s,
    }
    figures |= {name: figure for d, o in pairs.items() for name, figure in _figures(f"d{d}", o).items()}
    # What a join that omits nothing keeps at least, if it forgets at once what is too old: both streams' half window.
    figures |= {f"d{d}_rows_within_distance": d * KEYS for d in pairs}
    equal = right and latency.alarms > 0 and all(outcome.equal for outcome in pairs.values())
    return Report("on Spark", equal, ratios, figures)


def _figures(name: str, outcome: Outcome) -> dict[str, float]:
    return {
        f"{name}_rows_per_s": outcome.ours.rows_per_s,
        f"{name}_spark_own_rows_per_s": outcome.native.rows_per_s,
        f"{name}_state_bytes": outcome.ours.state_bytes,
        f"{name}_spark_own_state_bytes": outcome.native.state_bytes,
        f"{name}_state_rows": outcome.ours.state_rows,
        f"{name}_spark_own_state_rows": outcome.native.state_rows,
        f"{name}_alarms": outcome.alarms,
        f"{name}_crossing_pairs": outcome.crossing,
        f"{name}_spark_own_alarms": outcome.native_alarms,
    }


if __name__ == "__main__":
    main(measure, __doc__)

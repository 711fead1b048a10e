"""Tidegate beside other engines: one query, the same readings, answers compared, in one run.

Two streams of readings of 100 keys; an alarm is a pair of one key, at most 30 seconds apart, whose sum is above a
threshold. In a window of one minute, the time in which a reading can meet others, come 10, 100 or 1,000 readings of
a key and stream. Every contestant runs in a process of its own and reads the same CSV rows; its start-up is kept
apart from its rate. Bytewax and Flink get environments of their own, in the folder that TIDEGATE_BENCH_ENVS names,
or in ~/.cache/tidegate-bench. Last come commands: how long they take to start. --quick takes some minutes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.support.report import Report, main, say
from benchmarks.support.rivals_contest import (
    DUCKDB,
    EMBEDDED,
    EMBEDDED_ALL,
    ROUNDS,
    SPARK,
    SPARK_JOIN,
    Contestant,
    Entry,
    Result,
    find_bytewax,
    find_flink,
    hold,
)
from benchmarks.support.rivals_data import Readings
from benchmarks.support.rivals_start import measure_start

DENSITIES = (10, 100, 1_000)
BACKLOG_DENSITY = 100

Results = Mapping[int, Mapping[str, Result]]
"""By density and contestant."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured: rows of both streams together, and the files of each stream that they are in."""

    rows: int
    files: int
    flink_files: Mapping[int, int]
    """How many files Flink reads, by density."""
    spark_join_files: int
    """How many files Spark's own join reads; the first does not count."""
    backlog: int
    enough: float
    """Seconds after which a contestant has no further turn."""
    starts: int
    """How often commands are started."""


FULL = Scale(1_000_000, 20, {10: 20, 1_000: 8}, 3, backlog=10_000_000, enough=40, starts=3)
QUICK = Scale(200_000, 4, {10: 4, 1_000: 4}, 2, backlog=1_000_000, enough=12, starts=1)

RATIOS = {
    **{f"embedded_vs_bytewax_{d}": (d, "embedded", "bytewax") for d in DENSITIES},
    **{f"embedded_all_vs_bytewax_{d}": (d, "embedded_all", "bytewax") for d in DENSITIES},
    "embedded_vs_duckdb_batch_100": (100, "embedded", "duckdb_batch"),
    "spark_vs_flink_10": (10, "spark", "flink"),
    "spark_vs_flink_1000": (1_000, "spark", "flink"),
    "spark_vs_spark_join_100": (100, "spark", "spark_join"),
}
"""Of rates: density, and the two contestants."""


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    scale = QUICK if quick else FULL
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    try:
        return _measure(scale, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(scale: Scale, folder: Path) -> Report:
    bytewax, flink = find_bytewax(), find_flink()
    data = {d: Readings(folder / str(d), d, scale.rows, scale.files) for d in DENSITIES}
    results: dict[int, dict[str, Result]] = {}
    for density, readings in data.items():
        readings.write()
        results[density] = hold(readings, entries(scale, density, bytewax, flink), enough=scale.enough)
    backlog = Readings(folder / "backlog", BACKLOG_DENSITY, scale.backlog, 20)
    backlog.write()
    of_backlog = hold(backlog, [Entry(EMBEDDED, 20), Entry(SPARK, 20)], enough=scale.enough)
    shutil.rmtree(backlog.folder)
    start_ratios, start_figures = measure_start(scale.starts)
    say(as_table(results))
    return Report(
        "rivals",
        all(r.right for some in (*results.values(), of_backlog) for r in some.values()),
        {
            **ratios_of(results),
            "density_1000_vs_10": _density_ratio(data[1_000], data[10]),
            "spark_vs_embedded": of_backlog["spark"].ratio(of_backlog["embedded"]),
            **start_ratios,
        },
        {
            # Processor time, so that it is that of one core, however many the runtime uses.
            "pairs_per_s": data[DENSITIES[-1]].pairs(scale.files) / results[DENSITIES[-1]]["embedded_all"].processor,
            **start_figures,
            **figures_of(results),
            **{f"{name}_backlog_rows_per_s": r.rate for name, r in of_backlog.items()},
            "rows": scale.rows,
            "backlog_rows": scale.backlog,
        },
    )


def entries(scale: Scale, density: int, bytewax: Contestant | None, flink: Contestant | None) -> list[Entry]:
    """Return who takes part at a density, and with how many files."""
    found = [Entry(who, scale.files) for who in (EMBEDDED, EMBEDDED_ALL, bytewax, DUCKDB, SPARK) if who is not None]
    if flink is not None and density in scale.flink_files:
        found.append(Entry(flink, scale.flink_files[density]))
    if density == 100:
        found.append(Entry(SPARK_JOIN, scale.spark_join_files))
    return found


def ratios_of(results: Results) -> dict[str, float]:
    """Return the ratios between contestants that took part."""
    return {
        name: results[d][ours].ratio(results[d][theirs])
        for name, (d, ours, theirs) in RATIOS.items()
        if ours in results[d] and theirs in results[d]
    }


def _density_ratio(dense: Readings, sparse: Readings) -> float:
    """Compare two densities in turns of their own, right after each other."""
    turns = [
        [hold(readings, [Entry(EMBEDDED, readings.files)], enough=0)["embedded"] for readings in (dense, sparse)]
        for _ in range(ROUNDS)
    ]
    return median(of_dense.ratio(of_sparse) for of_dense, of_sparse in turns)


def figures_of(results: Results) -> dict[str, float]:
    rates = {f"{name}_{d}_rows_per_s": r.rate for d, some in results.items() for name, r in some.items()}
    starts = {f"{name}_start_seconds": r.start for name, r in results[100].items()}
    return {**rates, **starts}


def as_table(results: Results) -> str:
    names = list(dict.fromkeys(name for some in results.values() for name in some))
    lines = [f"{'rows/s':<16}" + "".join(f"{d:>12,}" for d in results) + f"{'start, s':>12}"]
    for name in names:
        found = [some.get(name) for some in results.values()]
        cells = "".join(f"{r.rate:>12,.0f}" if r else " " * 12 for r in found)
        lines.append(f"{name:<16}{cells}{next(r for r in found if r).start:>12.1f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main(measure, __doc__)

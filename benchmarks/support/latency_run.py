"""One live run at a steady rate: how long after its last row was due is an alarm readable?

Readable means that `on_rows` has the alarm, in the process that runs the query: the same on both runtimes. On
Spark, that is after the step was recorded in the checkpoint.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.contestants.steady_writer import KEYS
from benchmarks.support.report import say
from benchmarks.support.rivals_data import are_right, crossing_pairs
from tidegate.runtime.running_query import RunningQuery
from tidegate.session import Session

ROOT = Path(__file__).resolve().parents[2]
DISTANCE = 1_000_000
"""In microseconds."""
ALARMS_PER_ROW = 0.02
PREPARATION = 60_000
"""Rows that the writer prepares in a second, or more."""
PATIENCE = 180
"""Seconds after which a query that does not go on never will."""


Received = list[tuple[float, pa.RecordBatch]]
"""Alarms, and when they were readable, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Load:
    """A rate, how many seconds it is kept, and how many of these are not counted."""

    rows_per_s: int
    seconds: float
    skipped: float

    @property
    def rows(self) -> int:
        return round(self.rows_per_s * self.seconds)

    @property
    def threshold(self) -> float:
        """A sum of two uniform numbers is above 2 - e with a probability of e²/2."""
        partners = self.rows_per_s / 2 / KEYS * 2 * DISTANCE / 1_000_000
        return round(2 - math.sqrt(2 * 2 * ALARMS_PER_ROW / partners), 6)


@dataclass(frozen=True, slots=True)
class Latency:
    """Latencies in milliseconds, alarms, rows per second of the run, and whether its alarms are right."""

    p50: float
    p99: float
    alarms: int
    rows_per_s: float
    right: bool


def program(folder: Path, load: Load) -> str:
    streams = "".join(
        f"CREATE STREAM {s} (id BIGINT, key INT, value DOUBLE, at BIGINT) FROM '{folder / s}' TIMESTAMP BY at;\n"
        for s in "ab"
    )
    return (
        f"{streams}CREATE ALERT alarm FROM a, b WITHIN {DISTANCE} MICROSECONDS MATCHING key "
        f"WHEN a.value + b.value > {load.threshold};"
    )


def measure_latency(session: Session, folder: Path, load: Load) -> Latency:
    received: Received = []
    _make_files(folder)
    running = session.sql(program(folder, load), on_rows=lambda _, rows: received.append((time.time(), rows)))
    assert running is not None
    _wait(running, lambda: running.progress().steps > 0)  # the session has started, the first kernels are loaded
    begin = time.time() + 1 + load.rows / PREPARATION
    command = [str(folder), str(load.rows_per_s), str(load.seconds), str(begin)]
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "benchmarks.contestants.steady_writer", *command],
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        late = float(writer.communicate()[0])
    _wait(running, lambda: running.progress().rows_in >= load.rows + 2)
    lasted = time.time() - begin
    running.stop()
    say(f"{load.rows_per_s:>8,} rows/s: the writer was {late * 1000:,.0f} ms late at most")
    found = _milliseconds(received, begin + load.skipped)
    p50, p99 = np.percentile(found, [50, 99]) if len(found) else (math.nan, math.nan)
    latency = Latency(float(p50), float(p99), len(found), load.rows / lasted, _are_right(received, folder, load))
    say(
        f"          p50 {p50:,.1f} ms, p99 {p99:,.1f} ms, of {latency.alarms:,} alarms"
        f"{'' if latency.right else ', WRONG'}; took in {latency.rows_per_s:,.0f} rows/s"
    )
    return latency


def _make_files(folder: Path) -> None:
    """Two files with a row each, long before the others."""
    for stream in "ab":
        (folder / stream).mkdir(parents=True)
        (folder / stream / "all.csv").write_text("id,key,value,at\n-1,0,0.0,1000000000000000\n", encoding="utf-8")


def _wait(running: RunningQuery, holds: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not holds():
        if running.is_over or time.monotonic() - began > PATIENCE:
            raise RuntimeError("the query does not go on") from running.error
        time.sleep(0.02)


def _milliseconds(received: Received, begin: float) -> np.ndarray:
    """How long alarms waited whose last row was due at or after a moment."""
    waited = [np.empty(0)]
    for readable, rows in received:
        due = np.maximum(rows["a_at"].to_numpy(), rows["b_at"].to_numpy()) / 1_000_000
        waited.append((readable - due)[due >= begin] * 1000)
    return np.concatenate(waited)


def _are_right(received: Received, folder: Path, load: Load) -> bool:
    pairs = (zip(rows["a_id"].to_pylist(), rows["b_id"].to_pylist(), strict=True) for _, rows in received)
    alarms = [pair for some in pairs for pair in some]
    crossing = crossing_pairs(folder, load.threshold, DISTANCE)
    return are_right(alarms, crossing, before=load.rows, distance=DISTANCE, every_pair=False)

"""A thousand alerts on totals over one stream, compared with ten of them: statements that share one tracker."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from benchmarks.support.report import say
from tidegate.language.bind.program import bind
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.runner import EmbeddedRun

SYMBOLS = 100
BEGIN = 1_767_225_600_000_000
STREAM = """CREATE STREAM trade (symbol STRING, price DOUBLE, shares INT, at TIMESTAMP)
  FROM '{file}' TIMESTAMP BY at;
"""
ALERT = """CREATE ALERT a{number} FROM trade t WHERE t.price BETWEEN {low} AND {high}
  MATCHING symbol WHEN TOTAL(t.shares) >= {threshold};
"""


@dataclass(frozen=True, slots=True)
class SharedCosts:
    """Processor seconds to compile the text and to run it, and the number of alarms of each alert."""

    compiling: float
    running: float
    alarms: Counter[str]


def measure_shared(*, quick: bool) -> tuple[dict[str, float], dict[str, float], bool]:
    """Return the ratio, figures, and whether an alert has as many alarms among a thousand as among ten."""
    rows = 500_000 if quick else 1_000_000
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    try:
        file = folder / "trade.csv"
        write_trades(file, rows)
        run_alerts(file, 10, rows)  # compiles the kernels
        few, many = (min((run_alerts(file, n, rows) for _ in range(2)), key=_running) for n in (10, 1_000))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for count, costs in ((10, few), (1_000, many)):
        us = costs.running / rows * 1e6
        say(f"{count} alerts on totals: {us:,.2f} µs a row; {costs.compiling:,.2f} s to compile the text")
    figures = {
        f"shared_{count}_{what}": value
        for count, costs in ((10, few), (1_000, many))
        for what, value in (("us_per_row", costs.running / rows * 1e6), ("compile_s", costs.compiling))
    }
    right = bool(few.alarms) and all(many.alarms[name] == alarms for name, alarms in few.alarms.items())
    return {"shared_1000_vs_10": many.running / few.running}, figures, right


def _running(costs: SharedCosts) -> float:
    return costs.running


def write_trades(file: Path, rows: int) -> None:
    random = np.random.default_rng(20)
    symbol = pa.array([f"S{number:02}" for number in range(SYMBOLS)]).take(pa.array(random.integers(0, SYMBOLS, rows)))
    at = pa.array(BEGIN + np.arange(rows) * 100, pa.timestamp("us"))
    price, shares = np.round(random.uniform(0, 1_000, rows), 2), random.normal(100, 15, rows).astype(np.int64)
    csv.write_csv(pa.table({"symbol": symbol, "price": price, "shares": np.maximum(shares, 1), "at": at}), file)


def alert_texts(count: int, rows: int) -> list[str]:
    """Return alerts with ranges of a tenth of the prices; half of them should be complete at the end, for each key."""
    random = np.random.default_rng(21)
    low = np.round(random.uniform(0, 900, count), 2)
    expected = rows / SYMBOLS / 10 * 100
    threshold = np.maximum(random.uniform(0, 2 * expected, count), 1).astype(np.int64)
    return [
        ALERT.format(number=number, low=low[number], high=round(low[number] + 100, 2), threshold=threshold[number])
        for number in range(count)
    ]


def run_alerts(file: Path, count: int, rows: int) -> SharedCosts:
    text = STREAM.format(file=file) + "".join(alert_texts(1_000, rows)[:count])
    began = time.process_time()
    job = compile_job(bind(text), buckets=1, sinks={})
    compiled = time.process_time()
    alarms: Counter[str] = Counter()
    EmbeddedRun(job, on_rows=lambda name, found: alarms.update({name: found.num_rows}), once=True).wait()
    return SharedCosts(compiled - began, time.process_time() - compiled, alarms)

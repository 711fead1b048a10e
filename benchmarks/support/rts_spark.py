"""Range alerts on Spark: a million live subscriptions over a hundred keys, elements in micro-batches.

All subscriptions come with the first micro-batch, and are registered in the second, when time has passed
them. Every later one brings elements, and a few subscriptions that begin and that end; that before the last
ends a tenth of all, which are gone with the last. Of a sample of the subscriptions the alarms are computed from all the
elements at once, and compared.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.report import say
from benchmarks.support.spark import Bench, files
from tidegate.runtime.spark.runner import SparkRun
from tidegate.session import Session

KEYS = 100
SECOND = 1_000_000
WIDTH = 10.0
"""Ranges have a tenth of the prices, which are below a hundred."""
CHANGES = 1_000
"""Subscriptions that begin, and that end, in every micro-batch but the first."""
SKIPPED = 3
"""Micro-batches that do not count: the registrations, and those in which kernels are loaded."""

PROGRAM = """
CREATE STREAM trade (symbol STRING, price DOUBLE, volume BIGINT, ts BIGINT)
  FROM '{folder}/trade' TIMESTAMP BY ts WITH (files_per_batch = 1);
CREATE STREAM subscription (
    id BIGINT, symbol STRING, low DOUBLE, high DOUBLE, threshold BIGINT, active BOOLEAN, ts BIGINT)
  FROM '{folder}/subscription' TIMESTAMP BY ts WITH (files_per_batch = 1);
CREATE ALERTS traded FROM trade t, subscription r
  WHERE t.price BETWEEN r.low AND r.high
  MATCHING symbol
  WHEN TOTAL(t.volume) >= r.threshold;
"""


@dataclass(frozen=True, slots=True)
class Load:
    """So many subscriptions, and elements in so many micro-batches of equal size."""

    subscriptions: int
    batches: int
    elements: int

    @property
    def many(self) -> int:
        """How many end at once, but for those with low thresholds."""
        return self.subscriptions // 10

    def write(self, folder: Path) -> None:
        random = np.random.default_rng(5)
        for name in ("trade", "subscription"):
            (folder / name).mkdir(parents=True)
        for number in range(self.batches):
            _write(folder / "trade", number, self._trades(number, random))
            _write(folder / "subscription", number, self._changes(number, random))

    def _trades(self, number: int, random: np.random.Generator) -> pa.Table:
        count = self.elements if number else 1
        times = _start(number) + np.sort(random.integers(0, 9 * SECOND, count))
        weight = np.maximum(np.rint(random.normal(100, 15, count)), 1).astype(np.int64)
        price = np.round(random.uniform(0, 100, count), 2)
        return pa.table({"symbol": _symbols(random, count), "price": price, "volume": weight, "ts": times})

    def _changes(self, number: int, random: np.random.Generator) -> pa.Table:
        """The first ids have low thresholds, and are complete some time; the last ones are those that end."""
        if not number:
            return _subscriptions(np.arange(self.subscriptions), 0, random)
        first = self.subscriptions + (number - 1) * CHANGES
        begun = _subscriptions(np.arange(first, first + CHANGES), number, random)
        last = self.subscriptions - (number - 1) * CHANGES
        ends = np.arange(last - CHANGES, last)
        if number == self.batches - 2:
            ends = np.arange(last - self.many, last)
            ends = ends[ends % 50 != 0]  # those may be complete already
        ended = _subscriptions(ends, number, random, active=False)
        return pa.concat_tables([begun, ended])


def _subscriptions(ids: np.ndarray, number: int, random: np.random.Generator, *, active: bool = True) -> pa.Table:
    count = len(ids)
    low = np.round(random.uniform(0, 100 - WIDTH, count), 2)
    low_ones, others = random.integers(5_000, 300_000, count), random.integers(10**7, 8 * 10**7, count)
    # One that ends must name its key as when it began.
    symbols = pa.array([f"S{each % KEYS:03d}" for each in ids.tolist()])
    times = _start(number) + 9 * SECOND + np.arange(count) % SECOND
    return pa.table(
        {
            "id": ids,
            "symbol": symbols,
            "low": low,
            "high": low + WIDTH,
            "threshold": np.where(ids % 50 == 0, low_ones, others),
            "active": np.full(count, active),
            "ts": np.sort(times),
        }
    )


def _start(number: int) -> int:
    return number * 10 * SECOND


def _symbols(random: np.random.Generator, count: int) -> pa.Array:
    names = pa.array([f"S{each:03d}" for each in range(KEYS)])
    return names.take(pa.array(random.integers(0, KEYS, count)))


def _write(folder: Path, number: int, rows: pa.Table) -> None:
    path = folder / f"{number:04d}.parquet"
    pq.write_table(rows, path)
    os.utime(path, (number, number))


def spark_figures(*, quick: bool) -> tuple[dict[str, float], bool]:
    """Elements a second, seconds to register, and bytes of state for each subscription; whether alarms are right."""
    load = Load(50_000, 8, 50_000) if quick else Load(1_000_000, 16, 250_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        load.write(folder)
        bench = Bench.start(folder, SKIPPED)
        with Session(spark=bench.spark) as session:
            running = session.sql(PROGRAM.format(folder=folder), once=True, out=str(folder / "out"), format="parquet")
            assert running is not None
            running.wait()
            run, progress = running._run, running.progress()  # noqa: SLF001 - Spark's own figures of the batches
            assert isinstance(run, SparkRun)
        seconds = [step.seconds for step in run.progress.recent_steps if step.rows]
        right = _are_right(folder, load)
    steady = seconds[SKIPPED:-2]
    figures = {
        "spark_elements_per_s": load.elements * len(steady) / sum(steady),
        "spark_registrations_per_s": load.subscriptions / sum(seconds[:2]),
        "spark_terminations_per_s": load.many * 49 / 50 / seconds[-1],
        "spark_state_bytes": progress.peak_state_bytes,
        "spark_state_bytes_per_subscription": progress.peak_state_bytes / load.subscriptions,
        "spark_alarms": sum(progress.rows_out.values()),
    }
    say(f"spark: {figures}")
    return figures, right


def _are_right(folder: Path, load: Load) -> bool:
    """Whether a sample of subscriptions has the alarms that the elements give when they are looked at as a whole."""
    rows = files(folder / "subscription")
    every = 50 * max(1, load.subscriptions // 100_000)
    with duckdb.connect() as database:
        database.sql(f"CREATE VIEW alarm AS SELECT * FROM {files(folder / 'out' / 'traded')}")
        database.sql(
            f"""CREATE TABLE wanted AS WITH counted AS (
              SELECT r.id, r.threshold, t.ts, t.price, t.volume,
                sum(t.volume) OVER (PARTITION BY r.id ORDER BY t.ts, t.price, t.volume
                                    ROWS UNBOUNDED PRECEDING) AS total
              FROM {rows} r LEFT JOIN (SELECT id, ts FROM {rows} WHERE NOT active) e ON e.id = r.id
                JOIN {files(folder / "trade")} t ON t.symbol = r.symbol AND t.price BETWEEN r.low AND r.high
                  AND t.ts > r.ts AND t.ts <= coalesce(e.ts, t.ts)
              WHERE r.active AND r.id % {every} = 0)
            SELECT id, ts, price, total::BIGINT AS total FROM counted
            WHERE total >= threshold AND total - volume < threshold"""
        )
        found = f"SELECT r_id, t_ts, t_price, total FROM alarm WHERE r_id % {every} = 0"
        wrong = database.sql(
            f"SELECT count(*) FROM ((TABLE wanted EXCEPT ALL {found}) UNION ALL ({found} EXCEPT ALL TABLE wanted))"
        ).fetchall()[0][0]
        some = database.sql("SELECT count(*) FROM wanted").fetchall()[0][0]
    say(f"spark: {some:,} alarms of the sample compared, {wrong:,} wrong")
    return bool(wrong == 0 and some > 0)

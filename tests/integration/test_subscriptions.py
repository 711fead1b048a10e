"""Range alerts over longer streams: on Spark and in this process alike, whatever the number of buckets."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.micros import in_micros

from tidegate.session import Session

FILES = 4
SECOND = 1_000_000

STREAMS = """
CREATE STREAM trade (symbol STRING, price DOUBLE, size INT, volume BIGINT, ts BIGINT)
  FROM '{folder}/trade' TIMESTAMP BY ts DELAY 2 SECONDS WITH (files_per_batch = 1);
CREATE STREAM subscription (id INT, symbol STRING, low DOUBLE, high DOUBLE, least INT, volume BIGINT,
                            active BOOLEAN, ts BIGINT)
  FROM '{folder}/subscription' TIMESTAMP BY ts DELAY 2 SECONDS WITH (files_per_batch = 1);
"""

PROGRAM = (
    STREAMS
    + """
CREATE ALERTS traded FROM trade t, subscription r
  WHERE t.price BETWEEN r.low AND r.high MATCHING symbol WHEN TOTAL(t.volume) >= r.volume;
CREATE ALERTS large FROM trade t, subscription r
  WHERE t.price >= r.low AND t.price < r.high AND t.size > r.least REPEAT WHEN COUNT(*) >= r.volume;
CREATE ALERTS lately FROM trade t, subscription r WITHIN 30 SECONDS
  WHERE t.price BETWEEN r.low AND r.high MATCHING symbol REPEAT WHEN TOTAL(t.volume) > r.volume;
CREATE ALERT million FROM trade WHERE size > 3 MATCHING symbol REPEAT WHEN TOTAL(volume) >= 2000;
CREATE ALERT burst FROM trade WITHIN 10 SECONDS WHERE price > 5 REPEAT WHEN COUNT(*) >= 60;
"""
)

Rows = dict[str, Counter[tuple[object, ...]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trades and subscriptions of a few minutes, not quite in order; some subscriptions are wrong."""
    place, random = tmp_path_factory.mktemp("market"), np.random.default_rng(3)
    trades, rows = 4_000, 600
    ts = np.sort(random.integers(0, 240, trades)) * SECOND
    _write(
        place / "trade",
        {
            "symbol": random.choice(["A", "B", "C"], trades),
            "price": random.integers(0, 40, trades) / 4,
            "size": random.integers(0, 10, trades).astype(np.int32),
            "volume": random.integers(0, 60, trades),
            "ts": ts,
        },
    )
    low = random.integers(0, 36, rows) / 4
    _write(
        place / "subscription",
        {
            "id": random.integers(0, 200, rows).astype(np.int32),
            "symbol": random.choice(["A", "B", "C"], rows),
            "low": low,
            "high": low + random.integers(-1, 12, rows) / 4,
            "least": random.integers(0, 9, rows).astype(np.int32),
            "volume": random.integers(0, 400, rows),
            "active": random.random(rows) < 0.8,
            "ts": np.sort(random.integers(0, 240, rows)) * SECOND,
        },
    )
    return place


def _write(place: Path, columns: dict[str, np.ndarray]) -> None:
    """Files in order of time, whose rows are in disorder within the delay."""
    place.mkdir()
    table = pa.table(columns)
    arrival = np.array(columns["ts"]) + np.random.default_rng(1).integers(0, 2 * SECOND, table.num_rows)
    table = table.take(pa.array(np.argsort(arrival, kind="stable")))
    for number, rows in enumerate(np.array_split(np.arange(table.num_rows), FILES)):
        pq.write_table(table.slice(rows[0], len(rows)), place / f"{number}.parquet")
        os.utime(place / f"{number}.parquet", (number, number))


def results(session: Session, folder: Path) -> Rows:
    """All rows and dead letters, by the name of what they came from."""
    found: Rows = {}

    def take(name: str, rows: pa.RecordBatch) -> None:
        found.setdefault(name, Counter()).update(tuple(row.values()) for row in in_micros(rows).to_pylist())

    with session:
        running = session.sql(PROGRAM.format(folder=folder), once=True, on_rows=take)
        assert running is not None
        running.wait()
    return found


@pytest.fixture(scope="module")
def alone(folder: Path) -> Rows:
    found = results(Session(runtime="embedded", buckets=1), folder)
    assert {"traded", "large", "lately", "million", "burst"} <= found.keys()
    reasons = {row[1] for row in found["dead_letters"]}
    assert reasons == {"bad_weight", "bad_threshold", "empty_range", "registered_twice", "not_registered"}
    return found


@pytest.mark.parametrize("buckets", [5])
def test_the_number_of_buckets_does_not_matter(buckets: int, folder: Path, alone: Rows) -> None:
    assert results(Session(runtime="embedded", buckets=buckets), folder) == alone


@pytest.mark.spark
@pytest.mark.parametrize("buckets", [1, 3])
def test_alarms_on_spark_are_those_in_this_process(
    buckets: int, folder: Path, alone: Rows, spark: SparkSession
) -> None:
    assert results(Session(spark=spark, buckets=buckets), folder) == alone

"""Keyed joins with constraints: the results are those of plain joins, in every runtime and number of buckets."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden.canonical import coalesced
from pyspark.sql import SparkSession
from support.micros import in_micros
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.session import Session

FILES = 8
SECOND = 1_000_000
LAST = 120 * SECOND

PROGRAM = """
SET constraints = {setting};
CREATE STREAM customer_link (pid BIGINT, size INT, ts BIGINT)
  FROM '{folder}/customer_link' TIMESTAMP BY ts DELAY 2 SECONDS
  KEY (pid) CONSTRAINT (pid) REFERENCES backbone (pid) WITHIN 3 SECONDS WITH (files_per_batch = 1);
CREATE STREAM backbone (pid BIGINT, ts BIGINT)
  FROM '{folder}/backbone' TIMESTAMP BY ts DELAY 2 SECONDS
  KEY (pid) CONSTRAINT (pid) REFERENCES customer_link (pid) WITHIN 0 SECONDS
  CONSTRAINT (pid) REFERENCES outgoing (pid) WITHIN 40 ROWS WITH (files_per_batch = 1);
CREATE STREAM outgoing (pid BIGINT, ts BIGINT)
  FROM '{folder}/outgoing' TIMESTAMP BY ts DELAY 2 SECONDS
  KEY (pid) CONSTRAINT (pid) REFERENCES backbone (pid) WITHIN 0 SECONDS WITH (files_per_batch = 1);
CREATE STREAM orders (product STRING, buyer BIGINT, amount INT, ts BIGINT)
  FROM '{folder}/orders' TIMESTAMP BY ts DELAY 2 SECONDS
  CONSTRAINT (product) REFERENCES products (name) WITHIN 2 SECONDS
  CLUSTERED BY (buyer) WITHIN 30 SECONDS WITH (files_per_batch = 1);
CREATE STREAM products (name STRING, maker BIGINT, price INT, ts BIGINT)
  FROM '{folder}/products' TIMESTAMP BY ts DELAY 2 SECONDS KEY (name) WITH (files_per_batch = 1);
CREATE STREAM people (id BIGINT, town STRING, ts BIGINT)
  FROM '{folder}/people' TIMESTAMP BY ts DELAY 2 SECONDS
  KEY (id) ORDERED BY id WITHIN 5 SECONDS WITH (files_per_batch = 1);

CREATE STREAM through AS SELECT c.pid, c.size, o.ts AS left_at
  FROM customer_link c [RANGE 30 SECONDS], backbone b [RANGE 30 SECONDS], outgoing o [RANGE 30 SECONDS]
  WHERE c.pid = b.pid AND b.pid = o.pid AND c.size > 3;
SELECT * FROM through;
SELECT SUM(size) AS total, COUNT(*) AS packets FROM through;
SELECT p.name, o.amount, u.town
  FROM orders o [RANGE 20 SECONDS], products p [RANGE 60 SECONDS], people u [RANGE 60 SECONDS]
  WHERE o.product = p.name AND o.buyer = u.id AND p.price < 7;
SELECT o.amount, p.price, m.town
  FROM orders o [RANGE 20 SECONDS], products p [RANGE 60 SECONDS], people m [RANGE 60 SECONDS]
  WHERE o.product = p.name AND p.maker = m.id AND o.buyer = m.id;
SELECT o.amount, c.size
  FROM orders o [RANGE 20 SECONDS], customer_link c [RANGE 60 SECONDS] WHERE o.buyer = c.pid;
"""

Rows = dict[str, Counter[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes of packets and orders, not quite in order; a few break what is declared of them."""
    place, random = tmp_path_factory.mktemp("constraints"), np.random.default_rng(3)
    _packets(place, random)
    _orders(place, random)
    return place


def _packets(place: Path, random: np.random.Generator) -> None:
    """Of the packets of a link, half go on; of twenty, one takes longer than is declared."""
    ts, pid = random.integers(0, LAST, 900), np.arange(900)
    _write(place / "customer_link", {"pid": pid, "size": (pid % 10).astype(np.int32), "ts": ts})
    for link, first in (("backbone", 10_000), ("outgoing", 20_000)):
        went = random.random(len(pid)) < 0.5
        late = np.where(random.random(len(pid)) < 0.05, 18 * SECOND, 0)
        at = (ts + random.integers(0, 3 * SECOND, len(ts)) + late)[went]
        others = random.integers(0, LAST, 300)
        ts, pid = np.concatenate([at, others]), np.concatenate([pid[went], first + np.arange(300)])
        _write(place / link, {"pid": pid, "ts": ts})


def _orders(place: Path, random: np.random.Generator) -> None:
    """Orders by people whose numbers rise with time, of products that come a little later, or not at all."""
    ids = np.arange(200)
    came = np.clip(ids * LAST // 200 + random.integers(-4 * SECOND, 4 * SECOND, 200), 0, LAST)
    _write(place / "people", {"id": ids, "town": random.choice(np.array(["A", "B", None]), 200), "ts": came})
    names = [f"p{number}" for number in range(150)]
    made = np.sort(random.integers(0, LAST, 150))
    _write(
        place / "products",
        {
            "name": names,
            "maker": made * 200 // LAST - random.integers(0, 20, 150),
            "price": _small(random, 150),
            "ts": made,
        },
    )
    count, ts = 1200, np.sort(random.integers(0, LAST, 1200))
    latest = np.minimum(np.searchsorted(made, ts + 3 * SECOND * (random.random(count) < 0.2)), 149)
    product = [None if random.random() < 0.05 else names[max(0, n - int(random.integers(0, 9)))] for n in latest]
    buyer = np.clip(ts * 200 // LAST - random.integers(-6, 25, count), 0, 220)
    _write(place / "orders", {"product": product, "buyer": buyer, "amount": _small(random, count), "ts": ts})


def _small(random: np.random.Generator, count: int) -> np.ndarray:
    return random.integers(0, 10, count).astype(np.int32)


def _write(place: Path, columns: dict[str, object]) -> None:
    """Files in order of time, whose rows are in disorder within the delay."""
    place.mkdir()
    table = pa.table(columns)
    arrival = np.asarray(columns["ts"]) + np.random.default_rng(1).integers(0, 2 * SECOND, table.num_rows)
    table = table.take(pa.array(np.argsort(arrival, kind="stable")))
    for number, rows in enumerate(np.array_split(np.arange(table.num_rows), FILES)):
        pq.write_table(table.slice(rows[0], len(rows)), place / f"{number}.parquet")
        os.utime(place / f"{number}.parquet", (number, number))


def results(session: Session, folder: Path, setting: str, program: str = PROGRAM) -> Rows:
    """All rows and dead letters, by the name of what they came from."""
    found: Rows = {}

    def take(name: str, rows: pa.RecordBatch) -> None:
        found.setdefault(name, Counter()).update(tuple(row.values()) for row in in_micros(rows).to_pylist())

    with session:
        running = session.sql(program.format(folder=folder, setting=setting), once=True, on_rows=take)
        assert running is not None
        running.wait()
    return found


@pytest.fixture(scope="module")
def plain(folder: Path) -> Rows:
    found = results(Session(runtime="embedded", buckets=1), folder, "off")
    assert len(found) == 5
    assert all(len(rows) > 10 for rows in found.values())
    return found


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("setting", ["declared", "monitored"])
def test_constraints_do_not_change_results(setting: str, buckets: int, folder: Path, plain: Rows) -> None:
    assert results(Session(runtime="embedded", buckets=buckets), folder, setting) == plain


def test_without_cold_storage_results_may_be_missing_but_none_is_wrong(folder: Path, plain: Rows) -> None:
    found = results(Session(runtime="embedded", buckets=2), folder, "declared MODE lean")
    joins = [name for name in plain if name != "query_2"]  # all but the totals, which differ
    assert all(found.get(name, Counter()) <= plain[name] for name in joins)
    assert any(found.get(name, Counter()) < plain[name] for name in joins)


@pytest.mark.parametrize(("mode", "told"), [("lean", True), ("exact", False)])
def test_a_run_that_samples_nothing_says_that_results_may_be_missing(
    mode: str, told: bool, folder: Path, tmp_path: Path
) -> None:
    setting = f"declared MODE {mode}; SET monitor_sample = 0"
    (tmp_path / "query.sql").write_text(PROGRAM.format(folder=folder, setting=setting))
    run = ["run", str(tmp_path / "query.sql"), "--runtime", "embedded", "--once", "--out", str(tmp_path / "out")]
    said = CliRunner().invoke(app, run).stderr
    assert ("number unknown" in said and "because nothing is sampled" in said) == told


COUNTED = (
    PROGRAM[: PROGRAM.index("CREATE STREAM through")]
    + """
SELECT c.pid, c.size, o.ts AS left_at
  FROM customer_link c [ROWS 250], backbone b [ROWS 200], outgoing o [RANGE 30 SECONDS]
  WHERE c.pid = b.pid AND b.pid = o.pid AND c.size > 3;
SELECT p.name, o.amount, u.town
  FROM orders o [ROWS 150], products p [ROWS 60], people u [ROWS 80]
  WHERE o.product = p.name AND o.buyer = u.id AND p.price < 7;
SELECT COUNT(*) AS n FROM orders o [ROWS 150], products p [RANGE 60 SECONDS] WHERE o.product = p.name;
"""
)


def counted(session: Session, folder: Path, setting: str) -> dict[str, object]:
    """What results in windows of rows say, however they are cut in time."""
    found = results(session, folder, setting, COUNTED)
    return {name: coalesced((a, b, values) for a, b, *values in rows.elements()) for name, rows in found.items()}


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("setting", ["declared", "monitored"])
def test_constraints_do_not_change_results_in_windows_of_rows(setting: str, buckets: int, folder: Path) -> None:
    plain = counted(Session(runtime="embedded", buckets=2), folder, "off")
    assert len(plain) == 3
    assert counted(Session(runtime="embedded", buckets=buckets), folder, setting) == plain


@pytest.mark.spark
def test_results_on_spark_are_those_of_plain_joins(folder: Path, plain: Rows, spark: SparkSession) -> None:
    assert results(Session(spark=spark, buckets=2), folder, "monitored") == plain


@pytest.mark.spark
def test_results_on_spark_are_those_of_plain_joins_in_windows_of_rows(folder: Path, spark: SparkSession) -> None:
    plain = counted(Session(runtime="embedded", buckets=2), folder, "off")
    assert counted(Session(spark=spark, buckets=2), folder, "declared") == plain

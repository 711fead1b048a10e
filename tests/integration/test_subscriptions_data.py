"""A hundred thousand subscriptions over real trades: the alarms are those that DuckDB finds in the whole files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.paths import ROOT

from tidegate.session import Session

SHARED = Path(os.environ.get("TIDEGATE_DATA", ROOT.parent / "shared" / "data"))
FILES = 6
SUBSCRIPTIONS = 100_000

pytestmark = pytest.mark.slow

EMINI = "SELECT 'ES' AS symbol, price, volume, ts_us FROM '{}/ticks_emini/emini_ticks.parquet'"
QUARTER = "WHERE hash(ts_us, price, size) % 4 = 0"
"""Of these trades a quarter will do, and DuckDB counts them in a few seconds."""
EQUITIES = " UNION ALL ".join(
    f"SELECT '{symbol.upper()}', price, size, ts_us FROM '{{0}}/ticks_us_equities/{symbol}_trades.{kind}' {QUARTER}"
    for symbol, kind in (("aig", "csv.gz"), ("bac", "csv.gz"), ("ibm", "csv.gz"), ("spy", "parquet"))
)


@dataclass(frozen=True)
class Market:
    """Trades, the steps that ends of ranges are on, the widest range in steps, and the greatest threshold."""

    trades: str
    step: float
    widest: int
    most: int
    matching: bool

    def program(self, folder: Path) -> str:
        keys = "MATCHING symbol" if self.matching else ""
        return f"""
        CREATE STREAM trade (symbol STRING, price DOUBLE, volume BIGINT, ts_us BIGINT)
          FROM '{folder / "trade"}' TIMESTAMP BY ts_us WITH (files_per_batch = 1);
        CREATE STREAM subscription (id BIGINT, symbol STRING, low DOUBLE, high DOUBLE, volume BIGINT, ts_us BIGINT)
          FROM '{folder / "subscription"}' TIMESTAMP BY ts_us WITH (files_per_batch = 1);
        CREATE ALERTS traded FROM trade t, subscription r
          WHERE t.price >= r.low AND t.price < r.high {keys} WHEN TOTAL(t.volume) >= r.volume;
        """


MARKETS = {
    "futures": Market(EMINI, 0.25, 4, 30_000, matching=False),
    "equities": Market(EQUITIES, 0.1, 3, 1_000_000, matching=True),
}


@pytest.fixture
def database() -> duckdb.DuckDBPyConnection:
    if not (SHARED / "ticks_emini").exists():
        pytest.skip(f"there are no trades in {SHARED}")
    return duckdb.connect()


def prepared(market: Market, database: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Trades and random subscriptions as tables, and as files that come in the order of time."""
    trades = market.trades.format(SHARED)
    database.sql(f"CREATE TABLE trade AS SELECT * FROM ({trades}) x(symbol, price, volume, ts_us)")
    symbols = database.sql("SELECT symbol, min(price), max(price), min(ts_us), max(ts_us) FROM trade GROUP BY ALL")
    random, parts = np.random.default_rng(11), []
    for symbol, lowest, highest, first, last in sorted(symbols.fetchall()):
        count = SUBSCRIPTIONS // len(symbols)
        low = np.round(random.integers(lowest / market.step, highest / market.step, count) * market.step, 2)
        width = random.integers(1, market.widest + 1, count) * market.step
        when = np.where(random.random(count) < 0.5, first - 1, random.integers(first, last, count))
        volume = np.exp(random.uniform(0, np.log(market.most), count)).astype(np.int64)
        columns = {"symbol": [symbol] * count, "low": low, "high": np.round(low + width, 2), "volume": volume}
        parts.append(pa.table({**columns, "ts_us": when}))
    rows = pa.concat_tables(parts)
    database.register("rows", rows.append_column("id", pa.array(random.permutation(rows.num_rows))))
    database.sql("CREATE TABLE subscription AS SELECT * FROM rows")
    (limits,) = database.sql(
        f"SELECT quantile_disc(ts_us, {[n / FILES for n in range(1, FILES)]}) FROM trade"
    ).fetchall()[0]
    for name in ("trade", "subscription"):
        table = database.sql(f"SELECT * FROM {name} ORDER BY ts_us").to_arrow_table()
        (folder / name).mkdir()
        cuts = [0, *np.searchsorted(np.array(table["ts_us"]), limits).tolist(), table.num_rows]
        for number, (begin, end) in enumerate(pairwise(cuts)):
            path = folder / name / f"{number}.parquet"
            pq.write_table(table.slice(begin, end - begin), path)
            os.utime(path, (number, number))


def expected(database: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """For each range that somebody has, running totals of all trades in it; of these the first that is enough."""
    database.sql("CREATE TABLE range AS SELECT DISTINCT symbol, low, high FROM subscription")
    database.sql(
        """CREATE TABLE counted AS SELECT r.symbol, low, high, ts_us, price, volume,
             sum(volume) OVER (PARTITION BY r.symbol, low, high ORDER BY ts_us, price, volume
                               ROWS UNBOUNDED PRECEDING)::BIGINT AS total
           FROM range r JOIN trade t ON t.symbol = r.symbol AND price >= low AND price < high"""
    )
    database.sql(
        """CREATE TABLE begun AS SELECT s.*, coalesce(c.total, 0) AS before
           FROM subscription s ASOF LEFT JOIN (
             SELECT symbol, low, high, ts_us, max(total) AS total FROM counted GROUP BY ALL) c
           ON s.symbol = c.symbol AND s.low = c.low AND s.high = c.high AND s.ts_us >= c.ts_us"""
    )
    return database.sql(
        """SELECT b.id, c.ts_us, c.price, c.volume, c.total - b.before AS total
           FROM begun b ASOF JOIN counted c
           ON b.symbol = c.symbol AND b.low = c.low AND b.high = c.high AND b.before + b.volume <= c.total"""
    )


@pytest.mark.parametrize("name", MARKETS)
def test_subscriptions_in_this_process(name: str, database: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    compare(MARKETS[name], database, tmp_path, Session(runtime="embedded", buckets=2))


@pytest.mark.spark
def test_subscriptions_on_spark(database: duckdb.DuckDBPyConnection, tmp_path: Path, spark: SparkSession) -> None:
    compare(MARKETS["futures"], database, tmp_path, Session(spark=spark, buckets=2))


def compare(market: Market, database: duckdb.DuckDBPyConnection, folder: Path, session: Session) -> None:
    prepared(market, database, folder)
    with session:
        running = session.sql(market.program(folder), once=True, out=str(folder / "out"), format="parquet")
        assert running is not None
        running.wait()
        assert not running.progress().dead
    expected(database).create("wanted")
    found = f"SELECT r_id, t_ts_us, t_price, t_volume, total FROM '{folder}/out/traded/*.parquet'"
    wrong = database.sql(f"(TABLE wanted EXCEPT ALL {found}) UNION ALL ({found} EXCEPT ALL TABLE wanted)")
    assert wrong.fetchall() == []
    count = database.sql("SELECT count(*) FROM wanted").fetchall()[0][0]
    assert SUBSCRIPTIONS / 4 < count < SUBSCRIPTIONS

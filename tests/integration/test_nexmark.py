"""NEXMark's queries over files as streams, shuffled within the declared delay, against DuckDB's answers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.micros import in_micros

from examples.nexmark import generate
from tidegate.session import Session

EXAMPLES = Path(generate.__file__).parent
SHARED = Path(os.environ.get("TIDEGATE_DATA", EXAMPLES.parents[2] / "shared" / "data")) / "nexmark"
KINDS = ("person", "auction", "bid")
DELAY = 1_000_000
FILES = 3
TUMBLE, HOP, SLIDE = 10_000_000, 10_000_000, 2_000_000

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Data:
    """The events in their order, and a folder that has them shuffled, as streams."""

    folder: Path
    tables: dict[str, pa.Table]

    def ask(self, query: str) -> list[tuple[object, ...]]:
        """DuckDB's answer over the events, in order."""
        with duckdb.connect() as database:
            for name, table in self.tables.items():
                database.register(name, table)
            return sorted(database.sql(query).fetchall())


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Data:
    scale = generate.Scale(60_000, per_second=1_000)
    return _laid_out({kind: generate.events(kind, scale) for kind in KINDS}, tmp_path_factory.mktemp("generated"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Data:
    if not SHARED.exists():
        pytest.skip(f"the shared data is not at {SHARED}")
    suffixes = {"bid": "parquet", "auction": "csv.gz", "person": "csv.gz"}
    tables = {k: duckdb.sql(f"FROM '{SHARED}/gen_a_{k}.{suffixes[k]}'").to_arrow_table() for k in KINDS}
    return _laid_out(tables, tmp_path_factory.mktemp("shared"))


def _laid_out(tables: dict[str, pa.Table], folder: Path) -> Data:
    for kind, table in tables.items():
        random = np.random.default_rng(3)
        # An event comes up to the delay after its time, and so before any that is later by more than that.
        arrival = table["ts_us"].to_numpy() + random.integers(0, DELAY, table.num_rows)
        shuffled = table.take(pa.array(np.argsort(arrival, kind="stable")))
        (folder / kind).mkdir()
        for number, rows in enumerate(np.array_split(np.arange(table.num_rows), FILES)):
            pq.write_table(shuffled.take(pa.array(rows)), folder / kind / f"{number:04d}.parquet")
            os.utime(folder / kind / f"{number:04d}.parquet", (number, number))
    return Data(folder, tables)


def result(query: str, data: Data, spark: SparkSession | None) -> pa.Table:
    """All rows of a query's result, with their validities."""
    text = (EXAMPLES / f"{query}.sql").read_text().replace("'data/", f"'{data.folder}/")
    for delay in ("1 SECOND", "1 MINUTE"):
        text = text.replace(f"DELAY {delay};", f"DELAY {delay} WITH (files_per_batch = 1);")
    with Session(spark=spark, buckets=2) if spark else Session(runtime="embedded", buckets=2) as session:
        running = session.sql(text, once=True)
        assert running is not None
        running.wait()
        assert not running.progress().dead
        return in_micros(running.results())


def at(rows: pa.Table, instants: str, columns: str) -> list[tuple[object, ...]]:
    """The rows valid at the instants before the ends of windows."""
    with duckdb.connect() as database:
        database.register("result", rows)
        return sorted(
            database.sql(
                f"SELECT ending, {columns} FROM result, ({instants}) WHERE valid_from < ending AND ending <= valid_to"
            ).fetchall()
        )


ENDS = "SELECT unnest(range({first}, {last}, {slide}))::BIGINT AS ending"
Q3 = """SELECT name, city, state, a.id FROM auction a JOIN person p ON a.seller = p.id
        WHERE category = 10 AND state IN ('OR', 'ID', 'CA')"""
COUNTS = """SELECT ending, auction, count(*) AS num FROM bid, ({ends})
            WHERE ts_us >= ending - {hop} AND ts_us < ending GROUP BY ALL"""
Q5 = f"WITH c AS ({COUNTS}) SELECT * FROM c WHERE num = (SELECT max(num) FROM c d WHERE d.ending = c.ending)"
Q7 = """WITH b AS (SELECT (ts_us // {tumble} + 1) * {tumble} AS ending, * FROM bid)
        SELECT * FROM b WHERE price = (SELECT max(price) FROM b c WHERE c.ending = b.ending)"""
Q8 = """SELECT DISTINCT (p.ts_us // {tumble} + 1) * {tumble} AS ending, p.id, name FROM person p
        JOIN auction a ON p.id = a.seller AND p.ts_us // {tumble} = a.ts_us // {tumble}"""


def ends(data: Data, slide: int) -> str:
    times = data.tables["bid"]["ts_us"]
    first = times[0].as_py() // slide * slide + slide
    return ENDS.format(first=first, last=times[-1].as_py() + TUMBLE, slide=slide)


@pytest.fixture(params=["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def runtime(request: pytest.FixtureRequest) -> SparkSession | None:
    return None if request.param == "embedded" else request.getfixturevalue("spark")


@pytest.fixture(params=["generated", "shared"])
def data(request: pytest.FixtureRequest) -> Data:
    return request.getfixturevalue(request.param)


def test_q3_who_sells_in_the_neighbourhood(data: Data, runtime: SparkSession | None) -> None:
    found = result("q3", data, runtime).select(["name", "city", "state", "id"])
    assert sorted(zip(*(c.to_pylist() for c in found.columns), strict=True)) == data.ask(Q3)


def test_q5_hot_items(data: Data, runtime: SparkSession | None) -> None:
    found = at(result("q5", data, runtime), ends(data, SLIDE), "auction, num")
    assert found == data.ask(Q5.format(ends=ends(data, SLIDE), hop=HOP))


def test_q7_highest_bid(data: Data, runtime: SparkSession | None) -> None:
    found = at(result("q7", data, runtime), ends(data, TUMBLE), "ts_us, auction, bidder, price, channel")
    assert found == data.ask(Q7.format(tumble=TUMBLE))


def test_q8_new_users(data: Data, runtime: SparkSession | None) -> None:
    found = at(result("q8", data, runtime), ends(data, TUMBLE), "id, name")
    assert found == data.ask(Q8.format(tumble=TUMBLE))


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (Q3, "SELECT name, city, state, id FROM '{}/gen_a_answers_q3.csv.gz'"),
        (Q7.format(tumble=TUMBLE), "SELECT (ts_us // 10000000 + 1) * 10000000, * FROM '{}/gen_a_answers_q7.csv.gz'"),
        (Q8.format(tumble=TUMBLE), "SELECT window_start_us + 10000000, id, name FROM '{}/gen_a_answers_q8.csv.gz'"),
    ],
)
def test_duckdb_agrees_with_the_published_answers(query: str, answer: str, shared: Data) -> None:
    assert shared.ask(query) == shared.ask(answer.format(SHARED))


def test_duckdb_agrees_with_the_published_hot_items(shared: Data) -> None:
    answer = f"SELECT window_end_us, auction, num FROM '{SHARED}/gen_a_answers_q5.csv.gz'"
    assert shared.ask(Q5.format(ends=ends(shared, SLIDE), hop=HOP)) == shared.ask(answer)

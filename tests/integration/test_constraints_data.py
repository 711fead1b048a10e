"""Real DNS traffic: requests, their responses, and both links; what constraints save does not change a result."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession
from support.micros import in_micros
from support.paths import ROOT

from examples.dns.prepare import prepare
from tidegate.runtime.job import Progress
from tidegate.session import Session

SHARED = Path(os.environ.get("TIDEGATE_DATA", ROOT.parent / "shared" / "data"))
LOG = SHARED / "zeek_network" / "dns.csv.gz"
FILES = 8
MINUTES = 10

pytestmark = pytest.mark.slow

ID, BOTH = "uid, trans_id, attempt", "uid, trans_id, attempt, link"
COLUMNS = "uid STRING, trans_id BIGINT, attempt INT"
STREAMS = {
    "request": f"{COLUMNS}, link INT, query STRING, qtype STRING, ts_us BIGINT",
    "response": f"{COLUMNS}, link INT, rcode STRING, ts_us BIGINT",
    "outer_request": f"{COLUMNS}, query STRING, qtype STRING, ts_us BIGINT",
    "inner_request": f"{COLUMNS}, query STRING, qtype STRING, ts_us BIGINT",
    "inner_response": f"{COLUMNS}, rcode STRING, ts_us BIGINT",
}
# The slowest response takes 5.007 seconds, and the second link is at most 2.5 milliseconds behind the first.
CONSTRAINTS = {
    "request": {f"({BOTH}) REFERENCES response ({BOTH})": "6 SECONDS"},
    "response": {f"({BOTH}) REFERENCES request ({BOTH})": "0 SECONDS"},
    "outer_request": {f"({ID}) REFERENCES inner_request ({ID})": "3 MILLISECONDS"},
    "inner_request": {
        f"({ID}) REFERENCES outer_request ({ID})": "0 SECONDS",
        f"({ID}) REFERENCES inner_response ({ID})": "6 SECONDS",
    },
    "inner_response": {f"({ID}) REFERENCES inner_request ({ID})": "0 SECONDS"},
}
# What is shown, the streams by alias, and the columns in which they agree.
QUERIES = {
    "answered": (
        "q.uid, q.trans_id, q.attempt, q.link, q.query, r.rcode, q.ts_us AS asked, r.ts_us AS told",
        {"q": "request", "r": "response"},
        BOTH,
    ),
    "mirrored": (
        "o.uid, o.trans_id, o.attempt, o.query, o.ts_us AS outside, i.ts_us AS inside",
        {"o": "outer_request", "i": "inner_request"},
        ID,
    ),
    "passed": (
        "o.uid, o.trans_id, o.attempt, i.qtype, r.rcode, o.ts_us AS outside, r.ts_us AS told",
        {"o": "outer_request", "i": "inner_request", "r": "inner_response"},
        ID,
    ),
}


def program(folder: Path, setting: str, *, declared: bool = True) -> str:
    said = [f"SET constraints = {setting};"]
    for name, columns in STREAMS.items():
        key = BOTH if "link" in columns else ID
        promises = [f"CONSTRAINT {what} WITHIN {far}" for what, far in CONSTRAINTS[name].items() if declared]
        said.append(
            f"CREATE STREAM {name} ({columns}) FROM '{folder / name}' TIMESTAMP BY ts_us "
            f"KEY ({key}) {' '.join(promises)} WITH (files_per_batch = 1);"
        )
    for columns, inputs, key in QUERIES.values():
        read = ", ".join(f"{stream} {alias} WINDOW(RANGE {MINUTES} MINUTES)" for alias, stream in inputs.items())
        said.append(f"SELECT {columns} FROM {read} WHERE {equal(inputs, key)};")
    return "\n".join(said)


def equal(inputs: dict[str, str], key: str) -> str:
    """Each input agrees with the next one."""
    return " AND ".join(f"{a}.{column} = {b}.{column}" for a, b in pairwise(inputs) for column in key.split(", "))


def expected(columns: str, inputs: dict[str, str], key: str) -> str:
    """What is valid together, and when, in SQL over the whole tables."""
    times, read = ", ".join(f"{alias}.ts_us" for alias in inputs), ", ".join(f"{s} {a}" for a, s in inputs.items())
    begin, end = f"greatest({times})", f"least({times}) + {MINUTES * 60_000_000}"
    return (
        f"SELECT {columns}, {begin} AS valid_from, {end} AS valid_to "
        f"FROM {read} WHERE {equal(inputs, key)} AND {begin} < {end}"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not LOG.exists():
        pytest.skip(f"there is no {LOG}")
    return tmp_path_factory.mktemp("dns")


@pytest.fixture(scope="module")
def database(folder: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    prepare(LOG, folder, FILES, connection)
    for name, query in QUERIES.items():
        connection.sql(f"CREATE TABLE {name} AS {expected(*query)}")
    return connection


def compared(session: Session, text: str, database: duckdb.DuckDBPyConnection) -> Progress:
    """The figures of a run whose results are exactly those of DuckDB."""
    with session:
        running = session.sql(text, once=True)
        assert running is not None
        running.wait()
        for number, name in enumerate(QUERIES, 1):
            found = in_micros(running.results(f"query_{number}"))
            assert found.num_rows > 19_000
            columns = ", ".join(database.table(name).columns)
            database.register("found", found)
            rows = f"SELECT {columns} FROM found"
            wrong = database.sql(f"(TABLE {name} EXCEPT ALL {rows}) UNION ALL ({rows} EXCEPT ALL TABLE {name})")
            assert wrong.fetchall() == []
        assert not running.progress().dead
        return running.progress()


def test_constraints_save_most_of_the_state_and_change_no_result(
    folder: Path, database: duckdb.DuckDBPyConnection
) -> None:
    def peak(setting: str, *, declared: bool = True) -> int:
        text = program(folder, setting, declared=declared)
        return compared(Session(runtime="embedded", buckets=2), text, database).peak_state_bytes

    plain = peak("off")
    assert peak("declared") < plain / 4
    assert peak("declared MODE lean") < plain / 50
    assert peak("monitored", declared=False) < plain / 2


@pytest.mark.spark
@pytest.mark.parametrize("setting", ["declared", "declared MODE lean"])
def test_on_spark_nothing_is_missing_where_constraints_hold(
    folder: Path, database: duckdb.DuckDBPyConnection, spark: SparkSession, setting: str
) -> None:
    progress = compared(Session(spark=spark, buckets=2), program(folder, setting), database)
    assert progress.losses is None, "every row that can have a result has it: nothing can be missing"

"""Alerts over the readings of a house and of a factory, late within the declared delay, against DuckDB's joins."""

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
from support.paths import ROOT

from tidegate.session import Session

SHARED = Path(os.environ.get("TIDEGATE_DATA", ROOT.parent / "shared" / "data"))
FILES = 5
SECOND = 1_000_000

pytestmark = pytest.mark.slow

HOUSE = {
    "temperature": "SELECT ts_us, room, temperature AS v FROM '{}/home_rooms/temperature.csv.gz'",
    "humidity": "SELECT ts_us, room, humidity AS v FROM '{}/home_rooms/humidity.csv.gz'",
    "outside": "SELECT ts_us, room, external_temperature::DOUBLE AS v "
    "FROM '{}/home_rooms/merged_30s_with_external.csv.gz'",
}
FACTORY = {
    name: f"SELECT ts_us, {name}::DOUBLE AS v FROM '{{}}/debs2012_manufacturing/debs2012.csv.gz'"
    for name in ("mf01", "mf02", "mf03")
}
DOMAINS = {"temperature": (-20, 50), "humidity": (1, 100), "outside": (-40, 50)}
GAMMA = "(ln(h.v / 100) + 17.62 * t.v / (243.12 + t.v))"
DEW_POINT = f"(243.12 * {GAMMA} / (17.62 - {GAMMA}))"


@dataclass(frozen=True)
class Case:
    """An alert: what is watched of which streams, by alias; how near elements must be; conditions of single streams."""

    streams: dict[str, str]
    value: str
    threshold: float
    distance: int
    delay: int
    keys: tuple[str, ...] = ()
    where: str = "TRUE"

    @property
    def tables(self) -> dict[str, str]:
        return {name: (HOUSE | FACTORY)[name] for name in self.streams.values()}

    def program(self, folder: Path, *, everything: bool = False) -> str:
        columns = "room STRING, " if set(self.streams.values()) & set(HOUSE) else ""
        declared = [
            f"CREATE STREAM {name} (ts_us BIGINT, {columns}v DOUBLE CHECK (v BETWEEN {low} AND {high})) "
            f"FROM '{folder / name}' TIMESTAMP BY ts_us DELAY {self.delay} MICROSECONDS WITH (files_per_batch = 1);"
            for name in self.tables
            for low, high in [DOMAINS.get(name, (0, 100_000))]
        ]
        members = ", ".join(f"{name} {alias}" for alias, name in self.streams.items())
        matching = f"MATCHING {', '.join(self.keys)} " if self.keys else ""
        where = "" if self.where == "TRUE" else f"WHERE {self.where} "
        alert = (
            f"CREATE ALERT alarms FROM {members} WITHIN {self.distance} MICROSECONDS {matching}"
            f"WHEN {self.value} > {self.threshold} {where}{'EMIT ALL' if everything else ''};"
        )
        return "\n".join([*declared, alert])

    @property
    def columns(self) -> list[str]:
        """Of an alarm: its keys, and the time and value of each of its elements."""
        return [*self.keys, *(f"{alias}_{column}" for alias in self.streams for column in ("ts_us", "v"))]

    @property
    def join(self) -> str:
        """All combinations that cross, by brute force."""
        aliases = list(self.streams)
        pairs = [(x, y) for i, x in enumerate(aliases) for y in aliases[i + 1 :]]
        near = [
            f"{x}.ts_us BETWEEN {y}.ts_us - {self.distance} AND {y}.ts_us + {self.distance}"
            + "".join(f" AND {x}.{key} = {y}.{key}" for key in self.keys)
            for x, y in pairs
        ]
        shown = [
            *(f"{aliases[0]}.{key} AS {key}" for key in self.keys),
            *(f"{alias}.{column} AS {alias}_{column}" for alias in aliases for column in ("ts_us", "v")),
        ]
        return (
            f"SELECT {', '.join(shown)}, {self.value} AS value "
            f"FROM {', '.join(f'{name} {alias}' for alias, name in self.streams.items())} "
            f"WHERE {' AND '.join(near)} AND {self.where} AND {self.value} > {self.threshold}"
        )


CASES = {
    "dew point in a room": Case(
        {"h": "humidity", "t": "temperature"}, DEW_POINT, 10.5, 120 * SECOND, 30 * SECOND, ("room",)
    ),
    "dew point above the temperature outside": Case(
        {"h": "humidity", "t": "temperature", "o": "outside"},
        f"{DEW_POINT} - o.v",
        4.5,
        60 * SECOND,
        30 * SECOND,
        ("room",),
    ),
    "one room warmer than another": Case(
        {"x": "temperature", "y": "temperature"},
        "x.v - y.v",
        5.0,
        90 * SECOND,
        30 * SECOND,
        where="x.room = 'living_room' AND y.room = 'kitchen'",
    ),
    "power of two phases": Case({"p": "mf01", "q": "mf02"}, "p.v + q.v", 31_000.0, SECOND // 10, SECOND // 20),
    "phases far from each other": Case(
        {"p": "mf01", "q": "mf02"}, "abs(p.v - q.v)", 1_800.0, SECOND // 10, SECOND // 20
    ),
    "power of three phases": Case(
        {"p": "mf01", "q": "mf02", "r": "mf03"}, "p.v + q.v + r.v", 40_000.0, SECOND // 20, SECOND // 50
    ),
}


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    if not SHARED.exists():
        pytest.skip(f"the shared data is not at {SHARED}")
    connection = duckdb.connect()
    for name, query in (HOUSE | FACTORY).items():
        connection.sql(f"CREATE TABLE {name} AS {query.format(SHARED)}")
    return connection


def lay_out(case: Case, database: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Files of each stream; an element comes up to the delay after its time."""
    random = np.random.default_rng(5)
    for name in case.tables:
        table = database.table(name).to_arrow_table()
        arrival = table["ts_us"].to_numpy() + random.integers(0, case.delay, table.num_rows)
        shuffled = table.take(pa.array(np.argsort(arrival, kind="stable")))
        (folder / name).mkdir()
        for number, rows in enumerate(np.array_split(np.arange(table.num_rows), FILES)):
            file = folder / name / f"{number:04d}.parquet"
            pq.write_table(shuffled.take(pa.array(rows)), file)
            os.utime(file, (number, number))


def alarms(program: str, spark: SparkSession | None = None) -> pa.Table:
    with Session(spark=spark, buckets=2) if spark else Session(runtime="embedded", buckets=2) as session:
        running = session.sql(program, once=True)
        assert running is not None
        running.wait()
        assert not running.progress().dead
        return in_micros(running.results())


def count(database: duckdb.DuckDBPyConnection, rows: str) -> int:
    ((number,),) = database.sql(f"SELECT count(*) FROM ({rows})").fetchall()
    return int(number)


def check_alarms(case: Case, raised: pa.Table, database: duckdb.DuckDBPyConnection) -> None:
    """None is false; and for every combination that crosses, one near it has a value that is as great."""
    database.sql(f"CREATE OR REPLACE TEMP TABLE crossing AS {case.join}")
    database.register("raised", raised)
    columns = ", ".join(case.columns)
    false = f"SELECT {columns} FROM raised EXCEPT SELECT {columns} FROM crossing"
    # Each of its elements was replaced by one that meets the same others.
    near = [f"abs(r.{alias}_ts_us - c.{alias}_ts_us) <= {2 * case.distance}" for alias in case.streams]
    same = [f"r.{key} = c.{key}" for key in case.keys]
    met = " AND ".join(["r.value >= c.value - 1e-9", *near, *same])
    assert count(database, "FROM crossing") > 100
    assert count(database, false) == 0
    assert count(database, f"FROM crossing c ANTI JOIN raised r ON {met}") == 0
    values = f"FROM raised r JOIN crossing c USING ({columns}) WHERE abs(r.value - c.value) > 1e-9"
    assert count(database, values) == 0


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def test_no_alarm_is_false_and_none_is_missed(case: Case, database: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    lay_out(case, database, tmp_path)
    check_alarms(case, alarms(case.program(tmp_path)), database)


@pytest.mark.spark
def test_on_spark_no_alarm_is_false_and_none_is_missed(
    database: duckdb.DuckDBPyConnection, spark: SparkSession, tmp_path: Path
) -> None:
    case = CASES["dew point above the temperature outside"]
    lay_out(case, database, tmp_path)
    check_alarms(case, alarms(case.program(tmp_path), spark), database)


@pytest.mark.parametrize("name", ["dew point in a room", "phases far from each other"])
def test_all_crossing_combinations_are_raised_if_asked_for(
    name: str, database: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    case = CASES[name]
    lay_out(case, database, tmp_path)
    database.register("raised", alarms(case.program(tmp_path, everything=True)))
    columns = ", ".join(case.columns)
    for rows in (f"SELECT {columns} FROM raised", f"SELECT {columns} FROM ({case.join})"):
        assert count(database, rows) > 100
    assert count(database, f"(SELECT {columns} FROM raised) EXCEPT ALL (SELECT {columns} FROM ({case.join}))") == 0
    assert count(database, f"(SELECT {columns} FROM ({case.join})) EXCEPT ALL (SELECT {columns} FROM raised)") == 0


# Not of the factory: its signals fall steeply, and of a steep fall all is needed.
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.keys])
def test_less_is_kept_than_all_crossing_combinations_need(
    name: str, database: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    case = CASES[name]
    lay_out(case, database, tmp_path)
    kept = [peak_rows(case.program(tmp_path, everything=everything)) for everything in (False, True)]
    assert kept[0] < kept[1]


def peak_rows(program: str) -> int:
    with Session(runtime="embedded") as session:
        running = session.sql(program, once=True)
        assert running is not None
        running.wait()
        return running.progress().peak_state_rows

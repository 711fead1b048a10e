"""The Python interface: data in hand as streams, queries over them, and what a running query tells."""

from __future__ import annotations

import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden.canonical import coalesced, output_rows
from reference.instants import OutputRow
from support.micros import in_micros

import tidegate
from tidegate import DataError, QueryError, RunningQuery, Session
from tidegate.runtime.job import Progress
from tidegate.runtime.spark.session import check_workers

PATIENCE = 300
SECOND = 1_000_000
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
START = 1_767_225_600 * SECOND

READINGS = pa.table({"sensor": [1, 2, 1, 2], "celsius": [20.5, 19.0, 23.0, 25.5], "at": [0, 3, 4, 12]})
TOP = "SELECT sensor, MAX(celsius) AS top FROM reading WINDOW(RANGE 10) GROUP BY sensor"
TOPS = [(0, 4, (1, 20.5)), (3, 12, (2, 19.0)), (4, 14, (1, 23.0)), (12, 22, (2, 25.5))]
"""What `TOP` gives for `READINGS`, with validities as long as they can be."""


def rows(table: pa.Table) -> list[OutputRow]:
    return coalesced(output_rows(table.to_batches()))


def until(query: RunningQuery | None, happened: Callable[[Progress], bool]) -> None:
    """Wait for something to show in a query's figures; raises what ended the query, if that comes first."""
    end = time.monotonic() + PATIENCE
    while not happened(query.progress()):
        assert not query.wait(0.05), "it came to its end before that"
        assert time.monotonic() < end, "it did not happen"


@pytest.fixture
def embedded():
    with Session(runtime="embedded") as session:
        yield session


@pytest.fixture(params=["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def session(request):
    """A session of each runtime."""
    settings = {"runtime": "embedded"} if request.param == "embedded" else {"spark": request.getfixturevalue("spark")}
    with Session(**settings, buckets=2) as opened:
        yield opened


# ---- data in hand


def test_an_arrow_table_is_a_stream(session):
    session.stream("reading", READINGS, time="at")
    query = session.sql(TOP)
    assert rows(query.finish()) == TOPS
    assert query.results().schema.names == ["valid_from", "valid_to", "sensor", "top"]
    assert query.results().schema.types[:2] == [pa.timestamp("us", "UTC")] * 2


def test_a_pandas_frame_is_a_stream_and_results_are_one_too(session):
    times = pd.to_datetime([0, 3, 4, 12], unit="us") + pd.Timedelta("999 ns")  # finer than microseconds
    frame = READINGS.to_pandas().assign(at=times, place=pd.Categorical(["attic", "hall", "attic", None]))
    session.stream("reading", frame, time="at", delay="5 microseconds")
    query = session.sql("SELECT sensor, place, at FROM reading WHERE celsius > 20")
    query.finish()
    found = query.to_pandas().sort_values("valid_from", ignore_index=True)
    assert list(found["valid_from"]) == [pd.Timestamp(t, unit="us", tz="UTC") for t in (0, 4, 12)]
    assert list(found["place"].fillna("?")) == ["attic", "attic", "?"]
    assert found["at"][1] == pd.Timestamp(4, unit="us", tz="UTC")
    assert query.progress().watermarks == {"reading": 7}


def test_anything_that_speaks_arrow_is_a_stream(embedded):
    class Speaks:
        def __arrow_c_stream__(self, requested_schema=None):
            return READINGS.__arrow_c_stream__(requested_schema)

    embedded.stream("reading", Speaks(), time="at")
    assert rows(embedded.sql(TOP).finish()) == TOPS


def test_a_stream_without_its_time_column_is_refused(embedded):
    with pytest.raises(DataError) as raised:
        embedded.stream("reading", READINGS, time="time")
    assert raised.value.render() == (
        "error[D105]: stream 'reading' has no column 'time'\n   = hint: available: at, celsius, sensor"
    )
    with pytest.raises(DataError, match="must be a timestamp or integer microseconds"):
        embedded.stream("reading", READINGS, time="celsius")
    with pytest.raises(QueryError, match="is not a duration"):
        embedded.stream("reading", READINGS, time="at", delay="soon")


# ---- queries


def test_a_derived_stream_of_one_call_is_read_in_the_next(session):
    session.stream("reading", READINGS, time="at")
    assert session.sql("CREATE STREAM warm AS SELECT sensor, celsius FROM reading WHERE celsius > 20") is None
    query = session.sql("SELECT COUNT(*) AS n FROM warm WINDOW(RANGE 10)")
    assert rows(query.finish()) == [(0, 4, (1,)), (4, 10, (2,)), (10, 12, (1,)), (12, 14, (2,)), (14, 22, (1,))]


def test_several_queries_of_one_text_have_names(embedded):
    embedded.stream("reading", READINGS, time="at")
    query = embedded.sql(f"{TOP}; SELECT sensor FROM reading WHERE celsius < 20")
    assert query.names == ("query_1", "query_2")
    assert rows(query.finish("query_2")) == [(3, 4, (2,))]
    assert rows(query.results("query_1")) == TOPS
    with pytest.raises(QueryError) as raised:
        query.results("qery_1")
    assert raised.value.render() == "error[Q301]: there is no query 'qery_1'\n   = hint: did you mean 'query_1'?"
    with pytest.raises(QueryError) as raised:
        query.results()
    assert raised.value.hint == "available: query_1, query_2"


def test_a_text_that_could_not_start_can_be_mended_and_said_again(embedded, tmp_path):
    text = f"CREATE STREAM s (k INT, at BIGINT) FROM '{tmp_path}/s.csv' TIMESTAMP BY at; SELECT k FROM s"
    with pytest.raises(DataError):
        embedded.sql(text, once=True)
    (tmp_path / "s.csv").write_text("k,at\n7,0\n")
    query = embedded.sql(text, once=True)
    query.wait()
    assert rows(query.results()) == [(0, 1, (7,))]


def test_explain_shows_the_plans_and_stages_of_a_text_or_of_a_running_query(embedded):
    embedded.stream("reading", READINGS, time="at")
    shown = embedded.explain(TOP)
    for heading in ("query query_1", "logical plan", "optimised plan", "stages"):
        assert heading in shown
    assert embedded.sql(TOP, once=True).explain() == shown


def test_a_wrong_query_shows_its_place(embedded):
    embedded.stream("reading", READINGS, time="at")
    with pytest.raises(QueryError) as raised:
        embedded.sql("SELECT sensors FROM reading")
    assert raised.value.render() == (
        "error[Q102]: reading has no column 'sensors'\n"
        "  --> 1:8\n"
        "   | SELECT sensors FROM reading\n"
        "   |        ^^^^^^^\n"
        "   = hint: did you mean 'sensor'?"
    )


def test_rows_can_be_taken_as_they_come(session):
    found: list[tuple[str, pa.RecordBatch]] = []
    session.stream("reading", READINGS, time="at")
    query = session.sql(TOP, once=True, on_rows=lambda name, batch: found.append((name, batch)))
    assert query.wait()
    assert {name for name, _ in found} == {"query_1"}
    assert coalesced(output_rows(batch for _, batch in found)) == TOPS
    assert len(found) <= 2  # one batch for the step, one at the end, whatever the number of buckets
    for _, batch in found:
        assert output_rows([batch]) == sorted(output_rows([batch]), key=lambda row: row[:2])
    assert query.results().num_rows == 0


def test_results_can_be_written_to_files(session, tmp_path):
    session.stream("reading", READINGS, time="at")
    session.sql(TOP, once=True, out=str(tmp_path / "results")).wait()
    written = [pq.read_table(path) for path in (tmp_path / "results" / "query_1").glob("*.parquet")]
    assert rows(pa.concat_tables(written)) == TOPS


def test_a_running_query_takes_new_rows_until_it_is_finished(embedded, tmp_path):
    """Also a last line that has no end: it is still being written, until the input is taken as finished."""
    file = tmp_path / "reading.csv"
    file.write_text("sensor,celsius,at\n1,20.5,0\n2,19,3\n")
    embedded.sql(f"CREATE STREAM reading (sensor INT, celsius DOUBLE, at BIGINT) FROM '{file}' TIMESTAMP BY at")
    query = embedded.sql(f"{TOP} EMIT EARLY")
    until(query, lambda progress: progress.watermark == 3)
    assert not query.wait(0)
    assert rows(query.results()) == [(0, 3, (1, 20.5))]  # as far as the watermark
    with file.open("a") as more:
        more.write("1,23,4\n2,25.5,1")
    until(query, lambda progress: progress.watermark == 4)
    assert query.progress().rows_in == 3
    with file.open("a") as more:
        more.write("2")
    assert rows(query.finish()) == TOPS
    assert query.progress().rows_in == 4


def test_a_running_query_tells_rows_watermarks_dead_letters_and_bytes_of_state(session, tmp_path):
    folder = tmp_path / "reading"
    folder.mkdir()
    (folder / "1.csv").write_text("sensor,celsius,at\n1,20.5,0\n2,19,3\n1,hot,4\n")
    session.sql(f"CREATE STREAM reading (sensor INT, celsius DOUBLE, at BIGINT) FROM '{folder}' TIMESTAMP BY at")
    query = session.sql(TOP)
    until(query, lambda progress: progress.peak_state_rows > 0)
    progress = query.progress()
    assert (progress.rows_in, progress.dead, progress.watermarks) == (3, {"malformed": 1}, {"reading": 4})
    assert progress.state_bytes > 0
    (folder / ".2.csv").write_text("sensor,celsius,at\n1,21,1\n1,cold,39\n1,23,40\n")
    (folder / ".2.csv").rename(folder / "2.csv")
    until(query, lambda progress: progress.watermarks == {"reading": 40})
    query.stop()
    assert (progress.rows_in, progress.dead) == (6, {"malformed": 2, "late": 1})
    assert progress.rows_out == {"query_1": query.results().num_rows}
    assert progress.peak_state_bytes >= progress.state_bytes > 0
    assert progress.steps >= 2


def test_a_stopped_query_keeps_what_it_had_found(embedded, tmp_path):
    file = tmp_path / "reading.csv"
    file.write_text("sensor,celsius,at\n1,20.5,0\n2,19,3\n")
    embedded.sql(f"CREATE STREAM reading (sensor INT, celsius DOUBLE, at BIGINT) FROM '{file}' TIMESTAMP BY at")
    query = embedded.sql(f"{TOP} EMIT EARLY")
    until(query, lambda progress: progress.watermark == 3)
    query.stop()
    assert query.wait(0)
    assert rows(query.results()) == [(0, 3, (1, 20.5))]


def test_a_session_ends_its_queries_when_it_is_closed(tmp_path):
    (tmp_path / "reading.csv").write_text("sensor,celsius,at\n1,20.5,0\n")
    path = tmp_path / "reading.csv"
    with Session(runtime="embedded") as session:
        session.sql(f"CREATE STREAM reading (sensor INT, celsius DOUBLE, at BIGINT) FROM '{path}' TIMESTAMP BY at")
        query = session.sql(TOP)
        assert "tidegate" in {thread.name for thread in threading.enumerate()}
    assert query.wait(0)
    assert "tidegate" not in {thread.name for thread in threading.enumerate()}


def test_what_ends_a_query_badly_is_raised_to_whoever_waits(embedded, tmp_path):
    file = tmp_path / "reading.csv"
    file.write_text("sensor,celsius,at\n1,20.5,0\n")
    columns = "sensor INT, celsius DOUBLE, at BIGINT"
    embedded.sql(f"CREATE STREAM reading ({columns}) FROM '{file}' TIMESTAMP BY at ON BAD FILE STOP")
    query = embedded.sql(TOP)
    until(query, lambda progress: progress.rows_in == 1)
    file.write_text("")
    with pytest.raises(DataError) as raised:
        query.wait(PATIENCE)
    assert raised.value.code == "D104"


def test_the_package_offers_the_session_and_the_errors():
    assert tidegate.Session is Session
    assert all(hasattr(tidegate, name) for name in tidegate.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Sessions'"):
        _ = tidegate.Sessions


# ---- on Spark


def write_parquet(folder: Path, name: str, seconds: list[int], celsius: list[float], unit: str = "us") -> None:
    """Readings of sensor 1, those below 20 degrees noted as cold."""
    folder.mkdir(exist_ok=True)
    times = pa.array([NEW_YEAR + timedelta(seconds=s) for s in seconds], pa.timestamp("us", "UTC"))
    notes = ["cold" if c < 20 else "fine" for c in celsius]
    columns = {"sensor": [1] * len(seconds), "celsius": celsius, "note": notes, "unused": celsius}
    pq.write_table(pa.table({**columns, "ts": times.cast(pa.timestamp(unit, "UTC"))}), folder / f".{name}")
    (folder / f".{name}").rename(folder / name)  # whole or not at all, for a query that is watching


def stream_from(folder: Path) -> str:
    columns = "sensor INT, celsius DOUBLE, note STRING, ts TIMESTAMP"
    return f"CREATE STREAM reading ({columns}) FROM '{folder}' TIMESTAMP BY ts;"


WARMEST = "SELECT MAX(celsius) AS top FROM reading WINDOW(RANGE 10 SECONDS) WHERE sensor = 1 AND note <> 'cold'"


def validity(start: int, end: int, *values: object) -> tuple[int, int, tuple[object, ...]]:
    return START + start * SECOND, START + end * SECOND, values


@pytest.mark.spark
def test_a_streaming_frame_of_spark_is_a_stream(spark, tmp_path, capsys):
    """Spark checks conditions and reads only needed columns; rows that nobody wants still move time on."""
    folder = tmp_path / "reading"
    write_parquet(folder, "1.parquet", [0, 2], [21.0, 22.0])
    columns = "sensor BIGINT, celsius DOUBLE, note STRING, unused DOUBLE, ts TIMESTAMP"
    frame = spark.readStream.schema(columns).parquet(str(folder))
    with Session(spark=spark, buckets=2) as session:
        session.stream("reading", frame, time="ts", delay="5 seconds")
        query = session.sql(WARMEST)
        until(query, lambda progress: progress.watermarks == {"reading": START - 3 * SECOND})
        assert query.results().num_rows == 0
        write_parquet(folder, "2.parquet", [30], [3.0])  # nobody wants it, but now it is 30 seconds past
        until(query, lambda progress: progress.watermarks == {"reading": START + 25 * SECOND})
        assert rows(query.results()) == [validity(0, 2, 21.0), validity(2, 12, 22.0)]
        assert query.progress().rows_in == 3
        capsys.readouterr()
        query._run._feeds[0].query.explain()
        plan = capsys.readouterr().out
        write_parquet(folder, "3.parquet", [28], [25.0])
        assert rows(query.finish()) == [validity(0, 2, 21.0), validity(2, 12, 22.0), validity(28, 38, 25.0)]
    assert re.search(r"coalesce\(\(\(\(sensor#\d+L = 1\) AND NOT \(note#\d+ = cold\)\)", plan)
    assert re.search(r"if \(wanted__#\d+\) celsius#\d+ else null AS celsius#\d+", plan)
    assert "ReadSchema: struct<sensor:bigint,celsius:double,note:string,ts:timestamp>" in plan
    assert "unused" not in plan


@pytest.mark.spark
def test_times_of_a_streaming_frame_have_a_unit_though_spark_filters_it(spark, tmp_path):
    """A row that Spark's filter leaves out moves time on by as much as its unit says."""
    at = [1_700_000_000_000, 1_700_000_001_000, 1_700_000_009_000]
    pq.write_table(pa.table({"k": [1, 2, 2], "at": at}), tmp_path / "s.parquet")
    frame = spark.readStream.schema("k BIGINT, at BIGINT").parquet(str(tmp_path))
    with Session(spark=spark, buckets=1) as session:
        session.stream("s", frame, time="at", unit="milliseconds")
        query = session.sql("SELECT at FROM s WHERE k = 1")
        assert rows(query.finish()) == [(at[0] * 1000, at[0] * 1000 + 1, (at[0],))]
        assert query.progress().watermarks == {"s": at[2] * 1000}
        assert query.warnings == ()


@pytest.mark.spark
def test_rows_that_a_pushed_filter_leaves_out_are_no_dead_letters_but_rows_that_fail_are(spark, tmp_path):
    """Unknown AND failing fails: then a row is not left out, however much of the condition Spark checks."""
    columns = {"k": pa.array([1, None, 2, 1], pa.int64()), "b": [1, 0, 0, 0], "at": [0, 1, 2, 3]}
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")
    stream = f"CREATE STREAM s (k BIGINT, b BIGINT, at BIGINT) FROM '{tmp_path}/s.parquet' TIMESTAMP BY at;"
    for settings in ({"spark": spark}, {"runtime": "embedded"}):
        with Session(**settings, buckets=1) as session:
            query = session.sql(stream + "SELECT k FROM s WHERE k = 1 AND 10 / b > 1")
            assert rows(query.finish()) == [(0, 1, (1,))]
            assert sorted(letter["time"] for letter in in_micros(query.dead_letters()).to_pylist()) == [1, 3]


@pytest.mark.spark
def test_a_frame_of_spark_that_ends_is_a_stream_too(spark):
    frame = spark.createDataFrame(
        [(1, 20.5, 0), (2, 19.0, 3), (1, 23.0, 4), (2, 25.5, 12)], "sensor INT, celsius DOUBLE, at BIGINT"
    )
    with Session(spark=spark, buckets=2) as session:
        session.stream("reading", frame, time="at")
        assert rows(session.sql(TOP).finish()) == TOPS
    with Session(runtime="embedded") as session, pytest.raises(DataError) as raised:
        session.stream("reading", frame, time="at")
    assert raised.value.hint == 'use Session(runtime="spark")'


@pytest.mark.spark
def test_times_in_nanoseconds_as_pandas_writes_them(spark, tmp_path):
    write_parquet(tmp_path / "reading", "1.parquet", [0, 2], [21.0, 22.0], unit="ns")
    stream = stream_from(tmp_path / "reading")
    with Session(spark=spark, buckets=1) as session:
        query = session.sql(stream + WARMEST)
        assert rows(query.finish()) == [validity(0, 2, 21.0), validity(2, 12, 22.0)]
        assert query.progress().watermarks == {"reading": START + 2 * SECOND}


@pytest.fixture
def other_settings(spark):
    """Settings that a session of the user's own may have, and that must make no difference."""
    settings = {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.shuffle.partitions": "7",
    }
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in before.items():
        spark.conf.set(key, value)


@pytest.mark.spark
def test_the_settings_of_the_session_make_no_difference(other_settings, tmp_path):
    write_parquet(tmp_path / "reading", "1.parquet", [0, 2, 40], [21.0, 22.0, 23.0])
    stream = stream_from(tmp_path / "reading")
    text = (
        "SELECT sensor, MAX(ts) AS last, COUNT(*) AS n FROM reading WINDOW(RANGE 10 SECONDS)"
        " WHERE ts < TIMESTAMP '2026-01-01 00:00:30Z' GROUP BY sensor"
    )
    found = []
    for settings in ({"spark": other_settings}, {"runtime": "embedded"}):
        with Session(**settings, buckets=3) as session:
            found.append(rows(session.sql(stream + text).finish()))
    expected = [
        (NEW_YEAR, 0, 2, 1),
        (NEW_YEAR + timedelta(seconds=2), 2, 10, 2),
        (NEW_YEAR + timedelta(seconds=2), 10, 12, 1),
    ]
    assert found[0] == found[1] == [validity(a, b, 1, last, n) for last, a, b, n in expected]


@pytest.mark.spark
def test_a_session_of_spark_that_is_there_is_used_and_left_running(spark):
    with Session(buckets=1) as session:
        session.stream("reading", READINGS, time="at")
        assert rows(session.sql(TOP).finish()) == TOPS
    assert spark.range(3).count() == 3


@pytest.mark.spark
@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets")
def test_workers_of_spark_talk_over_unix_sockets(spark):
    # Over TCP, most jobs wait 40 ms for a delayed acknowledgement.
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ["PYTHON_UNIX_DOMAIN_ENABLED"]).collect()
    assert found[0].lower() == "true"


@pytest.mark.spark
def test_a_query_on_spark_can_be_stopped_and_goes_on_from_its_checkpoint(spark, tmp_path):
    folder = tmp_path / "reading"
    write_parquet(folder, "1.parquet", [0, 2], [21.0, 22.0])
    stream = stream_from(folder)
    places: Any = {"checkpoint": str(tmp_path / "state"), "out": str(tmp_path / "results")}
    with Session(spark=spark, buckets=2) as session:
        first = session.sql(stream + WARMEST, **places)
        until(first, lambda progress: progress.watermark is not None)
        first.stop()
        assert first.wait(PATIENCE)
    write_parquet(folder, "2.parquet", [8], [23.0])
    with Session(spark=spark) as session:  # buckets as the checkpoint has them
        second = session.sql(stream + WARMEST, **places)
        second.finish()
        assert second._run.job.buckets == 2
    written = [pq.read_table(path) for path in (tmp_path / "results" / "query_1").glob("*.parquet")]
    assert rows(pa.concat_tables(written)) == [validity(0, 2, 21.0), validity(2, 8, 22.0), validity(8, 18, 23.0)]


@pytest.mark.spark
def test_workers_that_cannot_import_what_a_query_needs_are_refused_at_once(spark, monkeypatch):
    monkeypatch.setattr("tidegate.runtime.spark.session._equipped", set())
    check_workers(spark)
    monkeypatch.setattr("tidegate.runtime.spark.session._equipped", set())
    with pytest.raises(DataError, match="cannot import tidegate") as raised:
        check_workers(spark, "no_such_module")
    assert raised.value.code == "D405"
    assert "PYSPARK_PYTHON" in (raised.value.hint or "")


@pytest.mark.spark
def test_a_source_folder_that_is_removed_while_a_query_runs_is_named(spark, tmp_path):
    folder = tmp_path / "reading"
    for number in range(50):
        write_parquet(folder, f"{number:02d}.parquet", [number], [21.0])
    stream = stream_from(folder).replace(";", " WITH (files_per_batch = 1);")
    with Session(spark=spark, buckets=1) as session:
        running = session.sql(stream + WARMEST)
        until(running, lambda progress: progress.watermark is not None)
        shutil.rmtree(folder)
        # Spark may miss the folder, or a task the file that it is to read.
        with pytest.raises(DataError, match=str(folder)) as raised:
            running.wait(PATIENCE)
    assert raised.value.code in {"D104", "D408"}

"""Times of results and dead letters as users see them: readable in texts, real timestamps in Arrow and Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden.canonical import coalesced, output_rows
from hypothesis import example, given
from hypothesis import strategies as st
from reference.instants import OutputRow
from support.micros import in_micros
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.errors import DataError, QueryError
from tidegate.expressions.parse.times import format_timestamps
from tidegate.physical.common.batch import Batch
from tidegate.runtime.outputs import result_rows
from tidegate.runtime.running_query import RunningQuery
from tidegate.session import Session
from tidegate.time import BEGINNING, FOREVER

TIMESTAMP = pa.timestamp("us", "UTC")
MINUTE = 60_000_000
READING = "CREATE STREAM reading (value INT, at TIMESTAMP) FROM '{folder}/reading.csv' TIMESTAMP BY at;"
ROWS = "value,at\n7,2026-01-01T00:08:00Z\n9,2026-01-01T00:08:00.25Z\n"
BAD = "x,2026-01-01T00:09:00Z\n"
UNITS = "CREATE TABLE unit (name STRING) FROM '{folder}/unit.csv';"
EVER = "SELECT value, at FROM reading WINDOW(RANGE UNBOUNDED);"
"""Rows that stay valid for ever."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reading.csv").write_text(ROWS)
    (tmp_path / "unit.csv").write_text("name\nmetre\n")
    return tmp_path


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    with Session(runtime="embedded") as opened:
        opened.sql((READING + UNITS).format(folder=folder))
        yield opened


def run(session: Session, text: str, **options: Any) -> RunningQuery:
    running = session.sql(text, once=True, **options)
    assert running is not None
    running.wait()
    return running


def printed(folder: Path, text: str, *options: str) -> str:
    (folder / "query.sql").write_text(text.format(folder=folder))
    said = CliRunner().invoke(app, ["run", str(folder / "query.sql"), "--runtime", "embedded", "--once", *options])
    assert said.exception is None or said.exit_code == 3, said.output
    return said.stdout


def test_validities_are_timestamps_in_arrow_and_pandas(session, folder):
    running = run(session, "SELECT MAX(value) AS top FROM reading WINDOW(RANGE 1 HOUR)")
    assert running.results().schema.types == [TIMESTAMP, TIMESTAMP, pa.int32()]
    assert running.results().to_pylist()[0] == {
        "valid_from": datetime(2026, 1, 1, 0, 8, tzinfo=UTC),
        "valid_to": datetime(2026, 1, 1, 0, 8, 0, 250_000, UTC),
        "top": 7,
    }
    assert list(running.to_pandas()["valid_to"])[1] == pd.Timestamp("2026-01-01T01:08:00.25Z")


def test_callbacks_get_timestamps_too(session, folder):
    found: list[pa.RecordBatch] = []
    run(session, EVER, on_rows=lambda _, rows: found.append(rows))
    assert [batch.schema.types for batch in found] == [[TIMESTAMP, TIMESTAMP, pa.int32(), TIMESTAMP]]


def test_an_end_that_never_comes_and_a_beginning_that_never_was_are_null(session, folder):
    running = run(session, EVER)
    assert running.results()["valid_to"].to_pylist() == [None, None]
    always = run(session, "SELECT name FROM unit")
    assert always.results().to_pylist() == [{"valid_from": None, "valid_to": None, "name": "metre"}]


def test_a_granularity_does_not_give_a_beginning_to_what_has_none():
    nearly = np.array([BEGINNING + 17, BEGINNING, 0])
    rows = result_rows(
        Batch(nearly, np.array([FOREVER, FOREVER + 5, FOREVER - 1]), pa.RecordBatch.from_pydict({"a": [1, 2, 3]}))
    )
    assert rows.column("valid_from").is_null().to_pylist() == [True, True, False]
    assert rows.column("valid_to").is_null().to_pylist() == [True, True, False]


AS_TABLE = """\
valid_from                   valid_to  value  at
2026-01-01T00:08:00Z         NULL          7  2026-01-01T00:08:00Z
2026-01-01T00:08:00.250000Z  NULL          9  2026-01-01T00:08:00.250000Z
"""
AS_CSV = """\
valid_from,valid_to,value,at
2026-01-01T00:08:00Z,,7,2026-01-01T00:08:00Z
2026-01-01T00:08:00.250000Z,,9,2026-01-01T00:08:00.250000Z
"""
AS_JSON = """\
{"valid_from": "2026-01-01T00:08:00Z", "valid_to": null, "value": 7, "at": "2026-01-01T00:08:00Z"}
{"valid_from": "2026-01-01T00:08:00.250000Z", "valid_to": null, "value": 9, "at": "2026-01-01T00:08:00.250000Z"}
"""


@pytest.mark.parametrize(("shape", "expected"), [("table", AS_TABLE), ("csv", AS_CSV), ("jsonl", AS_JSON)])
def test_times_are_iso_8601_in_texts_and_no_end_is_empty(folder, shape, expected):
    assert printed(folder, READING + EVER, "--quiet", "--format", shape) == expected


def test_times_can_be_integers(session, folder):
    text = READING + "SELECT value, at FROM reading;"
    eight = 1_767_226_080_000_000
    csv = printed(folder, text, "--quiet", "--format", "csv", "--times", "micros")
    assert csv.splitlines()[1] == f"{eight},{eight + 1},7,{eight}"
    found = run(session, EVER + "SELECT ARRAY[at] AS many FROM reading", times="micros")
    assert found.results("query_1").to_pylist()[0] == {"valid_from": eight, "valid_to": None, "value": 7, "at": eight}
    assert found.results("query_2")["many"].to_pylist()[0] == [eight]


def test_an_unknown_form_of_times_is_refused_with_the_choices(session):
    with pytest.raises(QueryError) as raised:
        session.sql("SELECT value FROM reading", times="unix")
    assert raised.value.render() == "error[Q306]: times cannot be written as 'unix'\n   = hint: available: iso, micros"


def test_dead_letters_have_the_same_form(session, folder):
    (folder / "reading.csv").write_text(ROWS + BAD)
    for times, expected in (("iso", "2026-01-01T00:09:00Z"), ("micros", 1_767_226_140_000_000)):
        out = folder / times
        run(session, EVER, out=str(out), times=times)
        [file] = (out / "dead_letters").glob("*.jsonl")
        assert pd.read_json(file, lines=True, convert_dates=False)["time"].tolist() == [expected]
    [letter] = run(session, EVER).dead_letters().to_pylist()
    assert letter["time"] == datetime(2026, 1, 1, 0, 9, tzinfo=UTC)


def test_times_far_from_ours_are_shown_with_a_signed_year(session, folder):
    times = [
        -(2**60),
        -62_167_219_200_000_001,
        -62_135_596_800_000_000,
        253_402_300_799_999_999,
        253_402_300_800_000_000,
    ]
    session.stream("far", pa.table({"at": times}), time="at")
    rows = run(session, "SELECT at FROM far").results()
    assert format_timestamps(rows["valid_from"].combine_chunks()).to_pylist() == [
        "-34565-05-17T02:29:53.153024Z",
        "-0001-12-31T23:59:59.999999Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "+10000-01-01T00:00:00Z",
    ]
    (folder / "far.csv").write_text(f"at\n{2**60}\n")
    shown = printed(
        folder, "CREATE STREAM far (at BIGINT) FROM '{folder}/far.csv' TIMESTAMP BY at; SELECT at FROM far;"
    )
    assert shown.splitlines()[1].startswith("+38504-08-17T21:30:06.846976Z  +38504-08-17T21:30:06.846977Z")


@given(st.lists(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)) | st.none(), max_size=5))  # noqa: DTZ001
@example([datetime(2026, 1, 1), None, datetime(2026, 1, 1, 0, 0, 0, 1)])  # noqa: DTZ001
def test_texts_of_times_are_those_of_python(times):
    expected = [None if t is None else f"{t.isoformat()}Z" for t in times]
    column = pa.array(times, pa.timestamp("us")).cast(TIMESTAMP)
    assert format_timestamps(column).to_pylist() == expected
    assert format_timestamps(pa.concat_arrays([column, column]).slice(len(times))).to_pylist() == expected


# ---- results as a source


@pytest.mark.parametrize("times", ["iso", "micros"])
@pytest.mark.parametrize("shape", ["parquet", "csv", "jsonl"])
def test_results_can_be_read_again_with_their_validities(session, folder, shape, times):
    """Also those that never end."""
    asked = {
        "ever": "SELECT value FROM reading WINDOW(RANGE UNBOUNDED)",
        "top": "SELECT MAX(value) AS value FROM reading WINDOW(RANGE 1 MINUTE)",
    }
    type_ = "TIMESTAMP" if times == "iso" else "BIGINT"
    for name, query in asked.items():
        expected = _relation(run(session, query))
        run(session, query, out=str(folder / name), format=shape, times=times)
        again = run(
            session,
            f"CREATE STREAM {name} (valid_from {type_}, valid_to {type_}, value INT) FROM '{folder}/{name}/query_1'"
            f" VALID FROM valid_from TO valid_to; SELECT value FROM {name}",
        )
        assert _relation(again) == expected
        assert not again.progress().dead


def test_parquet_holds_timestamps(session, folder):
    run(session, EVER, out=str(folder / "out"))
    found = pq.read_table(folder / "out" / "query_1")
    assert found.schema.types == [TIMESTAMP, TIMESTAMP, pa.int32(), TIMESTAMP]
    assert found["valid_to"].null_count == 2


def test_a_row_without_a_beginning_or_with_a_bad_end_is_a_dead_letter(session, folder):
    (folder / "s.csv").write_text("k,a,b\n1,,\n2,5,never\n3,5,\n4,5,4\n5,5,6\n")
    running = run(
        session, f"CREATE STREAM s (k INT, a BIGINT, b BIGINT) FROM '{folder}/s.csv' VALID FROM a TO b; SELECT k FROM s"
    )
    assert coalesced(output_rows(running.results().to_batches())) == [(5, 6, (5,)), (5, FOREVER, (3,))]
    letters = in_micros(running.dead_letters()).to_pylist()
    assert [(letter["reason"], letter["time"]) for letter in letters] == [
        ("no_time", None),
        ("malformed", 5),
        ("time_range", 5),
    ]


def test_a_window_over_rows_that_never_end_is_refused_when_one_comes(session, folder):
    (folder / "s.csv").write_text("a,b\n5,6\n6,\n")
    stream = f"CREATE STREAM s (a BIGINT, b BIGINT) FROM '{folder}/s.csv' VALID FROM a TO b;"
    with pytest.raises(DataError, match="valid for ever cannot be split") as raised:
        run(session, stream + "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 5)")
    assert raised.value.code == "D120"


def test_a_window_over_a_row_of_hours_is_refused_when_it_comes_unless_time_is_coarser(session, folder):
    (folder / "s.csv").write_text("a,b\n2026-01-01T00:00:00Z,2026-01-01T02:00:00Z\n")
    stream = f"CREATE STREAM s (a TIMESTAMP, b TIMESTAMP) FROM '{folder}/s.csv' VALID FROM a TO b;"
    session.sql(stream)
    for query in ("SELECT COUNT(*) AS n FROM s WINDOW(RANGE 4 HOURS)", "SELECT a FROM s WINDOW(RANGE 4 HOURS)"):
        with pytest.raises(DataError, match=r"valid for 2 hours: .* each of its 7,200,000,000 instants") as raised:
            run(session, query)
        assert (raised.value.code, "GRANULARITY(1 MINUTE)" in str(raised.value.hint)) == ("D121", True)
    query = "SELECT COUNT(*) AS n FROM (SELECT a FROM s GRANULARITY(1 HOUR)) h WINDOW(RANGE 4 HOURS)"
    found = run(session, query)
    assert max(found.results().column("n").to_pylist()) == 2


def _relation(running: RunningQuery) -> list[OutputRow]:
    return coalesced(output_rows(running.results().to_batches()))

"""Live runs over folders: the first file may come later, and a bad one does not end the run. On both runtimes."""

from __future__ import annotations

import gzip
import json
import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.cli.announce import announce
from tidegate.errors import DataError
from tidegate.language.bind.program import bind
from tidegate.runtime.checkpoint import Checkpoint
from tidegate.runtime.compile import compile_job
from tidegate.runtime.running_query import RunningQuery
from tidegate.session import Session

PATIENCE = 60


@pytest.fixture(params=["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def session(request: pytest.FixtureRequest):
    if request.param == "embedded":
        opened = Session(runtime="embedded", buckets=1)
    else:
        opened = Session(spark=request.getfixturevalue("spark"), buckets=1)
    with opened:
        yield opened


def stream(location: object, clauses: str = "") -> str:
    return f"CREATE STREAM s (k INT, at BIGINT) FROM '{location}' TIMESTAMP BY at DELAY 1 SECOND {clauses};"


def until(running: RunningQuery | None, rows: int) -> None:
    end = time.monotonic() + PATIENCE
    while running.progress().rows_in < rows:
        assert not running.has_ended(0.1)
        assert time.monotonic() < end, running.progress()


def keys(running: RunningQuery | None) -> list[int]:
    return sorted(running.results().column("k").to_pylist())


def write(path: Path, text: str) -> None:
    """A file that is there as a whole at once."""
    path.parent.mkdir(exist_ok=True)
    (path.parent / f".{path.name}").write_text(text)
    (path.parent / f".{path.name}").rename(path)


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]


# ---- the first file


@pytest.mark.parametrize(("pattern", "clauses"), [("", "WITH (format = 'csv')"), ("/*.csv", "")])
def test_a_live_run_waits_for_its_first_file(session, tmp_path, pattern, clauses):
    (tmp_path / "in").mkdir()
    running = session.sql(stream(f"{tmp_path}/in{pattern}", clauses) + "SELECT k FROM s")
    assert not running.wait(1)
    write(tmp_path / "in" / "1.csv", "at,k\n10,1\n20,2\n")
    until(running, 2)
    running.finish()
    assert keys(running) == [1, 2]


def test_what_a_live_run_waits_for_is_shown(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    program = bind(stream(f"{tmp_path}/in/*.csv") + "SELECT k FROM s")
    announce(compile_job(program, sinks={}, live=True))
    waiting = f"stream 's' has no file yet: waiting for the first one at {tmp_path}/in/*.csv\n"
    assert capsys.readouterr().err == waiting
    write(tmp_path / "in" / "1.csv", "at,k\n10,1\n")
    announce(compile_job(program, sinks={}, live=True))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("location", ["in/x.csv", "nowhere/*.csv", "nowhere"])
def test_a_live_run_does_not_wait_for_a_file_or_folder_that_is_probably_misspelt(tmp_path, location):
    (tmp_path / "in").mkdir()
    program = bind(stream(tmp_path / location, "WITH (format = 'csv')") + "SELECT k FROM s")
    with pytest.raises(DataError, match="no data at"):
        compile_job(program, sinks={}, live=True)


def test_a_run_over_what_is_there_does_not_wait(tmp_path):
    program = bind(stream(tmp_path, "WITH (format = 'csv')") + "SELECT k FROM s")
    with pytest.raises(DataError, match="no data at"):
        compile_job(program, sinks={}, live=False)


# ---- bad files


def test_a_bad_file_in_a_live_run_is_one_dead_letter_also_after_a_restart(session, tmp_path):
    text = stream(tmp_path / "in") + "SELECT k FROM s"
    places = {"checkpoint": str(tmp_path / "state"), "out": str(tmp_path / "out"), "format": "jsonl"}
    write(tmp_path / "in" / "1.csv", "k,at\n1,10\n")
    running = session.sql(text, **places)
    until(running, 1)
    write(tmp_path / "in" / "2.csv", "key,at\n2,20\n")
    until(running, 2)
    write(tmp_path / "in" / "3.csv", "at,k\n30,3\n")
    until(running, 3)
    running.stop()
    write(tmp_path / "in" / "4.csv", "k,at\n4,40\n")
    session.sql("DROP STREAM s")
    session.sql(text, **places).finish()
    assert sorted(row["k"] for row in written(tmp_path / "out" / "query_1")) == [1, 3, 4]
    (letter,) = written(tmp_path / "out" / "dead_letters")
    assert (letter["origin"], letter["reason"], letter["time"]) == ("s", "bad_file", None)
    assert letter["file"] == f"{tmp_path}/in/2.csv"
    assert "2.csv has no column 'k'; declared: k, at; found:    key, at" in letter["detail"]


@pytest.mark.spark
def test_a_bad_file_on_spark_ends_the_run_if_the_stream_says_so(spark, tmp_path):
    write(tmp_path / "in" / "1.csv", "k,at\n1,10\n")
    with Session(spark=spark, buckets=1) as session:
        running = session.sql(stream(tmp_path / "in", "ON BAD FILE STOP") + "SELECT k FROM s")
        until(running, 1)
        write(tmp_path / "in" / "2.csv", "key,at\n2,20\n")
        with pytest.raises(DataError) as raised:
            running.wait(PATIENCE)
    assert raised.value.code == "D103"


def damaged(folder: Path, kind: str) -> None:
    rows = "".join(f"{i},{i}\n" for i in range(50_000))
    packed = gzip.compress(f"k,at\n{rows}".encode())
    match kind:
        case "truncated.csv.gz":
            content = packed[: len(packed) // 2]
        case "flipped.csv.gz":
            content = bytes([*packed[:-8], packed[-8] ^ 1, *packed[-7:]])
        case "text.csv.gz":
            content = b"k,at\n1,1\n"
        case "text.parquet":
            content = b"k,at\n1,1\n"
        case "column.parquet":
            pq.write_table(pa.table({"k": [True], "at": [1]}), folder / kind)
            return
    (folder / kind).write_bytes(content)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("truncated.csv.gz", "cannot be read"),
        ("flipped.csv.gz", "cannot be read"),
        ("text.csv.gz", "cannot be read"),
        ("text.parquet", "cannot be read"),
        ("column.parquet", "column 'k' of .* is bool, declared INT"),
    ],
)
def test_no_row_of_a_damaged_file_is_used(tmp_path, kind, reason):
    (tmp_path / "in").mkdir()
    damaged(tmp_path / "in", kind)
    if kind.endswith("parquet"):
        pq.write_table(pa.table({"k": [1], "at": [10]}), tmp_path / "in" / "a.parquet")
    else:
        write(tmp_path / "in" / "a.csv", "k,at\n1,10\n")
    with Session(runtime="embedded") as session:
        running = session.sql(stream(tmp_path / "in") + "SELECT k FROM s")
        running.finish()
        assert keys(running) == [1]
        (letter,) = running.dead_letters().to_pylist()
    assert letter["reason"] == "bad_file"
    assert letter["file"] == f"{tmp_path}/in/{kind}"
    assert re.search(reason, letter["detail"])


def test_a_file_that_shrank_is_a_dead_letter(tmp_path):
    write(tmp_path / "in" / "1.csv", "k,at\n1,10\n")
    with Session(runtime="embedded") as session:
        running = session.sql(stream(tmp_path / "in") + "SELECT k FROM s")
        until(running, 1)
        (tmp_path / "in" / "1.csv").write_text("")
        write(tmp_path / "in" / "2.csv", "k,at\n2,20\n")
        until(running, 3)
        running.finish()
        assert keys(running) == [1, 2]
        assert running.dead_letters().column("reason").to_pylist() == ["bad_file"]


def test_storage_that_fails_ends_the_run_and_is_no_bad_file(tmp_path, monkeypatch):
    """The file may be all right when the storage is back."""
    write(tmp_path / "in" / "1.csv", "k,at\n1,10\n")
    with Session(runtime="embedded") as session:
        running = session.sql(stream(tmp_path / "in") + "SELECT k FROM s")
        until(running, 1)

        def fails(*_: object, **__: object) -> None:
            raise OSError("the network is down")

        monkeypatch.setattr("tidegate.connectors.files._open_at", fails)
        monkeypatch.setattr("tidegate.connectors.files._read_stored_bytes", fails)
        write(tmp_path / "in" / "2.csv", "k,at\n2,20\n")
        with pytest.raises(DataError, match="the network is down") as raised:
            running.wait(PATIENCE)
        assert raised.value.code == "D104"


# ---- checkpoints of another program


def test_a_checkpoint_of_another_program_is_refused_before_spark_starts(tmp_path):
    write(tmp_path / "in" / "1.csv", "k,at\n1,10\n")
    Checkpoint(str(tmp_path / "state")).claim({"queries": {}, "streams": {}, "buckets": 2})
    with Session(runtime="spark") as session:
        with pytest.raises(DataError) as raised:
            session.sql(stream(tmp_path / "in") + "SELECT k FROM s", checkpoint=str(tmp_path / "state"))
        assert session._spark is None
    assert raised.value.code == "D303"
    assert f"stream 's'\n     was: (none)\n     now: from '{tmp_path}/in' timestamp by at delay 1 second" in str(
        raised.value
    )

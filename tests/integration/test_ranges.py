"""A step is a recorded set of ranges: what is read is read once, and a repeated step reads the same or says why not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from tidegate.connectors import text_splits
from tidegate.errors import DataError
from tidegate.runtime.checkpoint import Checkpoint
from tidegate.runtime.running_query import RunningQuery
from tidegate.runtime.spark import step_job, step_ranges
from tidegate.session import Session

PATIENCE = 60
RUNTIMES = ["embedded", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> Any:
    """A function that opens a session."""
    return opener(request, request.param)


def opener(request: pytest.FixtureRequest, name: str) -> Any:
    if name == "embedded":
        return lambda **options: Session(runtime="embedded", **{"buckets": 1, **options})
    spark = request.getfixturevalue("spark")
    return lambda **options: Session(spark=spark, **{"buckets": 1, **options})


def stream(location: object, clauses: str = "") -> str:
    return f"CREATE STREAM s (k INT, at BIGINT) FROM '{location}' TIMESTAMP BY at DELAY 1 SECOND {clauses};"


QUERY = "SELECT k FROM s"


def until(running: RunningQuery | None, rows: int) -> None:
    end = time.monotonic() + PATIENCE
    while running.progress().rows_in < rows:
        assert not running.has_ended(0.05)
        assert time.monotonic() < end, running.progress()


def keys(running: RunningQuery | None) -> list[int]:
    return sorted(running.results().column("k").to_pylist())


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]


def places(folder: Path) -> dict[str, str]:
    return {"checkpoint": str(folder / "state"), "out": str(folder / "out"), "format": "jsonl"}


def run_all(open_session: Any, text: str, folder: Path, **options: Any) -> list[int]:
    with open_session(**options) as session:
        session.sql(text, once=True, **places(folder)).finish()
    return sorted(row["k"] for row in written(folder / "out" / "query_1"))


def undo_last_step(folder: Path) -> None:
    """Leave the checkpoint as a crash would that came after the results and before the record."""
    max((folder / "state" / "steps").glob("*.json")).unlink()


@pytest.fixture
def two_files(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("k,at\n1,10\n")
    (tmp_path / "in" / "2.csv").write_text("k,at\n2,20\n")
    return tmp_path


# ---- repeated steps


def test_a_step_that_is_repeated_reads_what_it_read_before(runtime, two_files):
    text = stream(two_files / "in", "WITH (files_per_batch = 1)") + QUERY
    assert run_all(runtime, text, two_files) == [1, 2]
    undo_last_step(two_files)
    # Listed now, 1.5.csv would be read before 2.csv, and the new line with it.
    (two_files / "in" / "1.5.csv").write_text("k,at\n3,15\n")
    with (two_files / "in" / "2.csv").open("a") as more:
        more.write("4,21\n")
    assert run_all(runtime, text, two_files) == [1, 2, 3, 4]
    labels = {row["k"]: file.name[:14] for file in (two_files / "out" / "query_1").iterdir() for row in _rows(file)}
    assert labels[2] == "batch-00000002"
    assert labels[3] > labels[2]
    assert labels[4] > labels[2]


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in file.read_text().splitlines()) if file.is_file() else iter(())


@pytest.mark.parametrize("change", ["delete", "rewrite", "rewrite_longer", "truncate"])
def test_a_step_that_cannot_be_repeated_names_the_file(runtime, two_files, change):
    text = stream(two_files / "in", "WITH (files_per_batch = 1)") + QUERY
    assert run_all(runtime, text, two_files) == [1, 2]
    undo_last_step(two_files)
    path = two_files / "in" / "2.csv"
    match change:
        case "delete":
            path.unlink()
        case "rewrite":
            path.write_text("k,at\n9,20\n")
        case "rewrite_longer":
            path.write_text("k,at\n9,20\n9,20\n")
        case "truncate":
            path.write_text("k,at\n")
    with pytest.raises(DataError) as caught:
        run_all(runtime, text, two_files)
    assert caught.value.code == "D310"
    assert str(path) in caught.value.message
    # With the file as it was, the run goes on.
    path.write_text("k,at\n2,20\n")
    assert run_all(runtime, text, two_files) == [1, 2]


def test_a_parquet_file_that_was_replaced_cannot_be_read_again(runtime, tmp_path):
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({"k": [1], "at": [10]}), path)
    text = stream(path) + QUERY
    assert run_all(runtime, text, tmp_path) == [1]
    undo_last_step(tmp_path)
    pq.write_table(pa.table({"k": [2], "at": [10]}), path)
    with pytest.raises(DataError) as caught:
        run_all(runtime, text, tmp_path)
    assert (caught.value.code, str(path) in caught.value.message) == ("D310", True)


# ---- files that change while a query runs


def test_appended_lines_are_read(runtime, two_files):
    path = two_files / "in" / "1.csv"
    with runtime() as session:
        running = session.sql(stream(two_files / "in") + QUERY)
        until(running, 2)
        with path.open("a") as more:
            more.write("3,30\n4,4")
        until(running, 3)
        with path.open("a") as more:
            more.write("0\n5,50")
        until(running, 4)
        running.finish()
        assert keys(running) == [1, 2, 3, 4, 5]
        assert running.progress().dead == {}


@pytest.mark.parametrize("name", ["1.csv", "1.parquet"])
def test_a_file_that_is_replaced_in_place_is_one_dead_letter(runtime, tmp_path, name):
    def put(key: int) -> None:
        # At once: a file that is seen half written, and then whole, is replaced twice.
        new = tmp_path / "new"
        if name.endswith("csv"):
            new.write_text(f"k,at\n{key},10\n")
        else:
            pq.write_table(pa.table({"k": [key], "at": [10]}), new)
        new.replace(tmp_path / "in" / name)

    (tmp_path / "in").mkdir()
    put(1)
    with runtime() as session:
        running = session.sql(stream(tmp_path / "in") + QUERY)
        until(running, 1)
        put(7)
        until(running, 2)
        (tmp_path / "in" / f"2{name[1:]}").write_bytes((tmp_path / "in" / name).read_bytes())
        until(running, 3)
        running.finish()
        assert keys(running) == [1, 7]
        (letter,) = running.dead_letters().to_pylist()
    assert letter["file"] == f"{tmp_path}/in/{name}"
    assert "was replaced" in letter["detail"]


def test_a_file_that_is_gone_when_it_is_to_be_read_is_a_dead_letter(runtime, two_files, monkeypatch):
    """It is listed, and deleted before the step reads it."""
    path = two_files / "in" / "2.csv"
    from tidegate.connectors.csv_source import CsvSource

    found = CsvSource.find_ranges

    def find_and_delete(self, position, *, growing):
        ranges = found(self, position, growing=growing)
        path.unlink(missing_ok=True)
        return ranges

    monkeypatch.setattr(CsvSource, "find_ranges", find_and_delete)
    with runtime() as session:
        running = session.sql(stream(two_files / "in") + QUERY, once=True)
        running.finish()
        assert keys(running) == [1]
        (letter,) = running.dead_letters().to_pylist()
    assert (letter["reason"], letter["file"]) == ("bad_file", str(path))


def test_names_that_look_like_patterns_are_names(runtime, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    names = ["a[1].csv", "a1.csv", "b{x,y}.csv", "bx.csv", "c?.csv", "cz.csv", "d*.csv", "dd.csv", "e\\f.csv"]
    for number, name in enumerate(names):
        (folder / name).write_text(f"k,at\n{number},{number}\n")
    assert run_all(runtime, stream(folder) + QUERY, tmp_path) == list(range(len(names)))
    single = run_all(runtime, stream(folder / "a[1].csv") + QUERY, tmp_path / "single")
    assert single == [0]


# ---- large files


@pytest.mark.spark
@pytest.mark.parametrize("most_threads", [0, 8])
@pytest.mark.parametrize("ending", ["csv", "quoted.csv", "jsonl", "parquet"])
def test_several_tasks_or_threads_read_one_large_file(spark, tmp_path, monkeypatch, ending, most_threads):
    monkeypatch.setattr(text_splits, "SMALLEST", 1000)
    monkeypatch.setattr(step_job, "PARALLEL_FROM", 1000)
    monkeypatch.setattr(step_job, "THREADS_FROM", 1000)
    monkeypatch.setattr(step_job, "MOST_THREADS", most_threads)
    tasks: list[int] = []
    divide = step_ranges.divide

    def note_tasks(*arguments):
        shares = divide(*arguments)
        tasks.append(len(shares))
        return shares

    monkeypatch.setattr(step_job, "divide", note_tasks)
    rows, path = 5_000, tmp_path / f"a.{ending}"
    table = pa.table({"k": np.arange(rows, dtype=np.int32), "at": np.arange(rows)})
    match ending:
        case "csv":
            arrow_csv.write_csv(table, path)
        case "quoted.csv":
            lines = (f'{k},{k},"a\n\n{"x" * (k % 7)}"' for k in range(rows))
            path.write_text("k,at,text\n" + "\n".join(lines))
        case "jsonl":
            path.write_text("".join(f'{{"k": {k}, "at": {k}}}\n' for k in range(rows)) + '{"k": "bad"}')
        case "parquet":
            pq.write_table(table, path, row_group_size=700)
    with Session(spark=spark, buckets=1) as session:
        running = session.sql(stream(path) + QUERY, once=True)
        running.finish()
        assert keys(running) == list(range(rows))
        if ending == "jsonl":
            assert [letter["line"] for letter in running.dead_letters().to_pylist()] == [rows + 1]
    assert tasks[0] == 2


# ---- one checkpoint, two runtimes, one owner


@pytest.mark.spark
@pytest.mark.parametrize("order", [("embedded", "spark"), ("spark", "embedded")])
def test_a_checkpoint_moves_between_runtimes(request, tmp_path, order):
    (tmp_path / "in").mkdir()
    text = stream(tmp_path / "in") + "SELECT a.k FROM s WINDOW(RANGE 100) a, s WINDOW(RANGE 100) b WHERE a.k = b.k"
    for number, name in enumerate([*order, *order]):
        lines = "".join(f"{k},{100 * number + k}\n" for k in range(10))
        (tmp_path / "in" / f"{number}.csv").write_text(f"k,at\n{lines}")
        found = run_all(opener(request, name), text, tmp_path)
    # Each row meets itself, and no other: those of the same key are 100 microseconds apart.
    assert found == sorted(4 * list(range(10)))


@contextmanager
def another_process(text: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A live run of the same query in another process, which has read a row."""
    query = folder / "query.sql"
    query.write_text(text)
    command = [sys.executable, "-m", "tidegate.cli.main", "run", str(query), "--runtime", "embedded", "--buckets", "1"]
    command += ["--checkpoint", str(folder / "state"), "--out", str(folder / "out"), "--format", "jsonl"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + PATIENCE
            while not list((folder / "state" / "steps").glob("*.json")):
                assert time.monotonic() < end
                time.sleep(0.05)
            yield process
        finally:
            process.kill()


def test_a_checkpoint_in_use_is_refused_and_one_whose_owner_was_killed_is_not(runtime, two_files):
    text = stream(two_files / "in") + QUERY
    with another_process(text, two_files) as process:
        with pytest.raises(DataError) as caught:
            run_all(runtime, text, two_files)
        assert caught.value.code == "D311"
        assert f"process {process.pid}" in caught.value.message
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert run_all(runtime, text, two_files) == [1, 2]


@pytest.mark.spark
@pytest.mark.parametrize("most_threads", [0, 8])
def test_threads_and_tasks_note_the_times_and_counts_of_the_embedded_runtime(
    spark, two_files, monkeypatch, most_threads
):
    for limit in ("PARALLEL_FROM", "THREADS_FROM"):
        monkeypatch.setattr(step_job, limit, 1)
    monkeypatch.setattr(step_job, "MOST_THREADS", most_threads)
    (two_files / "names.csv").write_text("k,name\n1,one\n2,two\n3,three\n")
    text = (
        stream(two_files / "in")
        + f"CREATE TABLE names (k INT, name STRING) FROM '{two_files}/names.csv';"
        + "SELECT s.k, name FROM s WINDOW(RANGE 5 SECONDS), names WHERE s.k = names.k"
    )
    records: list[Any] = []
    for options in ({"runtime": "embedded"}, {"spark": spark}):
        folder = str(two_files / f"checkpoint-{len(records)}")
        with Session(**options, buckets=2) as session:
            running = session.sql(text, once=True, checkpoint=folder)
            running.finish()
            assert [row["name"] for row in running.results().to_pylist()] == ["one", "two"]
        records.append(Checkpoint(folder).last_record())
    embedded, ours = records
    assert ours.arrived == embedded.arrived == {"s": 2, "names": 3}
    assert ours.watermarks == embedded.watermarks
    assert ours.positions == embedded.positions

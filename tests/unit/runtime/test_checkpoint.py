"""Records of steps: whose they are, which are kept, and what a run goes on from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.connectors.ranges import FileMark, PartProgress, Point, SourcePosition
from tidegate.connectors.sinks import FileSink
from tidegate.errors import DataError
from tidegate.language.bind.program import bind
from tidegate.runtime.checkpoint import KEPT_RECORDS, Checkpoint, Record
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.runtime.job import DEAD_LETTERS, Job
from tidegate.runtime.sealed_files import FORMAT, seal

IDENTITY = {"queries": {"q": "Scan s"}, "streams": {"s": ["place", "at", 0]}, "buckets": 2}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(str(tmp_path / "checkpoint"))


def test_a_folder_that_is_not_there_belongs_to_nobody(checkpoint):
    assert checkpoint.identity() is None
    assert checkpoint.last_record() is None


def test_a_program_takes_a_folder_and_finds_it_again(checkpoint):
    checkpoint.claim(IDENTITY)
    checkpoint.claim(IDENTITY)
    assert checkpoint.identity() == IDENTITY


def test_what_json_cannot_tell_apart_is_the_same_program(checkpoint):
    checkpoint.claim({"streams": {"s": ("place", "at", 0)}})
    checkpoint.claim({"streams": {"s": ["place", "at", 0]}})


@pytest.mark.parametrize(
    "other", [{**IDENTITY, "buckets": 3}, {**IDENTITY, "queries": {}}, {k: IDENTITY[k] for k in ("queries", "streams")}]
)
def test_another_program_is_refused(checkpoint, other):
    checkpoint.claim(IDENTITY)
    with pytest.raises(DataError) as raised:
        checkpoint.claim(other)
    assert raised.value.code == "D303"
    assert checkpoint.identity() == IDENTITY


def test_a_record_is_read_as_it_was_written(checkpoint):
    positions = {"s": SourcePosition({"a.csv": PartProgress(Point(3, 1), 4, mark=FileMark(4, 5, 6))})}
    record = Record(4, {"s": -(2**62), "t": 7}, {"2/0": "file"}, positions)
    checkpoint.write(record)
    assert checkpoint.read(4) == checkpoint.last_record() == record


def test_a_step_without_a_record_is_an_error(checkpoint):
    checkpoint.write(Record(4, {}))
    with pytest.raises(DataError) as raised:
        checkpoint.read(3)
    assert raised.value.code == "D304"


def test_only_the_last_records_are_kept(checkpoint):
    for step in range(20):
        checkpoint.write(Record(step, {"s": step}))
    names = sorted(p.name for p in Path(checkpoint.root, "steps").iterdir())
    assert names == [f"{step:010d}.json" for step in range(20 - KEPT_RECORDS, 20)]
    assert checkpoint.last_record() == Record(19, {"s": 19})


def test_the_newest_record_is_that_of_the_largest_step_not_the_largest_name(checkpoint):
    for step in [9, 10, 11]:
        checkpoint.write(Record(step, {}))
    assert checkpoint.last_record() == Record(11, {})


def test_a_record_written_again_is_replaced(checkpoint):
    checkpoint.write(Record(0, {"s": 1}))
    checkpoint.write(Record(0, {"s": 2}))
    assert checkpoint.read(0).watermarks == {"s": 2}


def test_a_draft_that_a_crash_left_behind_is_no_record(checkpoint):
    checkpoint.write(Record(0, {}))
    Path(checkpoint.root, "steps", "0000000001.json.part").write_text('{"step":')
    assert checkpoint.last_record() == Record(0, {})


def test_no_draft_is_left_behind(checkpoint):
    checkpoint.claim(IDENTITY)
    checkpoint.write(Record(0, {}))
    assert not list(Path(checkpoint.root).rglob("*.part"))


def test_a_checkpoint_may_be_at_a_uri(tmp_path):
    checkpoint = Checkpoint(tmp_path.as_uri())
    checkpoint.claim(IDENTITY)
    for step in range(5):
        checkpoint.write(Record(step, {}))
    assert checkpoint.last_record() == Record(4, {})
    assert Checkpoint(str(tmp_path)).identity() == IDENTITY


# ---- a run goes on from it

QUERY = "SELECT key, SUM(value) AS total FROM s WINDOW(RANGE 10) GROUP BY key"
ROWS = [{"at": t, "key": t % 3, "value": t} for t in range(40)]


def job(rows: list[dict[str, int]], out: Path) -> Job:
    """A query over rows in memory, with results in files."""
    text = "CREATE STREAM s (at BIGINT, key BIGINT, value BIGINT) FROM 'dataframe://s' TIMESTAMP BY at; " + QUERY
    program = bind(text)
    stream = program.catalog.find("s")
    assert isinstance(stream, SourceStream)
    source = MemorySource(stream, pa.Table.from_pylist(rows, schema=stream.schema.arrow))
    sinks = {q.name: FileSink(str(out / q.name), "jsonl") for q in program.queries}
    sinks[DEAD_LETTERS] = FileSink(str(out / DEAD_LETTERS), "jsonl")
    return replace(compile_job(program, buckets=2, sinks=sinks, sources={"s": source}), times="micros")


def lasts(each: Job, checkpoint: Checkpoint, *, rows_per_step: int = 4) -> EmbeddedRun:
    run = EmbeddedRun(each, on_rows=lambda *_: None, once=True, checkpoint=checkpoint.root, rows_per_step=rows_per_step)
    run.wait()
    return run


def result(out: Path) -> dict[tuple[int, int], list[int]]:
    """The instants at which each group has each total."""
    seen: dict[tuple[int, int], list[int]] = {}
    for row in _rows(out):
        seen.setdefault((row["key"], row["total"]), []).extend(range(row["valid_from"], row["valid_to"]))
    return {values: sorted(instants) for values, instants in seen.items()}


def _rows(out: Path) -> Iterator[dict[str, int]]:
    for path in out.glob("query*/*.jsonl"):
        yield from map(json.loads, path.read_text().splitlines())


def test_a_run_goes_on_where_the_one_before_stopped(tmp_path, checkpoint):
    lasts(job(ROWS, tmp_path / "whole"), Checkpoint(str(tmp_path / "other")))
    lasts(job(ROWS[:17], tmp_path / "parts"), checkpoint)
    second = lasts(job(ROWS, tmp_path / "parts"), checkpoint)
    assert second.progress.rows_in == len(ROWS) - 17
    assert result(tmp_path / "parts") == result(tmp_path / "whole")


@pytest.mark.parametrize("lost", [1, 2])
def test_steps_whose_records_are_lost_are_done_again_to_the_same_end(tmp_path, checkpoint, lost):
    lasts(job(ROWS, tmp_path / "whole"), Checkpoint(str(tmp_path / "other")))
    lasts(job(ROWS[:17], tmp_path / "parts"), checkpoint)
    for path in sorted(Path(checkpoint.root, "steps").iterdir())[-lost:]:
        path.unlink()
    lasts(job(ROWS, tmp_path / "parts"), checkpoint)
    assert result(tmp_path / "parts") == result(tmp_path / "whole")


def test_a_run_refuses_the_checkpoint_of_another_query_or_of_other_buckets(tmp_path, checkpoint):
    each = job(ROWS, tmp_path)
    lasts(each, checkpoint)
    with pytest.raises(DataError) as raised:
        lasts(replace(each, buckets=3), checkpoint)
    assert raised.value.code == "D303"
    with pytest.raises(DataError):
        lasts(replace(each, identity={}), checkpoint)


def test_what_the_end_brought_out_is_taken_back_when_a_run_goes_on(tmp_path, checkpoint):
    """A later run may have more to say about the same instants: until it ends, only what is settled stands."""
    lasts(job(ROWS[:17], tmp_path), checkpoint)
    assert list(tmp_path.glob("query*/final-*"))
    endless = EmbeddedRun(job(ROWS, tmp_path), on_rows=lambda *_: None, once=False, checkpoint=checkpoint.root)
    while endless.progress.rows_in < len(ROWS) - 17:
        assert not endless.wait(0.01)
    endless.stop()
    assert not list(tmp_path.glob("query*/final-*"))
    lasts(job(ROWS, tmp_path), checkpoint)
    lasts(job(ROWS, tmp_path / "whole"), Checkpoint(str(tmp_path / "other")))
    assert result(tmp_path) == result(tmp_path / "whole")


# ---- files that are damaged, foreign or missing


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint and results of a run over a part of the rows."""
    folder = tmp_path_factory.mktemp("half")
    lasts(job(ROWS[:17], folder / "out"), Checkpoint(str(folder / "checkpoint")))
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], list[int]]:
    folder = tmp_path_factory.mktemp("whole")
    lasts(job(ROWS, folder / "out"), Checkpoint(str(folder / "checkpoint")))
    return result(folder / "out")


def copied(half: Path, folder: Path) -> Path:
    shutil.copytree(half, folder, dirs_exist_ok=True)
    return folder


def records(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoint" / "steps").glob("*.json"))


def goes_on(folder: Path) -> None:
    lasts(job(ROWS, folder / "out"), Checkpoint(str(folder / "checkpoint")))


def flipped(data: bytes) -> Iterator[bytes]:
    """The bytes with one of them changed, in some bit: near both ends each in turn, and one of three in between."""
    near = 40
    for position, byte in enumerate(data):
        if near <= position < len(data) - near and position % 3:
            continue
        yield data[:position] + bytes([byte ^ (1 << position % 8)]) + data[position + 1 :]


@pytest.mark.parametrize("which", ["steps", "program.json"])
def test_a_flipped_byte_in_the_newest_record_or_the_identity_is_an_error_that_names_the_file(tmp_path, half, which):
    folder = copied(half, tmp_path)
    path = records(folder)[-1] if which == "steps" else folder / "checkpoint" / which
    before = result(folder / "out")
    for content in flipped(path.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(DataError, match=path.name) as raised:
            goes_on(folder)
        assert raised.value.code == "D302"
        assert "empty checkpoint folder" in (raised.value.hint or "")
    assert result(folder / "out") == before, "what was published stays"


def test_a_flipped_byte_in_an_older_record_is_harmless_where_it_is_not_needed(tmp_path, half, whole):
    for number, position in enumerate([0, 14, 30, 80, 200, -3, -1]):
        folder = copied(half, tmp_path / str(number))
        content = bytearray(records(folder)[-2].read_bytes())
        content[position] ^= 4
        records(folder)[-2].write_bytes(content)
        goes_on(folder)
        assert result(folder / "out") == whole


def test_a_record_that_was_cut_short_is_an_error_not_a_step_back(tmp_path, half):
    folder = copied(half, tmp_path)
    path = records(folder)[-1]
    for content in [b"", path.read_bytes()[:-1], path.read_bytes()[:50], path.read_bytes() + b"\n"]:
        path.write_bytes(content)
        with pytest.raises(DataError) as raised:
            goes_on(folder)
        assert raised.value.code == "D302"


def test_the_record_of_one_step_is_no_record_of_another(tmp_path, half):
    folder = copied(half, tmp_path)
    shutil.copy(records(folder)[0], records(folder)[-1])
    with pytest.raises(DataError, match=records(folder)[-1].name) as raised:
        goes_on(folder)
    assert raised.value.code == "D302"


def test_stray_files_in_a_checkpoint_are_ignored(tmp_path, half, whole):
    folder = copied(half, tmp_path)
    for name in [".DS_Store", "00000003.json.tmp", "notes.txt", "copy of 3.json", "3.json", "0000000099.json.part"]:
        (folder / "checkpoint" / "steps" / name).write_text("{")
        for bucket in folder.glob("checkpoint/state/*/*"):
            (bucket / name).write_text("{")
    (folder / "checkpoint" / "steps" / "0000000098.json").mkdir()
    goes_on(folder)
    assert result(folder / "out") == whole
    assert (folder / "checkpoint" / "steps" / "notes.txt").exists()


@pytest.mark.parametrize("which", ["steps", "program.json", "state"])
def test_files_of_another_version_are_refused_by_name(tmp_path, half, which, monkeypatch):
    folder = copied(half, tmp_path)
    if which == "state":
        monkeypatch.setattr("tidegate.runtime.state.FORMAT", FORMAT + 1)
        name = "checkpoint/state"
    else:
        path = records(folder)[-1] if which == "steps" else folder / "checkpoint" / which
        content = json.loads(path.read_text())["content"]
        path.write_bytes(seal(content, FORMAT + 1) if which == "steps" else json.dumps(content).encode())
        name = path.name
    with pytest.raises(DataError, match=name) as raised:
        goes_on(folder)
    assert raised.value.code == "D307"


def test_records_without_the_file_that_says_whose_they_are_are_refused(tmp_path, half):
    folder = copied(half, tmp_path)
    (folder / "checkpoint" / "program.json").unlink()
    with pytest.raises(DataError, match=r"program\.json") as raised:
        goes_on(folder)
    assert raised.value.code == "D301"


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path, half):
    folder = copied(half, tmp_path)
    (folder / "checkpoint" / "program.json").unlink()
    (folder / "checkpoint" / "program.json").mkdir()
    with pytest.raises(DataError, match=r"program\.json") as raised:
        goes_on(folder)
    assert raised.value.code == "D308"

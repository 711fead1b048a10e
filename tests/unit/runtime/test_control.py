"""Operators that are steered: told what was decided of all buckets, and the same again after a restart."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recorded import recorded
from support.steered import LAST, OPERATOR, ROW, Steered, Tally
from support.warmed import recorded_steps
from typer.testing import CliRunner

from tidegate.algebra.constraints import Clustered, Reach
from tidegate.catalog.catalog import SourceStream
from tidegate.catalog.constraints import ConstraintFinding, declaration_identity
from tidegate.cli.main import app
from tidegate.cli.watch import summary
from tidegate.connectors.memory import MemorySource
from tidegate.errors import DataError
from tidegate.physical.common.control import ControlRecord, Directive, Losses
from tidegate.runtime.bucket_step import Outbox
from tidegate.runtime.checkpoint import Checkpoint, Record
from tidegate.runtime.control import constraint_findings, decode_shown, encode_values
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.runtime.job import Job, Progress
from tidegate.runtime.warm import warm_up
from tidegate.schema import Field, Schema, Type
from tidegate.session import Session

STREAM = SourceStream("s", ROW + Schema((Field("at", Type.BIGINT),)), "dataframe://s", "at")
PER_STEP = 4


def raw(times: Iterable[int]) -> pa.Table:
    rows = [{"key": time % 5, "value": time, "at": time} for time in times]
    return pa.Table.from_pylist(rows, schema=STREAM.schema.arrow)


def job(times: Iterable[int] = (), *, buckets: int = 3) -> Job:
    return Steered(MemorySource(STREAM, raw(times)), buckets).job


def told(out: Outbox) -> set[tuple[int, int]]:
    """What the rows that came out say of rows seen before and rows that arrived."""
    rows = [row for _, batch in out.results for row in batch.columns.to_pylist()]
    return {(row["seen"], row["arrived"]) for row in rows}


def lasting(times: Iterable[int], checkpoint: Path) -> tuple[Record, Progress]:
    """The record after a run over the rows, and what it tells."""
    run = EmbeddedRun(
        job(times), on_rows=lambda *_: None, once=True, checkpoint=str(checkpoint), rows_per_step=PER_STEP
    )
    run.wait()
    last = Checkpoint(str(checkpoint)).last_record()
    assert last is not None
    return last, run.progress


def record_of(engine: Engine, operator: str = OPERATOR) -> Any:
    """The record of an operator of these tests."""
    return engine.control[operator]


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=5), st.integers(1, 4))
def test_every_bucket_is_told_the_same_of_the_steps_before(steps, buckets):
    """Late rows arrive too: they count, though the operator does not see them."""
    engine, seen, arrived, latest = Engine(job(buckets=buckets)), 0, 0, -1
    for times in steps:
        out, _ = engine.step({"s": raw(times).to_batches()})
        good = [time for time in times if time >= latest]
        arrived += len(times)
        assert told(out) == ({(seen, arrived)} if good else set())
        seen, latest = seen + len(good), max([latest, *times])
        assert engine.arrived == {"s": arrived}
        assert record_of(engine).seen == seen
        assert record_of(engine, LAST).seen == seen
        assert len(record_of(engine).known) == buckets
    assert [sum(rows) for rows in record_of(engine).steps] == [
        sum(time >= max([-1, *(t for before in steps[:i] for t in before)]) for time in times)
        for i, times in enumerate(steps)
    ]


def test_the_end_changes_neither_records_nor_counts():
    engine = Engine(job())
    engine.step({"s": raw([1, 2, 3]).to_batches()})
    before = (dict(engine.control), dict(engine.arrived))
    engine.finish()
    assert (engine.control, engine.arrived) == before


def test_a_record_is_what_a_file_would_say_of_it():
    engine = Engine(job(buckets=1))
    engine.step({"s": raw([1]).to_batches()})
    assert record_of(engine).steps == ((1,),)
    assert recorded(engine.control[OPERATOR]) == engine.control[OPERATOR]


def test_a_run_that_goes_on_is_steered_as_one_that_never_stopped(tmp_path):
    whole, _ = lasting(range(30), tmp_path / "whole")
    lasting(range(4 * PER_STEP), tmp_path / "parts")
    parts, progress = lasting(range(30), tmp_path / "parts")
    assert (parts.control, parts.arrived) == (whole.control, {"s": 30})
    assert encode_values(progress.control) == whole.control


@pytest.mark.parametrize("lost", [1, 2])
def test_a_step_whose_record_is_lost_is_steered_as_before(tmp_path, lost):
    whole, _ = lasting(range(30), tmp_path)
    for path in sorted((tmp_path / "steps").iterdir())[-lost:]:
        path.unlink()
    again, _ = lasting(range(30), tmp_path)
    assert (again.step, again.control, again.arrived) == (whole.step, whole.control, whole.arrived)


def test_a_run_that_finds_nothing_new_tells_what_was_found_before(tmp_path):
    whole, _ = lasting(range(9), tmp_path)
    _, progress = lasting(range(9), tmp_path)
    assert encode_values(progress.control) == whole.control


def test_a_stage_with_a_steered_operator_can_be_warmed_up(monkeypatch):
    steps = recorded_steps(monkeypatch, Tally)
    warm_up(job().graph)
    assert [len(step.output) for step in steps] == [2, 2, 2] * 2


# ---- what is shown


def test_what_was_found_is_in_the_records(tmp_path):
    record, _ = lasting(range(9), tmp_path)
    assert [each.within for each in constraint_findings(decode_shown(record.control))] == ["9 rows", "9 rows"]


def test_a_session_shows_what_its_runs_found():
    with Session(runtime="embedded") as session:
        session.stream("s", raw([1, 2]), time="at")
        running = session.sql("SELECT key FROM s")
        running.finish()
        running.progress().control = {
            OPERATOR: ControlRecord(Directive(), found=(ConstraintFinding("s", "ordered by key"),))
        }
        assert "ordered by key" in session.ask("SHOW CONSTRAINTS")


@pytest.fixture
def query(tmp_path: Path) -> Path:
    """A file that asks for constraints before the query that might find some."""
    (tmp_path / "b.csv").write_text("id,at\n1,1\n2,2\n")
    path = tmp_path / "query.sql"
    path.write_text(
        "CREATE STREAM b (id BIGINT, at BIGINT) FROM 'b.csv' TIMESTAMP BY at CLUSTERED BY (id) WITHIN 5 ROWS;\n"
        "SHOW CONSTRAINTS; SELECT id FROM b; SHOW STREAMS;"
    )
    return path


def test_constraints_are_shown_when_the_run_has_ended(query):
    options = ["--runtime", "embedded", "--once", "--format", "csv", "--times", "micros"]
    said = CliRunner().invoke(app, ["run", str(query), *options]).stdout
    assert [line.split("  ")[0] for line in said.splitlines()] == [
        "b", "valid_from,valid_to,id", "1,2,1", "2,3,2", "stream", "b",
    ]  # fmt: skip


def test_constraints_of_a_checkpoint_are_shown_without_running(query, tmp_path):
    declaration = declaration_identity(Clustered(("id",), Reach(rows=5)))
    found = (
        ConstraintFinding("b", "clustered by id", within="5 rows", used="7", declaration=declaration),
        ConstraintFinding("b", "ordered by id", used="9"),
    )
    checkpoint = checkpoint_of(query, tmp_path)
    control = encode_values({OPERATOR: ControlRecord(Directive(), found=found)})
    Checkpoint(checkpoint).write(Record(9, {}, control=control))
    said = CliRunner().invoke(app, ["constraints", str(query), "--checkpoint", checkpoint]).stdout
    assert [line.split() for line in said.splitlines()[1:]] == [
        ["b", "clustered", "by", "id", "5", "rows", "declared", "7"],
        ["b", "ordered", "by", "id", "found", "9"],
    ]


def checkpoint_of(query: Path, folder: Path) -> str:
    """The checkpoint of a run over a file."""
    run = ["run", str(query), "--runtime", "embedded", "--once", "--buckets", "2"]
    assert CliRunner().invoke(app, [*run, "--checkpoint", str(folder / "checkpoint")]).exit_code == 0
    return str(folder / "checkpoint")


@pytest.mark.parametrize(
    ("old", "new"),
    [("SELECT id FROM b", "SELECT id + 1 AS id FROM b"), ("SELECT id FROM b;", ""), ("'b.csv'", "'./b.csv'")],
)
def test_constraints_of_the_checkpoint_of_another_program_are_not_shown(query, tmp_path, old, new):
    checkpoint = checkpoint_of(query, tmp_path)
    query.write_text(query.read_text().replace(old, new))
    said = CliRunner().invoke(app, ["constraints", str(query), "--checkpoint", checkpoint])
    assert isinstance(said.exception, DataError)
    assert (said.exception.code, said.exception.exit_code, said.stdout) == ("D303", 3, "")


def test_a_checkpoint_that_does_not_exist_has_no_constraints_to_show(query, tmp_path):
    said = CliRunner().invoke(app, ["constraints", str(query), "--checkpoint", str(tmp_path / "none")])
    assert isinstance(said.exception, DataError)
    assert (said.exception.code, said.exception.exit_code) == ("D306", 3)


def test_results_that_are_missing_are_told_at_the_end_of_a_run():
    losses = Losses(estimate=2, low=0, high=5)
    lines = summary(Progress(control={OPERATOR: ControlRecord(Directive(), losses=losses)}), None).splitlines()
    assert lines[1:] == ["missing results: about 2, between 0 and 5 (MODE lean)"]
    assert len(summary(Progress(control={OPERATOR: ControlRecord(Directive())}), None).splitlines()) == 1


def test_where_nothing_is_sampled_it_is_told_that_nobody_knows_what_is_missing():
    records = [ControlRecord(Directive(), losses=Losses(None, 0.0, each)) for each in (1000, 30)]
    progress = Progress(control={f"{place}/0": each for place, each in enumerate(records)})
    assert progress.losses == Losses(None, 0, 1030)
    assert summary(progress, None).splitlines()[1:] == [
        "missing results: number unknown, at most 1,030, because nothing is sampled (MODE lean, monitor_sample = 0)"
    ]

"""What is told of comparisons that were left out: with the results of each step, at the end, and when asked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.cli.output import Printer
from tidegate.cli.watch import summary
from tidegate.physical.common.control import ControlRecord, Directive
from tidegate.runtime.running_query import RunningQuery
from tidegate.runtime.shedding import SHEDDING, SHEDDING_SCHEMA, percent, shedding_of_runs, shedding_step_rows
from tidegate.session import Session

ROWS = 400
QUERY = "SELECT x, y FROM a WINDOW(RANGE 100), b WINDOW(RANGE 100) WHERE x + y > 12"
SOME = " WITH (shedding = on, budget = 2000)"
ENOUGH = " WITH (shedding = on, budget = 1000000)"


@pytest.fixture
def session():
    with Session(runtime="embedded") as made:
        for name, column in (("a", "x"), ("b", "y")):
            rows = {"at": range(ROWS), column: [n * 7 % 13 for n in range(ROWS)]}
            made.stream(name, pa.table(rows), time="at")
        yield made


def run(session: Session, text: str, **settings) -> RunningQuery:
    query = session.sql(text, once=True, **settings)
    assert query is not None
    query.wait()
    return query


def pairs(query: RunningQuery) -> set[tuple[object, ...]]:
    return {tuple(row.values()) for row in query.results().to_pylist()}


def test_without_shedding_nothing_is_told(session):
    query = run(session, QUERY)
    assert query.shedding().num_rows == 0
    assert "shed" not in summary(query.progress(), None)
    assert session.ask("SHOW SHEDDING") == "nothing is shed: shedding is off"


def test_each_step_says_which_share_it_is(session):
    query = run(session, QUERY + SOME)
    (told,) = query.shedding().to_pylist()
    assert (told["step"], told["query"], told["budget"]) == (1, "query_1", 2000)
    assert told["compared_share"] == told["comparisons"] / told["of_comparisons"] < 0.2
    assert told["found"] == query.results().num_rows > 0
    assert told["results_share"] == pytest.approx(told["found"] / run(session, QUERY).results().num_rows, abs=0.1)
    assert pairs(query) < pairs(run(session, QUERY))


def test_with_enough_time_everything_is_there(session):
    query = run(session, QUERY + ENOUGH)
    (told,) = query.shedding().to_pylist()
    assert (told["compared_share"], told["results_share"]) == (1, 1)
    assert pairs(query) == pairs(run(session, QUERY))
    assert "shed" not in summary(query.progress(), None)


def test_the_end_of_a_run_and_whoever_asks_are_told(session):
    query = run(session, QUERY + SOME)
    last = query.shedding().to_pylist()[-1]
    results, made = (percent(last[name]) for name in ("results_share", "compared_share"))
    line = summary(query.progress(), None).splitlines()[-1]
    assert line == f"query_1 found about {results} of all results, with {made} of all comparisons"
    heading, row = (re.split(" {2,}", each.strip()) for each in session.ask("SHOW SHEDDING").splitlines())
    shown = dict(zip(heading, row, strict=False))
    assert list(shown)[:5] == ["query", "join", "policy", "results_found", "utility_found"]
    assert f"about {results} in the last step, {results} since the start" in row
    assert f"{made} in the last step, {made} since the start" in row
    assert f"{made} of comparisons from step 1" in row
    assert "2,000 comparisons" in row


def test_explain_analyze_says_what_was_found_with_which_work(session):
    shown = session.explain(QUERY + SOME, analyze=True).splitlines()[-1]
    assert re.fullmatch(r"  query_1 found about [\d.]+ % of all results, with [\d.]+ % of all comparisons", shown)
    assert "of all comparisons" not in session.explain(QUERY + ENOUGH, analyze=True)


def test_files_have_it_beside_them_by_the_same_label(session, tmp_path):
    run(session, QUERY + SOME, out=str(tmp_path), checkpoint=str(tmp_path / "checkpoint"))
    (told,) = (tmp_path / SHEDDING).glob("batch-*.jsonl")
    results = (tmp_path / "query_1").glob("batch-*.parquet")
    assert {file.name.rpartition("-")[0] for file in results} == {told.name.rpartition("-")[0]}
    assert json.loads(told.read_text())["query"] == "query_1"


def test_without_shedding_there_is_no_such_folder(session, tmp_path):
    run(session, QUERY, out=str(tmp_path))
    assert not (tmp_path / SHEDDING).exists()


def test_rows_that_are_dropped_are_counted(session):
    query = run(session, QUERY + " WITH (shedding = drop, budget = 2000)")
    (told,) = query.shedding().to_pylist()
    assert 0 < told["dropped"] < 2 * ROWS
    assert f"{told['dropped']:,} rows dropped" in summary(query.progress(), None)


def test_standard_error_is_told_of_steps_that_shed(session, capsys):
    printer = Printer("csv", {"query_1": pa.schema([])})
    printer.add(SHEDDING, run(session, QUERY + SOME).shedding().to_batches()[0])
    printer.add(SHEDDING, run(session, QUERY + ENOUGH).shedding().to_batches()[0])
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.count("step 1 of query_1 found about ") == 1


def test_the_command_line_runs_a_file_with_shedding(tmp_path):
    for name in "ab":
        lines = "".join(f"{n * 7 % 13},{n}\n" for n in range(ROWS))
        Path(tmp_path / f"{name}.csv").write_text("v,at\n" + lines)
    text = "".join(f"CREATE STREAM {n} (v INT, at BIGINT) FROM '{n}.csv' TIMESTAMP BY at;" for n in "ab")
    text += "SELECT a.v FROM a WINDOW(RANGE 100), b WINDOW(RANGE 100) WHERE a.v + b.v > 12" + SOME + "; SHOW SHEDDING;"
    (tmp_path / "q.sql").write_text(text)
    result = CliRunner().invoke(app, ["run", str(tmp_path / "q.sql"), "--runtime", "embedded", "--once"])
    assert result.exit_code == 0, result.output
    assert "query_1 found about " in result.stderr
    assert "% since the start" in result.stdout


def test_records_of_operators_that_do_not_shed_say_nothing():
    records = {"1/0": ControlRecord(Directive())}
    assert shedding_step_rows(records).schema == SHEDDING_SCHEMA
    assert shedding_of_runs([records]) == ()

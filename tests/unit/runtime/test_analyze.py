"""EXPLAIN ANALYZE runs a query and shows what each operator got, gave and omitted."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tidegate import Session
from tidegate.cli.main import app
from tidegate.cli.watch import progress_line
from tidegate.errors import QueryError
from tidegate.language.bind.program import bind
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.figures import (
    FiguresByPlace,
    OperatorFigures,
    OperatorPlace,
    add_figures,
    figures_of_operators,
)
from tidegate.runtime.job import Progress

ALERT = "CREATE ALERT far FROM a, b WITHIN 10 MICROSECONDS MATCHING k WHEN a.v + b.v > 100"


def session_with_readings(**settings) -> Session:
    session = Session(runtime="embedded", **settings)
    # The value 1 lies between two greater ones within the window, so it cannot matter; b is a single reading.
    session.stream("a", pa.table({"k": [1, 1, 1], "v": [5.0, 1.0, 5.0], "at": [0, 1, 2]}), time="at")
    session.stream("b", pa.table({"k": [1], "v": [7.0], "at": [2]}), time="at")
    return session


def lines(text: str) -> list[str]:
    return [re.sub(r", [\d.]+ ms\]", "]", line.strip()) for line in text.splitlines()]


def test_operators_show_how_many_rows_went_in_and_out():
    with session_with_readings() as session:
        shown = lines(session.ask("EXPLAIN ANALYZE SELECT v FROM a WHERE v > 2"))
    assert any(line.startswith("filter v > 2") and line.endswith("[3 rows in, 2 out]") for line in shown)
    assert shown[-1] == "3 rows in, 2 rows out, at most 0 rows of state"


def test_omitted_readings_are_counted_where_they_are_omitted():
    with session_with_readings() as session:
        shown = lines(session.explain(ALERT, analyze=True))
    assert [line for line in shown if line.startswith("omit") and line.endswith("[3 rows in, 2 out, 1 omitted]")]
    assert shown[-1].startswith("4 rows in, 0 rows out, 1 omitted")


def test_readings_that_only_the_store_can_omit_are_counted_there():
    # One reading a step: no batch shows that the middle one lies between greater ones, only the store does.
    with session_with_readings() as session:
        sources = {name: session._sources[name] for name in "ab"}
        engine = Engine(compile_job(bind(ALERT, session.catalog), sinks={}, sources=sources))
    figures: FiguresByPlace = {}
    for at, value in enumerate([5.0, 1.0, 5.0]):
        rows = pa.record_batch({"k": [1], "v": [value], "at": [at]})
        add_figures(figures, engine.step({"a": [rows]})[0].figures)
    assert sum(each.omitted for each in figures.values()) == 1
    (store,) = [each for each in figures.values() if each.omitted]
    assert (store.rows_in, store.rows_out) == (3, 0)


def test_a_measured_query_is_not_listed_among_those_that_run():
    with session_with_readings() as session:
        session.ask("EXPLAIN ANALYZE SELECT v FROM a")
        assert repr(session) == "<Session on embedded: open>"


def test_a_part_that_two_places_share_is_measured_once():
    text = "SELECT x.v AS one, y.v AS other FROM a WINDOW(RANGE 2) x, a WINDOW(RANGE 2) y WHERE x.v = y.v"
    with session_with_readings() as session:
        figures = figures_of_operators(session.measure(bind(text, session.catalog)).operators)
        plain = [line for line in session.explain(text).splitlines() if "[" not in line]
        shown = session.explain(text, analyze=True)
    assert len(figures) == sum(1 for line in lines(shown) if line.endswith("]"))
    assert [re.sub(r"  \[.*", "", line) for line in shown.splitlines()][: len(plain)] == plain


def test_figures_of_steps_and_buckets_are_added_up():
    figures = {OperatorPlace(0, 0): OperatorFigures(3, 2, 1, 0.5)}
    add_figures(figures, {OperatorPlace(0, 0): OperatorFigures(1, 1, 0, 0.25), OperatorPlace(1, 0): OperatorFigures(2)})
    assert figures == {OperatorPlace(0, 0): OperatorFigures(4, 3, 1, 0.75), OperatorPlace(1, 0): OperatorFigures(2)}


def test_the_progress_line_says_how_many_readings_were_omitted():
    progress = Progress(rows_in=9, operators={OperatorPlace(0, 0): OperatorFigures(9, 2, 7)})
    assert " · 7 omitted · " in progress_line(progress)
    assert "omitted" not in progress_line(Progress(rows_in=9))


def test_the_command_runs_the_queries_and_prints_text_only(tmp_path: Path):
    (tmp_path / "a.csv").write_text("v,at\n1,0\n5,1\n")
    stream = "CREATE STREAM a (v DOUBLE, at BIGINT) FROM 'a.csv' TIMESTAMP BY at UNIT MICROSECONDS;\n"
    (tmp_path / "query.sql").write_text(stream + "SELECT v FROM a WHERE v > 2;")
    arguments = ["explain", str(tmp_path / "query.sql"), "--analyze", "--runtime", "embedded"]
    ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == 0, ended.output
    assert lines(ended.stdout)[-1] == "2 rows in, 1 rows out, at most 0 rows of state"
    refused = CliRunner().invoke(app, [*arguments, "--format", "dot"])
    assert refused.exit_code == 2
    (tmp_path / "query.sql").write_text(stream + "EXPLAIN ANALYZE SELECT v FROM a WHERE v > 2;")
    ran = CliRunner().invoke(app, ["run", str(tmp_path / "query.sql"), "--runtime", "embedded"])
    assert ran.exit_code == 0, ran.output
    assert lines(ran.stdout)[-1] == "2 rows in, 1 rows out, at most 0 rows of state"


def test_what_is_no_query_cannot_be_analysed():
    with session_with_readings() as session, pytest.raises(QueryError):
        session.ask("EXPLAIN ANALYZE SHOW STREAMS")


@pytest.mark.spark
def test_on_spark_the_same_is_counted(spark):
    with session_with_readings() as session:
        expected = lines(session.explain(ALERT, analyze=True))
    with Session(spark=spark, buckets=1) as session:
        session.stream("a", pa.table({"k": [1, 1, 1], "v": [5.0, 1.0, 5.0], "at": [0, 1, 2]}), time="at")
        session.stream("b", pa.table({"k": [1], "v": [7.0], "at": [2]}), time="at")
        found = lines(session.explain(ALERT, analyze=True))
    assert [line for line in found if "omitted" in line] == [line for line in expected if "omitted" in line]

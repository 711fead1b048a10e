"""Results on standard output: one header for each query, rows in time order, several queries told apart."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.micros import in_micros
from typer.testing import CliRunner, Result

from tidegate.cli.main import app
from tidegate.cli.output import Printer
from tidegate.physical.common.dead_letters import DEAD_LETTER
from tidegate.runtime.job import DEAD_LETTERS
from tidegate.runtime.outputs import dead_letter_schema
from tidegate.runtime.quality import QUALITY, quality_schema
from tidegate.session import Session

COLUMNS = pa.schema({"valid_from": pa.int64(), "valid_to": pa.int64(), "place": pa.string()})
STREAM = "CREATE STREAM reading (place STRING, value INT, at BIGINT) FROM 'reading.csv' TIMESTAMP BY at;\n"
NONE = "SELECT place FROM reading WHERE value > 99;\n"


def batch(*rows: tuple[int, int, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], schema=COLUMNS)


def run(folder: Path, text: str, *options: str) -> Result:
    (folder / "reading.csv").write_text("place,value,at\nattic,7,3\nhall,9,5\n")
    (folder / "query.sql").write_text(STREAM + text)
    settings = ["--runtime", "embedded", "--quiet", "--times", "micros"]
    return CliRunner().invoke(app, ["run", str(folder / "query.sql"), *settings, *options])


@pytest.mark.parametrize("at_once", [True, False])
def test_a_table_has_one_header_however_many_batches_come(capsys, at_once):
    printer = Printer("table", {"q": COLUMNS}, at_once=at_once)
    for rows in ([(2, 3, "hall"), (1, 2, "attic")], [(30, 31, "hall")]):
        printer.add("q", batch(*rows))
    printer.close()
    printer.print_missing_headers()
    assert capsys.readouterr().out == (
        "valid_from  valid_to  place\n"
        "         1         2  attic\n"
        "         2         3  hall\n"
        "        30        31  hall\n"
    )


@pytest.mark.parametrize("times", ["iso", "micros"])
def test_sizes_that_change_are_lines_on_standard_error(capsys, times):
    second = 1_000_000
    rows = [
        ("q", "Window 1 min of s", None, 60 * second, 60 * second, 10 * second, ""),
        ("q", "Window 1 min of s", 5 * second, 15 * second, 60 * second, 10 * second, "used 2 MB"),
        ("r", "Granularity 1 s of s", 7 * second, 4 * second, second, 8 * second, ""),
    ]
    schema = quality_schema(times)
    columns = [pa.array(each) for each in zip(*rows, strict=True)]
    arrays = [each.cast(field.type) for each, field in zip(columns, schema, strict=True)]
    printer = Printer("table", {"q": COLUMNS})
    printer.add(QUALITY, pa.RecordBatch.from_arrays(arrays, schema=schema))
    printer.close()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "quality of q: Window 1 min of s is 0.25 times its best size from 1970-01-01T00:00:05Z on: used 2 MB",
        "quality of r: Granularity 1 s of s is 4 times its best size from 1970-01-01T00:00:07Z on",
    ]


def test_a_run_prints_the_sizes_that_its_limits_cause(tmp_path):
    rows = "".join(f"hall,{n % 7},{n * 10_000}\n" for n in range(6_000))
    window = "WINDOW(RANGE MIN 1 SECOND, MAX 20 SECONDS)"
    text = (
        "SET memory_limit = '5 kB';\n" + STREAM + f"INSERT INTO '{tmp_path / 'pairs'}' SELECT x.value FROM reading x "
        f"{window}, reading y {window} WHERE x.value = y.value AND x.at = y.at;\n"
    )
    (tmp_path / "reading.csv").write_text("place,value,at\n" + rows)
    (tmp_path / "query.sql").write_text(text.replace("'reading.csv'", f"'{tmp_path / 'reading.csv'}'"))
    done = CliRunner().invoke(app, ["run", str(tmp_path / "query.sql"), "--runtime", "embedded", "--once"])
    lines = [line for line in done.stderr.splitlines() if line.startswith("quality of ")]
    assert done.exit_code == 0
    assert lines
    assert all("times its best size from 1970-01-01T00:00:" in line for line in lines)
    assert any(": used state of " in line or ": expected state of " in line for line in lines)


def test_a_longer_cell_widens_its_column_from_there_on(capsys):
    printer = Printer("table", {"q": pa.schema(list(COLUMNS)[::-1])}, at_once=True)
    for place in ("attic", "conservatory", "hall"):
        printer.add("q", batch((1, 2, place)).select(COLUMNS.names[::-1]))
    assert capsys.readouterr().out == (
        "place  valid_to  valid_from\n"
        "attic         2           1\n"
        "conservatory         2           1\n"
        "hall                 2           1\n"
    )


def test_a_table_of_several_queries_says_whose_rows_follow(capsys):
    printer = Printer("table", {"one": COLUMNS, "two": COLUMNS, "none": COLUMNS}, at_once=True)
    for name in ("one", "one", "two", "one"):
        printer.add(name, batch((1, 2, name)))
    printer.close()
    printer.print_missing_headers()
    header, row = "valid_from  valid_to  place\n", "         1         2  "
    assert capsys.readouterr().out == (
        f"one:\n{header}{row}one\n{row}one\ntwo:\n{header}{row}two\none:\n{row}one\nnone:\n{header}"
    )


def test_rows_of_a_step_come_together_and_in_time_order():
    rows = pa.table({"k": [k for t in range(20) for k in (2, 1, 0)], "at": [t for t in range(20) for _ in range(3)]})
    calls: list[tuple[str, pa.RecordBatch]] = []
    with Session(runtime="embedded", buckets=3) as session:
        session.stream("s", rows, time="at")
        text = "SELECT k, COUNT(*) AS n FROM s WINDOW(RANGE 4) GROUP BY k; SELECT k FROM s WHERE k > 0"
        running = session.sql(text, once=True, on_rows=lambda name, rows: calls.append((name, rows)))
        assert running is not None
        running.wait()
    assert [name for name, _ in calls] == ["query_2", "query_1", "query_1"]  # a step, and the end
    for _, rows in calls:
        times = list(zip(*(in_micros(rows).column(c).to_pylist() for c in ("valid_from", "valid_to")), strict=True))
        assert times == sorted(times)
        assert len(times) > 2


@pytest.mark.parametrize(
    ("shape", "header"), [("csv", "valid_from,valid_to,place\n"), ("table", "valid_from  valid_to  place\n")]
)
def test_no_rows_still_have_a_header(tmp_path, monkeypatch, shape, header):
    assert run(tmp_path, NONE, "--once", "--format", shape).stdout == header
    # A live run that is stopped before its end.
    monkeypatch.setattr("tidegate.cli.queries.watch", lambda *_, **__: False)
    assert run(tmp_path, NONE, "--format", shape).stdout == header


def test_no_rows_are_no_json_lines(tmp_path):
    assert run(tmp_path, NONE, "--once", "--format", "jsonl").stdout == ""


def test_queries_with_the_same_columns_share_one_csv(tmp_path):
    text = "SELECT place FROM reading WHERE value < 9; SELECT place FROM reading WHERE value = 9; " + NONE
    assert run(tmp_path, text, "--once", "--format", "csv").stdout == (
        "query,valid_from,valid_to,place\nquery_1,3,4,attic\nquery_2,5,6,hall\n"
    )


def test_queries_with_different_columns_do_not_share_one_csv(tmp_path):
    text = "SELECT place FROM reading; SELECT value FROM reading;"
    refused = run(tmp_path, text, "--once", "--format", "csv")
    assert refused.exception.render() == (
        "error[Q305]: queries with different columns cannot share one CSV output\n"
        "   = hint: --out DIR writes each query to its own folder, --format jsonl names the query in every line"
    )
    for others in (["--format", "jsonl"], ["--format", "csv", "--out", str(tmp_path / "out")]):
        assert run(tmp_path, text, "--once", *others).exit_code == 0


def test_a_dead_letter_of_a_far_time_is_shown(capsys):
    letter = {"origin": "s", "reason": "late", "detail": "why", "time": 2**60, "row": "{}"}
    letters = pa.RecordBatch.from_pylist([letter], schema=DEAD_LETTER).cast(dead_letter_schema())
    Printer("csv", {}).add(DEAD_LETTERS, letters)
    assert capsys.readouterr().err == "dead letter (late): why: {}\n"


# ---- REAL


REALS = "CREATE STREAM s (r REAL, n INT, t TIMESTAMP) FROM 's.csv' TIMESTAMP BY t;"


def reals(folder: Path, text: str, *options: str) -> Result:
    (folder / "s.csv").write_text(
        "r,n,t\n36.87,0,2026-01-01T00:00:00Z\n"
        + "".join(f"{real},1,2026-01-01T00:00:0{i}Z\n" for i, real in enumerate(["0.1", "16777216", "", "3.4e38"], 1))
    )
    (folder / "query.sql").write_text(REALS + text)
    return CliRunner().invoke(
        app, ["run", str(folder / "query.sql"), "--runtime", "embedded", "--quiet", "--once", *options]
    )


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("table", ["36.87", "0.1", "16777216.0", "NULL", "3.4e+38"]),
        ("csv", ["36.87", "0.1", "16777216", "", "3.4e+38"]),
        ("jsonl", ["36.87}", "0.1}", "16777216}", "null}", "3.4e+38}"]),
    ],
)
def test_a_real_is_printed_in_its_shortest_form(tmp_path, shape, expected):
    lines = reals(tmp_path, "SELECT r FROM s", "--format", shape).stdout.splitlines()
    assert [line.rpartition("," if shape == "csv" else " ")[2] for line in lines[-5:]] == expected


@pytest.mark.parametrize("query", ["SELECT 1 DIV n AS x, r, t FROM s", "SELECT r FROM s WHERE 1 DIV n = 1 AND r > 0"])
def test_a_dead_letter_has_reals_in_their_shortest_form_and_times_in_iso_8601(tmp_path, query):
    said = reals(tmp_path, query)
    assert '"s.r": 36.87' in said.stderr.replace('"r"', '"s.r"')
    assert "DIV" in said.stderr
    assert "+00:00" not in said.stderr


def test_keys_in_dead_letters_of_aggregates_have_the_same_form(tmp_path):
    (tmp_path / "s.csv").write_text(
        "".join(["r,n,t\n", *("36.87,2147483647,2026-01-01T00:00:00Z\n" for _ in range(2))])
    )
    (tmp_path / "query.sql").write_text(
        REALS + "SELECT r, t, SUM(n * 4294967296) AS total FROM s WINDOW(NOW) GROUP BY r, t"
    )
    said = CliRunner().invoke(app, ["run", str(tmp_path / "query.sql"), "--runtime", "embedded", "--quiet", "--once"])
    assert '{"s.r": 36.87, "s.t": "2026-01-01T00:00:00Z"}' in said.stderr

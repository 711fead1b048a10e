"""Rows and inputs that are wrong: good rows give their results, bad ones are kept with the reason, errors explain."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.micros import in_micros

from tidegate.cli.main import main
from tidegate.errors import DataError, TidegateWarning
from tidegate.runtime.job import Progress
from tidegate.session import Session

TEN = "2026-01-01T10:00:"
AT_TEN = 1_767_261_600_000_000
SECOND = 1_000_000

STREAM = "CREATE STREAM s (k INT, v DOUBLE, at TIMESTAMP) FROM '{folder}/{path}' TIMESTAMP BY at"
NUMBERED = "CREATE STREAM s (k INT, b BIGINT, t STRING, at BIGINT) FROM '{folder}/s.csv' TIMESTAMP BY at;"


@pytest.fixture(params=["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def session(request):
    """A session of each runtime."""
    if request.param == "embedded":
        with Session(runtime="embedded", buckets=2) as opened:
            yield opened
    else:
        with Session(spark=request.getfixturevalue("spark"), buckets=2) as opened:
            yield opened


@dataclass(frozen=True)
class Outcome:
    """What came of a text: rows of each query without their validities, dead letters, figures."""

    rows: dict[str, list[tuple[object, ...]]]
    dead: list[dict[str, Any]]
    progress: Progress

    def letters(self, *columns: str) -> list[tuple[object, ...]]:
        return sorted((tuple(letter[c] for c in columns) for letter in self.dead), key=str)


def outcome(session: Session, text: str) -> Outcome:
    running = session.sql(text, once=True)
    running.wait()
    rows = {
        name: sorted((_values(row) for row in running.results(name).to_pylist()), key=str) for name in running.names
    }
    return Outcome(rows, in_micros(running.dead_letters()).to_pylist(), running.progress())


def _values(row: dict[str, object]) -> tuple[object, ...]:
    return tuple(value for name, value in row.items() if name not in ("valid_from", "valid_to"))


def write(folder: Path, files: dict[str, str]) -> Path:
    """Files in the order in which Spark is to read them."""
    for number, (name, text) in enumerate(files.items()):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (number, number))
    return folder


# ---- rows that cannot take part


def test_late_rows_are_kept_apart_and_change_nothing(session, tmp_path):
    first = f"k,v,at\n1,1.5,{TEN}00Z\n2,2.5,{TEN}20Z\n"
    second = f"k,v,at\n1,3.5,{TEN}14.999999Z\n1,4.5,{TEN}15Z\n2,5.5,{TEN}30Z\n"
    write(tmp_path, {"s/1.csv": first, "s/2.csv": second})
    stream = STREAM.format(folder=tmp_path, path="s")
    found = outcome(
        session,
        f"{stream} DELAY 5 SECONDS WITH (files_per_batch = 1);"
        "SELECT k, v FROM s; SELECT COUNT(*) AS n FROM s WINDOW(RANGE 1 HOUR SLIDE 1 HOUR);",
    )
    assert found.rows == {"query_1": [(1, 1.5), (1, 4.5), (2, 2.5), (2, 5.5)], "query_2": [(4,)]}
    detail = f"late by 1 microsecond: the time {TEN}14.999999Z is before the watermark {TEN}15Z"
    row = f'{{"k": 1, "v": 3.5, "at": "{TEN}14.999999Z"}}'
    time = AT_TEN + 15 * SECOND - 1
    place = {"file": str(tmp_path / "s/2.csv"), "line": 2}
    assert found.dead == [{"origin": "s", "reason": "late", "detail": detail, "time": time, "row": row, **place}]
    assert (found.progress.rows_in, found.progress.dead) == (5, {"late": 1})
    assert found.progress.watermarks == {"s": AT_TEN + 25 * SECOND}


def test_lines_of_csv_that_do_not_parse_are_kept_as_they_came(session, tmp_path):
    good = [f"1,1.5,{TEN}00Z", f'"2","2.5",{TEN}01Z']
    bad = [
        "3,1",
        "3,1,2,3",
        f"x,1,{TEN}01Z",
        f'4,"open,{TEN}02Z',
        "5,8,soon",
        f"99999999999,8,{TEN}04Z",
        f"6,1-2,{TEN}05Z",
    ]
    write(tmp_path, {"s.csv": "\n".join(["k,v,at", *bad[:4], *good, *bad[4:]]) + "\n"})
    found = outcome(session, STREAM.format(folder=tmp_path, path="s.csv") + "; SELECT k, v FROM s")
    assert found.rows["query_1"] == [(1, 1.5), (2, 2.5)]
    assert found.letters("reason", "origin", "row") == sorted([("malformed", "s", line) for line in bad], key=str)
    assert {letter["row"]: letter["detail"] for letter in found.dead} == {
        bad[0]: "2 fields where 3 belong",
        bad[1]: "4 fields where 3 belong",
        bad[2]: "column 'k': 'x' is not a valid INT",
        bad[3]: "a quote is not closed, or is followed by something other than a delimiter",
        bad[4]: "column 'at': 'soon' is not a valid TIMESTAMP",
        bad[5]: "column 'k': '99999999999' is not a valid INT",
        bad[6]: "column 'v': '1-2' is not a valid DOUBLE",
    }
    assert (found.progress.rows_in, found.progress.dead) == (9, {"malformed": 7})


def test_dead_letters_name_file_and_line(session, tmp_path):
    lines = ["k,v,at", f'1,"1\n5",{TEN}00Z', "", f"2,2,{TEN}00Z", f"3,x,{TEN}00Z"]
    write(tmp_path, {"s/1.csv": "\n".join(lines), "s/2.csv": f"k,v,at\n4,soon,{TEN}00Z\n"})
    found = outcome(session, STREAM.format(folder=tmp_path, path="s") + " DELAY 1 HOUR; SELECT k, v FROM s")
    assert found.rows["query_1"] == [(2, 2.0)]
    one, two = str(tmp_path / "s/1.csv"), str(tmp_path / "s/2.csv")
    assert found.letters("file", "line") == [(one, 2), (one, 6), (two, 2)]


def test_dead_letters_of_parquet_name_file_and_row(session, tmp_path):
    table = pa.table({"k": [1, 2, 2**40, 4], "v": [1.0] * 4, "at": pa.array([AT_TEN] * 4, pa.timestamp("us", "UTC"))})
    pq.write_table(table, tmp_path / "s.parquet", row_group_size=2)
    found = outcome(session, STREAM.format(folder=tmp_path, path="s.parquet") + "; SELECT k FROM s")
    assert found.letters("file", "line") == [(str(tmp_path / "s.parquet"), 3)]


def test_a_file_that_makes_another_one_late_is_named(session, tmp_path):
    rows = {name: [f"1,1,{TEN}{second:02d}Z" for second in seconds] for name, seconds in OVERLAPPING.items()}
    write(tmp_path, {name: "\n".join(["k,v,at", *lines]) + "\n" for name, lines in rows.items()})
    text = STREAM.format(folder=tmp_path, path="s") + " WITH (files_per_batch = 1); SELECT k FROM s"
    with pytest.warns(TidegateWarning) as caught:
        outcome(session, text)
    [warning] = [each.message for each in caught]
    assert warning.code == "W310"
    assert warning.message == (
        f"stream 's': 7 of 8 rows of {tmp_path}/s/2.csv are late, because {tmp_path}/s/1.csv moved the watermark on: "
        f"its times go up to {TEN}20Z"
    )
    assert warning.hint == (
        "declare DELAY 19 SECONDS or more, or sort the rows by time, "
        "or declare a stream for each file and combine them with UNION ALL"
    )


OVERLAPPING = {"s/1.csv": [0, 10, 20], "s/2.csv": [1, 2, 3, 4, 5, 6, 7, 30], "s/3.csv": [25, 40, 41]}


def test_only_columns_that_are_read_can_be_malformed(session, tmp_path):
    write(tmp_path, {"s.csv": f"k,v,at\nx,1.5,{TEN}00Z\n"})
    found = outcome(session, STREAM.format(folder=tmp_path, path="s.csv") + "; SELECT v FROM s")
    assert (found.rows["query_1"], found.dead) == ([(1.5,)], [])


def test_lines_that_are_no_json_object_are_kept_as_they_came(session, tmp_path):
    good = f'{{"k": 1, "v": 2, "at": "{TEN}00Z", "more": [1]}}'
    bad = ['{"k": 1, "v":', "[1]", f'{{"k": "x", "at": "{TEN}00Z"}}']
    write(tmp_path, {"s.jsonl": "\n".join([*bad, good])})
    found = outcome(session, STREAM.format(folder=tmp_path, path="s.jsonl") + "; SELECT k, v FROM s")
    assert found.rows["query_1"] == [(1, 2.0)]
    assert found.letters("reason", "row", "detail") == [
        ("malformed", "[1]", "the line is not a JSON object"),
        ("malformed", bad[2], "column 'k': 'x' is not a valid INT"),
        ("malformed", bad[0], "the line is not JSON: Expecting value at character 14"),
    ]
    assert found.progress.dead == {"malformed": 3}


def test_a_key_that_no_row_of_a_file_has_is_a_warning_and_keys_count_in_any_case(session, tmp_path):
    one = f'{{"K": 1, "At": "{TEN}00Z"}}\n{{"k": 2, "v": null, "at": "{TEN}01Z"}}\n'
    two = f'{{"k": 3, "volume": 1, "at": "{TEN}02Z"}}\n' * 2
    write(tmp_path, {"s/1.jsonl": one, "s/2.jsonl": two})
    text = STREAM.format(folder=tmp_path, path="s") + " DELAY 1 HOUR; SELECT k, v FROM s"
    with pytest.warns(TidegateWarning) as caught:
        found = outcome(session, text)
    assert found.rows["query_1"] == [(1, None), (2, None), (3, None), (3, None)]
    assert [(each.message.code, each.message.message) for each in caught] == [
        ("W311", f"stream 's': no row of {tmp_path}/s/2.jsonl has the key 'v', so the column is NULL there")
    ]


@pytest.mark.parametrize("path", ["s.csv", "s.jsonl", "s.parquet"])
def test_rows_without_a_time_are_kept(session, tmp_path, path):
    times = [AT_TEN, None, AT_TEN + 1]
    table = pa.table({"k": [1, 2, 3], "v": [0.5, 1.5, 2.5], "at": pa.array(times, pa.timestamp("us", "UTC"))})
    pq.write_table(table, tmp_path / "s.parquet")
    objects = [
        f'{{"k": 1, "v": 0.5, "at": "{TEN}00Z"}}',
        '{"k": 2, "v": 1.5}',
        f'{{"k": 3, "v": 2.5, "at": "{TEN}00.000001Z"}}',
    ]
    lines = ["k,v,at", f"1,0.5,{TEN}00Z", '2,1.5,""', f"3,2.5,{TEN}00.000001Z"]
    write(tmp_path, {"s.csv": "\n".join(lines), "s.jsonl": "\n".join(objects)})
    found = outcome(session, STREAM.format(folder=tmp_path, path=path) + "; SELECT k FROM s WHERE k <> 2")
    assert found.rows["query_1"] == [(1,), (3,)]
    (letter,) = found.dead
    assert (letter["origin"], letter["reason"], letter["time"]) == ("s", "no_time", None)
    assert letter["detail"] == "the time column 'at' is empty"
    assert '"k": 2' in letter["row"]
    assert found.progress.dead == {"no_time": 1}


def test_times_out_of_range_are_kept_and_do_not_move_the_watermark(session, tmp_path):
    lines = ["k,b,t,at", f"1,0,,{2**61}", f"2,0,,-{2**61}", "3,0,,7", "4,0,,9223372036854775808"]
    write(tmp_path, {"s.csv": "\n".join(lines)})
    found = outcome(session, NUMBERED.format(folder=tmp_path) + "SELECT k FROM s")
    assert found.rows["query_1"] == [(3,)]
    assert found.letters("reason", "detail", "row") == [
        ("malformed", "column 'at': '9223372036854775808' is not a valid BIGINT", "4,0,,9223372036854775808"),
        (
            "time_range",
            f"column 'at': -{2**61} microseconds is too far from 1970 to be a time",
            f'{{"k": 2, "at": -{2**61}}}',
        ),
        (
            "time_range",
            f"column 'at': {2**61} microseconds is too far from 1970 to be a time",
            f'{{"k": 1, "at": {2**61}}}',
        ),
    ]
    assert found.progress.watermarks == {"s": 7}
    assert found.progress.dead == {"malformed": 1, "time_range": 2}


def test_values_of_parquet_that_do_not_fit_the_declared_type_are_kept(session, tmp_path):
    pq.write_table(pa.table({"k": [1, 2**40, 3], "v": [1, 2, 3], "at": [AT_TEN] * 3}), tmp_path / "s.parquet")
    stream = f"CREATE STREAM s (k INT, v DOUBLE, at BIGINT) FROM '{tmp_path}/s.parquet' TIMESTAMP BY at;"
    found = outcome(session, stream + "SELECT k, v FROM s")
    assert found.rows["query_1"] == [(1, 1.0), (3, 3.0)]
    (letter,) = found.dead
    assert (letter["reason"], letter["detail"]) == ("malformed", "column 'k': 1099511627776 is not a valid INT")
    assert letter["row"] == '{"k": 1099511627776, "v": 2, "at": 1767261600000000}'


# ---- rows whose expressions fail


def test_rows_whose_expressions_fail_are_kept_with_the_expression(session, tmp_path):
    write(tmp_path, {"s.csv": "k,b,t,at\n1,0,7,0\n2147483647,1,x,1\n3,2,9,2\n"})
    found = outcome(
        session,
        NUMBERED.format(folder=tmp_path)
        + "SELECT k DIV b AS q FROM s; SELECT k + 1 AS n FROM s; SELECT CAST(t AS INT) AS i FROM s;"
        "SELECT k FROM s WHERE 10 / b > 1; SELECT k, LN(b) AS l FROM s;",
    )
    assert found.rows == {
        "query_1": [(1,), (2147483647,)],
        "query_2": [(2,), (4,)],
        "query_3": [(7,), (9,)],
        "query_4": [(2147483647,), (3,)],
        "query_5": [(2147483647, 0.0), (3, 0.6931471805599453)],
    }
    assert found.letters("origin", "reason", "time", "row") == [
        ("query_1", "division_by_zero", 0, '{"s.k": 1, "s.b": 0}'),
        ("query_2", "overflow", 1, '{"s.k": 2147483647}'),
        ("query_3", "invalid_cast", 1, '{"s.t": "x"}'),
        ("query_4", "division_by_zero", 0, '{"k": 1, "b": 0}'),
        ("query_5", "domain", 0, '{"s.k": 1, "s.b": 0}'),
    ]
    details = [detail for (detail,) in found.letters("detail")]
    assert details == ["in 10.0 / b > 1.0", "in CAST(s.t AS INT)", "in ln(s.b)", "in s.k + 1", "in s.k DIV s.b"]
    assert found.progress.dead == {"division_by_zero": 2, "overflow": 1, "invalid_cast": 1, "domain": 1}


def test_a_failing_row_is_missing_from_its_group_only(session, tmp_path):
    write(tmp_path, {"s.csv": "k,b,t,at\n1,0,a,0\n2,5,a,0\n3,5,b,0\n"})
    found = outcome(
        session,
        NUMBERED.format(folder=tmp_path)
        + "SELECT t, SUM(10 DIV b) AS total, COUNT(*) AS n FROM s WINDOW(NOW) GROUP BY t",
    )
    assert found.rows["query_1"] == [("a", 2, 1), ("b", 2, 1)]
    assert found.progress.dead == {"division_by_zero": 1}


def test_pairs_that_fail_in_a_join_are_kept_and_others_meet(session, tmp_path):
    write(tmp_path, {"s.csv": "k,b,t,at\n1,0,a,0\n1,5,b,0\n"})
    found = outcome(
        session,
        NUMBERED.format(folder=tmp_path) + "SELECT a.t AS one, c.t AS other FROM s a WINDOW(NOW), s c WINDOW(NOW) "
        "WHERE a.k = c.k AND 10 DIV (a.b * c.b) < 1",
    )
    assert found.rows["query_1"] == [("b", "b")]
    assert found.progress.dead == {"division_by_zero": 3}


def test_a_sum_that_overflows_is_a_dead_letter_for_as_long_as_it_does(session, tmp_path):
    write(tmp_path, {"s.csv": f"k,b,t,at\n1,{2**63 - 1},,0\n1,1,,2\n2,5,,2\n1,-7,,9\n"})
    found = outcome(
        session, NUMBERED.format(folder=tmp_path) + "SELECT k, SUM(b) AS total FROM s WINDOW(RANGE 4) GROUP BY k"
    )
    assert found.rows["query_1"] == [(1, -7), (1, 1), (1, 2**63 - 1), (2, 5)]
    (letter,) = found.dead
    assert (letter["origin"], letter["reason"], letter["time"]) == ("query_1", "overflow", 2)
    assert letter["row"] == '{"s.k": 1}'
    assert letter["detail"] == "the sum is outside the range of BIGINT"


# ---- inputs that are wrong as a whole: told in words, on the command line


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Runs the command line in a folder; answers the exit code and what it said."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_text(f"k,v,at\n1,1.5,{TEN}00Z\n2,2.5,{TEN}10Z\n")

    def run(text: str, *options: str) -> tuple[int, str]:
        (tmp_path / "query.sql").write_text(text)
        monkeypatch.setattr("sys.argv", ["tidegate", "run", "query.sql", "--runtime", "embedded", "--once", *options])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return int(ended.value.code or 0), captured.err.replace(str(tmp_path), "…").rstrip("\n")

    return run


def said(code: int, *lines: str) -> tuple[int, str]:
    return code, "\n".join(lines)


def stream(path: str, columns: str = "k INT, v DOUBLE, at TIMESTAMP") -> str:
    return f"CREATE STREAM s ({columns}) FROM '{path}' TIMESTAMP BY at;\n"


COUNT = "SELECT k, COUNT(*) AS n FROM s WINDOW(RANGE 1 MINUTE) GROUP BY k"


def test_a_missing_file(command):
    assert command(stream("goood.csv") + "SELECT k FROM s") == said(
        3, "error[D102]: stream 's': no data at …/goood.csv"
    )


def test_an_empty_folder(command, tmp_path):
    (tmp_path / "data").mkdir()
    assert command(stream("data") + "SELECT k FROM s") == said(
        3,
        "error[D102]: stream 's': …/data is empty, so its format is unknown",
        "   = hint: to wait for the first file, give its format: WITH (format = 'csv'), or FROM '…/*.csv'",
    )
    assert command(stream("data/*.csv") + "SELECT k FROM s") == said(
        3, "error[D102]: stream 's': no data at …/data/*.csv"
    )


def test_a_folder_without_files_of_the_format(command, tmp_path):
    (tmp_path / "data").mkdir()
    shutil.copy(tmp_path / "good.csv", tmp_path / "data" / "good.txt")
    code, words = command(stream("data") + "SELECT k FROM s")
    assert (code, words) == said(
        3,
        "error[D101]: stream 's': …/data has no file ending that gives its format (good.txt)",
        "   = hint: add the option format = 'csv', 'jsonl' or 'parquet'",
    )


def test_a_header_that_lacks_a_column(command):
    code, words = command(stream("good.csv", "k INT, value DOUBLE, at TIMESTAMP") + "SELECT k FROM s")
    assert (code, words) == said(
        3,
        "error[D103]: stream 's': …/good.csv has no column 'value'",
        "   declared: k, value, at",
        "   found:    k, v, at",
        "   = hint: available: at, k, v. If the first line is data, add the option header = 'false'.",
    )


def test_one_bad_file_among_others_is_a_dead_letter(command, tmp_path):
    write(tmp_path, {"data/1.csv": f"k,v,at\n1,1,{TEN}00Z\n", "data/2.csv": f"k,w,at\n1,1,{TEN}00Z\n"})
    code, words = command(stream("data") + "SELECT k FROM s")
    assert code == 3
    assert words.splitlines()[0] == (
        "dead letter (bad_file) …/data/2.csv: stream 's': …/data/2.csv has no column 'v'; declared: k, v, at; "
        "found:    k, w, at (available: at, k, w. If the first line is data, add the option header = 'false'.)"
    )
    assert "2 rows in · 1 rows out" in words
    assert words.splitlines()[2] == "dead letters: 1 bad_file"


def test_one_bad_file_ends_the_run_if_the_stream_says_so(command, tmp_path):
    write(tmp_path, {"data/1.csv": f"k,v,at\n1,1,{TEN}00Z\n", "data/2.csv": f"k,w,at\n1,1,{TEN}00Z\n"})
    code, words = command(stream("data").replace(";", " ON BAD FILE STOP;") + "SELECT k FROM s")
    assert code == 3
    assert words.splitlines()[0] == "error[D103]: stream 's': …/data/2.csv has no column 'v'"


def test_a_parquet_column_of_another_type(command, tmp_path):
    pq.write_table(pa.table({"k": [1], "v": [True], "at": [0]}), tmp_path / "s.parquet")
    code, words = command(stream("s.parquet", "k INT, v DOUBLE, at BIGINT") + "SELECT k FROM s")
    assert (code, words) == said(
        3,
        "error[D103]: stream 's': column 'v' of …/s.parquet is bool, declared DOUBLE",
        "   = hint: declare it BOOLEAN",
    )


def test_a_file_that_is_no_parquet(command, tmp_path):
    (tmp_path / "s.parquet").write_text("k,v\n")
    code, words = command(stream("s.parquet") + "SELECT k FROM s")
    assert code == 3
    assert words.startswith("error[D104]: …/s.parquet cannot be read: ")


def test_an_option_that_does_not_exist(command):
    code, words = command(stream("good.csv").replace(";", " WITH (headers = false);") + "SELECT k FROM s")
    assert (code, words) == said(
        3, "error[D105]: stream 's': unknown option 'headers'", "   = hint: did you mean 'header'?"
    )


def test_an_unknown_function(command):
    assert command(stream("good.csv") + "SELECT k,\n       sqr(v) AS root\nFROM s") == said(
        2,
        "error[Q120]: unknown function 'sqr'",
        "  --> 3:8",
        "   |        sqr(v) AS root",
        "   |        ^^^",
        "   = hint: did you mean 'sqrt'?",
    )


def test_an_unknown_column(command):
    assert command(stream("good.csv") + "SELECT k, vs FROM s") == said(
        2,
        "error[Q102]: s has no column 'vs'",
        "  --> 2:11",
        "   | SELECT k, vs FROM s",
        "   |           ^^",
        "   = hint: did you mean 'v'?",
    )


def test_a_query_that_would_need_unbounded_state(command):
    assert command(stream("good.csv") + "SELECT k, COUNT(*) AS n FROM s WINDOW(RANGE UNBOUNDED) GROUP BY k") == said(
        2,
        "error[Q201]: an aggregate over an unbounded window would have to keep all elements for ever",
        "  --> 2:32",
        "   | SELECT k, COUNT(*) AS n FROM s WINDOW(RANGE UNBOUNDED) GROUP BY k",
        "   |                                ^^^^^^^^^^^^^^^^^^^^^^^",
        "   = hint: give the window a RANGE, such as RANGE 1 HOUR",
    )


def test_a_checkpoint_of_another_program(command):
    assert command(stream("good.csv") + COUNT, "--checkpoint", "state", "--buckets", "1")[0] == 0

    def refused(*differences: str) -> tuple[int, str]:
        message = "error[D303]: the checkpoint …/state belongs to another program or other settings"
        hint = "   = hint: use another --checkpoint folder, or remove this one to start from the beginning"
        return said(3, message, *differences, hint)

    assert command(stream("good.csv") + COUNT.replace("1 MINUTE", "2 MINUTES"), "--checkpoint", "state") == refused(
        "   query 'query_1'", "     was: Window range 1 minute", "     now: Window range 2 minutes"
    )
    assert command(stream("good.csv") + COUNT, "--checkpoint", "state", "--buckets", "3") == refused(
        "   buckets", "     was: 1", "     now: 3"
    )
    later = stream("good.csv").replace("BY at", "BY at DELAY 2 SECONDS")
    assert command(later + COUNT, "--checkpoint", "state") == refused(
        "   stream 's'",
        "     was: from 'good.csv' timestamp by at",
        "     now: from 'good.csv' timestamp by at delay 2 seconds",
    )


def test_a_state_file_that_is_damaged_or_lost(command, tmp_path):
    assert command(stream("good.csv") + COUNT, "--checkpoint", "state", "--buckets", "1")[0] == 0
    (file,) = state_files(tmp_path / "state")
    damage(file)
    assert command(stream("good.csv") + COUNT, "--checkpoint", "state") == said(
        3,
        f"error[D302]: the file …/{file.relative_to(tmp_path)} of the checkpoint is damaged",
        "   = hint: restore the file from a copy, or start from the beginning with an empty checkpoint folder",
    )
    file.unlink()
    code, words = command(stream("good.csv") + COUNT, "--checkpoint", "state")
    assert (code, words) == said(
        3,
        f"error[D301]: the checkpoint lacks the state file …/{file.relative_to(tmp_path)}",
        "   = hint: restore the file from a copy, or start from the beginning with an empty checkpoint folder",
    )


def test_a_record_of_a_step_that_is_damaged(command, tmp_path):
    assert command(stream("good.csv") + COUNT, "--checkpoint", "state")[0] == 0
    (record,) = (tmp_path / "state" / "steps").iterdir()
    record.write_text(record.read_text()[:10])
    code, words = command(stream("good.csv") + COUNT, "--checkpoint", "state")
    assert (code, words) == said(
        3,
        f"error[D302]: the file …/{record.relative_to(tmp_path)} of the checkpoint is damaged",
        "   = hint: restore the file from a copy, or start from the beginning with an empty checkpoint folder",
    )


def test_a_checkpoint_or_a_folder_that_cannot_be_written(command):
    code, words = command(stream("good.csv") + COUNT, "--checkpoint", "good.csv")
    assert code == 3
    assert words.startswith("error[D305]: the checkpoint …/good.csv cannot be written: ")
    code, words = command(stream("good.csv") + COUNT, "--out", "good.csv")
    assert code == 3
    assert words.splitlines()[0] == "results of query_1 go to …/good.csv/query_1 (parquet)"
    assert words.splitlines()[2].startswith("error[D106]: cannot write to …/good.csv/query_1: ")


def test_a_query_file_that_is_missing_or_no_text(command, tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "write_text", lambda *_: 0)
    code, words = command("")
    assert (code, words) == said(2, "error[Q303]: the file query.sql cannot be read: No such file or directory")
    (tmp_path / "query.sql").write_bytes(b"SELECT \xff")
    assert command("") == said(2, "error[Q303]: the file query.sql is not UTF-8 text")


# ---- the same on Spark


@pytest.mark.spark
def test_spark_tells_of_wrong_inputs_as_the_embedded_runtime_does(spark, tmp_path):
    with Session(spark=spark) as session, pytest.raises(DataError) as raised:
        session.sql(stream(f"{tmp_path}/none.csv") + "SELECT k FROM s", once=True)
    assert raised.value.code == "D102"


@pytest.mark.spark
def test_what_a_task_of_spark_finds_is_told_in_its_own_words(spark, tmp_path):
    write(tmp_path, {"s/1.csv": f"k,v,at\n1,1.5,{TEN}00Z\n"})
    text = stream(f"{tmp_path}/s") + COUNT
    with Session(spark=spark, buckets=1) as session:
        session.sql(text, once=True, checkpoint=str(tmp_path / "state")).wait()
    # Workers keep what they wrote, by the path of its checkpoint: under another path they have to read it.
    shutil.copytree(tmp_path / "state", tmp_path / "other")
    (file,) = state_files(tmp_path / "other")
    damage(file)
    write(tmp_path, {"s/2.csv": f"k,v,at\n1,1.5,{TEN}01Z\n"})
    with Session(spark=spark, buckets=1) as session, pytest.raises(DataError) as raised:
        session.sql(text, once=True, checkpoint=str(tmp_path / "other")).wait()
    assert raised.value.render() == (
        f"error[D302]: the file {file} of the checkpoint is damaged\n   = hint: restore the file from a copy, or "
        "start from the beginning with an empty checkpoint folder"
    )


def state_files(checkpoint: Path) -> list[Path]:
    return [path for path in (checkpoint / "state").rglob("*") if path.is_file() and not path.name.startswith(".")]


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0xFF
    file.write_bytes(content)

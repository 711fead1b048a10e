"""What is shown on a terminal: nothing that is too long, nothing that moves the cursor."""

from __future__ import annotations

import pyarrow as pa

from tidegate.cli.output import Printer
from tidegate.cli.table import align_table
from tidegate.errors import DataError, printable
from tidegate.physical.common.dead_letters import DEAD_LETTER
from tidegate.runtime.job import DEAD_LETTERS
from tidegate.schema import Type
from tidegate.session import Session

FAR = 316_516_204_800_000_000  # the year 12000


def test_dead_letters_on_standard_error_are_escaped_and_cut(capsys):
    printer = Printer("table", {})
    letter = {"origin": "s", "reason": "malformed", "detail": "bad\x1b[2J", "row": "1,\0\r\n" + "0" * 5_000}
    printer.add(DEAD_LETTERS, pa.RecordBatch.from_pylist([letter], schema=DEAD_LETTER))
    row = "1,\\x00\\r\\n" + "0" * 290 + "… (5,005 characters)"
    assert capsys.readouterr().err == f"dead letter (malformed): bad\\x1b[2J: {row}\n"


def test_errors_are_escaped_and_cut_line_by_line():
    error = DataError("D103", "found:\n\x1b[31m" + "x" * 10_000, hint="a\x07")
    first, second, hint = error.render().split("\n")
    assert (first, hint) == ("error[D103]: found:", "   = hint: a\\x07")
    assert second.startswith("\\x1b[31mxxx")
    assert second.endswith("x… (10,005 characters)")
    assert len(second) < 2_100


def test_writing_is_not_turned_around():
    assert printable("a\u202eb\u2066") == "a\\u202eb\\u2066"
    assert printable("ä 漢 🌊") == "ä 漢 🌊"


def test_a_table_keeps_its_lines_whatever_its_values_are():
    assert align_table(pa.table({"note": ["two\nlines"]})) == "note\ntwo\\nlines\n"


def test_a_time_beyond_the_year_9999_is_shown_in_tables_and_dead_letters():
    times = pa.array([FAR, FAR], pa.int64()).cast(Type.TIMESTAMP.arrow)
    assert align_table(pa.table({"at": times[:1]})) == "at\n+12000-01-01T00:00:00Z\n"
    session = Session(runtime="embedded")
    session.stream("s", pa.table({"at": times, "v": [0, 0], "big": [2**62, 2**62]}), time="at")
    sums = "SUM(big) AS x, MEDIAN(big) AS y"  # each way to aggregate has dead letters of its own
    for columns in ("at, 1 / v AS x", "at, SUM(big) AS x", f"at, {sums}"):
        grouped = " WINDOW(RANGE 1 SECOND) GROUP BY at" if "SUM" in columns else ""
        query = session.sql(f"SELECT {columns} FROM s{grouped}")
        query.finish()
        assert "+12000-01-01T00:00:00Z" in query.dead_letters().column("row")[0].as_py()
    session.close()


def test_a_long_bad_value_does_not_make_a_long_detail(tmp_path):
    (tmp_path / "a.csv").write_text(f"t,v\n1,{'x' * 100_000}\n")
    session = Session(runtime="embedded")
    query = session.sql(f"CREATE STREAM s (t BIGINT, v INT) FROM '{tmp_path}/a.csv' TIMESTAMP BY t; SELECT v FROM s")
    query.finish()
    [letter] = query.dead_letters().to_pylist()
    assert len(letter["detail"]) < 400
    assert len(letter["row"]) == 100_002
    session.close()

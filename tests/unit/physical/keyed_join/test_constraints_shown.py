"""What SHOW CONSTRAINTS says after a run: of each declaration what all edges of all joins make of it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate.catalog.catalog import ShowConstraints, SourceStream
from tidegate.catalog.constraints import COLUMNS, ConstraintFinding, constraint_rows, declaration_identity
from tidegate.language.bind.program import bind
from tidegate.runtime.commands import findings_of_runs
from tidegate.session import Session

ROWS, FILES = 200, 4
LONG, SHORT = "RANGE 10 MINUTES", "RANGE 2 SECONDS"
SECOND = 1_000_000
REFERS = "CONSTRAINT arrived (pid) REFERENCES b (pid) WITHIN"


def stream(folder: Path, name: str, said: str, key: str = "pid BIGINT", *, last: int = ROWS - 1) -> str:
    """A stream of a row in each second, in files that are read one after the other; its last row may be another."""
    (folder / name).mkdir()
    column = key.rpartition(" ")[0].strip('"')
    lines = [f"{n},{n % 7},{n * SECOND}" for n in range(1, ROWS)] + [f"{last},0,{ROWS * SECOND}"]
    for number in range(FILES):
        file = folder / name / f"{number}.csv"
        file.write_text("\n".join([f"{column},size,at", *lines[number * 50 : number * 50 + 50]]))
        os.utime(file, (number, number))
    text = f"CREATE STREAM {name} ({key}, size INT, at BIGINT) FROM '{folder / name}' TIMESTAMP BY at {said}"
    return text + " WITH (files_per_batch = 1);\n"


def joined(where: str = "b.pid = c.pid", window: str = LONG, *, one: str = "b") -> str:
    return f"SELECT c.size FROM {one} WINDOW({window}), c WINDOW({window}) WHERE {where};\n"


def shown(text: str) -> dict[str, dict[str, str]]:
    """The lines of constraints by what these say, after all has been read."""
    with Session(runtime="embedded") as session:
        running = session.sql(text, once=True)
        assert running is not None
        running.wait()
        streams = [each for each in session.catalog if isinstance(each, SourceStream)]
        rows = constraint_rows(streams, findings_of_runs([running.progress().control]))
    lines = [dict(zip(COLUMNS, row, strict=True)) for row in rows if not row[1].startswith("key ")]
    found = {f"{line['stream']} {line['constraint']}": line for line in lines}
    assert len(found) == len(lines)
    return found


def test_what_one_edge_makes_use_of_is_in_use_whatever_is_said_of_another(tmp_path):
    text = stream(tmp_path, "b", "KEY (pid)") + stream(tmp_path, "c", "KEY (pid) ORDERED BY pid WITHIN 100 ROWS")
    (line,) = shown(text + joined()).values()
    assert (line["origin"], line["in_use"]) == ("declared", "yes")
    assert line["saves"].startswith("about ")


def test_what_is_broken_on_one_edge_is_broken(tmp_path):
    c = stream(tmp_path, "c", "KEY (pid) ORDERED BY pid WITHIN 5 ROWS", last=0)
    b = stream(tmp_path, "b", "KEY (pid)")
    first = tmp_path / "b/0.csv"
    first.write_text(first.read_text().replace("\n1,1,", "\n0,1,"))
    (line,) = shown(b + c + joined()).values()
    assert line["in_use"] == "yes, but it was broken: 1 row arrived too late"


@pytest.mark.parametrize("windows", [(LONG, SHORT), (SHORT, LONG)])
def test_what_one_query_makes_use_of_is_in_use_whatever_is_said_of_another(tmp_path, windows):
    text = stream(tmp_path, "b", "KEY (pid)") + stream(tmp_path, "c", f"{REFERS} 3 SECONDS")
    (line,) = shown(text + "".join(joined(window=each) for each in windows)).values()
    assert (line["in_use"], line["within"]) == ("yes", "3 seconds")


def test_where_nobody_makes_use_of_it_a_reason_is_shown(tmp_path):
    text = stream(tmp_path, "b", "KEY (pid)") + stream(tmp_path, "c", f"{REFERS} 1 HOUR")
    (line,) = shown(text + joined() + joined(window=SHORT)).values()
    assert line["in_use"] == "no: rows of c are valid for only 10 minutes"


def test_a_declaration_may_have_columns_in_another_order_than_the_key(tmp_path):
    said = "CONSTRAINT (size, pid) REFERENCES b (size, pid) WITHIN 3 SECONDS CLUSTERED BY (size, pid) WITHIN 3 SECONDS"
    text = stream(tmp_path, "b", "KEY (pid, size)") + stream(tmp_path, "c", said)
    lines = shown(text + joined("b.pid = c.pid AND b.size = c.size"))
    assert {name: line["in_use"] for name, line in lines.items()} == {
        "c (size, pid) references b (size, pid)": "yes",
        "c clustered by size, pid": "yes",
    }


def test_a_declaration_that_is_not_about_what_is_joined_has_its_reason(tmp_path):
    said = "CONSTRAINT two (pid, size) REFERENCES b (pid, size) WITHIN 1 SECOND CLUSTERED BY (pid, size) WITHIN 9 ROWS"
    text = stream(tmp_path, "b", "KEY (pid, size)") + stream(tmp_path, "c", f"{REFERS} 1 SECOND {said}")
    lines = shown(text + joined("b.pid = c.pid AND b.size = 3"))
    assert {line["constraint"]: line["in_use"] for line in lines.values()} == {
        "arrived: (pid) references b (pid)": "yes",
        "two: (pid, size) references b (pid, size)": "no: it refers by (pid, size), but these columns are not joined",
        "clustered by pid, size": "no: it is by (pid, size), but rows are joined by (pid)",
    }


def test_reaches_that_are_longer_because_of_a_slide_belong_to_their_declaration(tmp_path):
    text = stream(tmp_path, "b", "KEY (pid)") + stream(tmp_path, "c", f"{REFERS} 3 SECONDS")
    (line,) = shown(text + joined(window="RANGE 10 MINUTES SLIDE 1 MINUTE")).values()
    assert (line["origin"], line["within"], line["in_use"]) == ("declared", "3 seconds", "yes")


# ---- names


@pytest.mark.parametrize("use", ["declared", "monitored"])
@pytest.mark.parametrize(
    ("key", "derived", "where"),
    [
        ("pid INT", "", "b.pid = c.pid"),
        ("pid BIGINT", "CREATE STREAM big AS SELECT pid AS packet, size FROM b;", "big.packet = c.pid"),
    ],
)
def test_columns_have_the_names_that_they_have_in_the_source(tmp_path, key, derived, where, use):
    text = stream(tmp_path, "b", "KEY (pid)") + stream(tmp_path, "c", f"{REFERS} 1 SECOND", key) + derived
    lines = shown(f"SET constraints = {use}; {text}" + joined(where, one="big" if derived else "b"))
    watched = {"c clustered by pid", "c ordered by pid", "b ordered by pid"} if use == "monitored" else set()
    assert set(lines) == {"c arrived: (pid) references b (pid)"} | watched
    assert lines["c arrived: (pid) references b (pid)"]["in_use"] == "yes"


def test_a_name_may_have_a_dot(tmp_path):
    b = stream(tmp_path, "b", 'KEY ("p.id")', '"p.id" BIGINT')
    text = b + stream(tmp_path, "c", 'CONSTRAINT ("p.id") REFERENCES b ("p.id") WITHIN 1 SECOND', '"p.id" BIGINT')
    lines = shown("SET constraints = monitored;" + text + joined('b."p.id" = c."p.id"'))
    assert set(lines) == {
        "c (p.id) references b (p.id)", "c clustered by p.id", "c ordered by p.id", "b ordered by p.id",
    }  # fmt: skip
    assert lines["c (p.id) references b (p.id)"]["origin"] == "declared"


def test_what_is_computed_is_shown_by_how_it_is_made_of_columns_of_the_source(tmp_path):
    text = "".join(stream(tmp_path, name, said, "pid STRING") for name, said in (("b", "KEY (pid)"), ("c", "")))
    derived = "CREATE STREAM loud AS SELECT UPPER(pid) AS name, size FROM c;"
    query = f"SELECT n.size FROM b WINDOW({LONG}), loud n WINDOW({LONG}) WHERE b.pid = LOWER(n.name);"
    lines = shown("SET constraints = monitored;" + text + derived + query)
    assert set(lines) == {"c (lower(upper(pid))) references b (pid)", "c clustered by lower(upper(pid))"}


# ---- several that speak of one


(SHOW,) = bind("""
CREATE STREAM b (pid BIGINT, at TIMESTAMP) FROM 'b' TIMESTAMP BY at ORDERED BY PID WITHIN 9 ROWS;
SHOW CONSTRAINTS""").commands
assert isinstance(SHOW, ShowConstraints)
STREAMS = SHOW.streams
ORDERED = declaration_identity(STREAMS[0].constraints[0])
USED = ConstraintFinding("B", "ordered by pid", in_use="yes", saves="about 5 rows", declaration=ORDERED, rows=5)
UNUSED = ConstraintFinding("b", "ordered by pid", in_use="no: so", declaration=ORDERED)
BROKEN = replace(USED, in_use="yes, but it was broken: 2 rows arrived too late", late=2, rows=4)


def line(*found: ConstraintFinding) -> tuple[str, ...]:
    (only,) = constraint_rows(STREAMS, found)
    return only


@pytest.mark.parametrize(
    ("found", "in_use", "saves"),
    [
        ([], "", ""),
        ([UNUSED, replace(UNUSED, in_use="no: why")], "no: so", ""),
        ([USED, UNUSED], "yes", "about 5 rows"),
        ([UNUSED, USED, USED], "yes", "about 10 rows"),
        ([USED, BROKEN, UNUSED], BROKEN.in_use, "about 9 rows"),
        ([replace(BROKEN, in_use="yes, but it was broken: 1 row arrived too late", late=1), BROKEN], BROKEN.in_use,
         "about 8 rows"),
    ],
)  # fmt: skip
def test_what_several_say_is_put_together(found, in_use, saves):
    assert line(*found) == ("b", "ordered by pid", "9 rows", "declared", in_use, "", "", saves)
    assert line(*reversed(found))[-1] == saves


def test_of_what_several_find_the_farthest_is_told():
    near, far, none = (
        ConstraintFinding("b", "clustered by pid", within, in_use, saves=saves, rows=rows, distance=distance)
        for within, in_use, saves, rows, distance in [
            ("3 rows", "yes", "about 2 rows", 2, 2),
            ("9 rows", "yes", "about 4 rows", 4, 8),
            ("", "no: not enough is known yet", "", 0, 0),
        ]
    )
    _, only = constraint_rows(STREAMS, [near, none, far])
    assert only == ("b", "clustered by pid", "9 rows", "found", "yes", "", "", "about 6 rows")


def test_what_a_run_says_of_a_stream_that_was_dropped_is_shown_as_it_was_declared():
    assert constraint_rows([], [USED]) == [("B", "ordered by pid", "", "declared", "yes", "", "", "about 5 rows")]

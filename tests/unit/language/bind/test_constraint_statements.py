"""Keys, constraints and settings in statements: what is read from them, and what is said about wrong ones.

Wrong statements are in ``wrong_constraints.txt``: a statement, an arrow, the message. After a change of words,
``PYTHONPATH=tests python tests/unit/language/bind/test_constraint_statements.py``
writes the messages again, for a person to read.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from inline_snapshot import snapshot
from support.paths import ROOT
from support.wrong import cases, said_of, write_anew

from tidegate.algebra.constraints import (
    Clustered,
    ConstraintSettings,
    ConstraintUse,
    Monitoring,
    Ordered,
    Reach,
    Reference,
)
from tidegate.algebra.plan import Scan, walk
from tidegate.catalog.catalog import Catalog, Describe, Program, ShowConstraints, SourceStream
from tidegate.catalog.constraints import COLUMNS, ConstraintFinding, constraint_rows, declaration_identity
from tidegate.catalog.show import answer
from tidegate.errors import QueryError
from tidegate.language.bind.program import bind
from tidegate.session import Session

TEXTS = Path(__file__).with_name("wrong_constraints.txt")

CATALOG = bind("""
CREATE STREAM o (pid BIGINT, weight DOUBLE, at TIMESTAMP) FROM 'o' TIMESTAMP BY at KEY (pid);
CREATE TABLE person (id INT, name STRING) FROM 'person.csv';
CREATE STREAM heavy AS SELECT pid FROM o WHERE weight > 10;
CREATE STREAM waiting (pid BIGINT) FROM 'w' CONSTRAINT (pid) REFERENCES nowhere (pid) WITHIN 5 ROWS;
""").catalog

COLUMNS_OF_B = "CREATE STREAM b (pid BIGINT, size INT, ts TIMESTAMP) FROM 'b'"
EVERYTHING = f"""{COLUMNS_OF_B}
  KEY (PID) TIMESTAMP BY ts
  CONSTRAINT b_to_o FOREIGN KEY (pid) REFERENCES O (PID) WITHIN 5 SECONDS
  DELAY 1 SECOND
  CLUSTERED BY (Pid, size) WITHIN 10 ROWS
  ORDERED BY (pid) WITHIN 100 ROWS;
"""


def stream(text: str, catalog: Catalog = CATALOG) -> SourceStream:
    made = bind(text, catalog).catalog.find("b")
    assert isinstance(made, SourceStream)
    return made


def scans(program: Program) -> dict[str, Scan]:
    return {node.stream: node for query in program.queries for node in walk(query.plan) if isinstance(node, Scan)}


# ---- keys and constraints


def test_clauses_stand_in_any_order_and_columns_are_spelt_as_declared():
    made = stream(EVERYTHING)
    assert (made.time_column, made.delay, made.key) == ("ts", 1_000_000, ("pid",))
    assert made.constraints == (
        Reference("b_to_o", ("pid",), "O", ("PID",), Reach(time=5_000_000)),
        Clustered(("pid", "size"), Reach(rows=10)),
        Ordered("pid", Reach(rows=100)),
    )


@pytest.mark.parametrize("words", ["CONSTRAINT", "CONSTRAINT FOREIGN KEY", "FOREIGN KEY", "constraint Foreign  Key"])
def test_a_reference_needs_neither_a_name_nor_all_words(words):
    made = stream(f"{COLUMNS_OF_B} {words} (pid) REFERENCES o (pid) WITHIN 1 ROW")
    assert made.constraints == (Reference(None, ("pid",), "o", ("pid",), Reach(rows=1)),)


@pytest.mark.parametrize(
    ("within", "reach"),
    [
        ("0 ROWS", Reach(rows=0)),
        ("1 row", Reach(rows=1)),
        ("0 SECONDS", Reach(time=0)),
        ("5 ms", Reach(time=5_000)),
        ("2 HOURS", Reach(time=7_200_000_000)),
    ],
)
def test_a_reach_is_in_rows_or_in_time(within, reach):
    made = stream(f"{COLUMNS_OF_B} CLUSTERED BY pid WITHIN {within} ORDERED BY ts WITHIN {within} KEY (pid)")
    assert made.constraints == (Clustered(("pid",), reach), Ordered("ts", reach))


def test_ordered_by_without_a_reach_still_names_the_time():
    assert stream(f"{COLUMNS_OF_B} ORDERED BY ts DELAY 1 SECOND").time_column == "ts"
    both = stream(f"{COLUMNS_OF_B} ORDERED BY ts ORDERED BY ts WITHIN 5 ROWS ORDERED BY ts WITHIN 1 SECOND")
    assert both.time_column == "ts"
    assert both.constraints == (Ordered("ts", Reach(rows=5)), Ordered("ts", Reach(time=1_000_000)))


def test_the_words_of_constraints_are_good_names():
    text = """
    CREATE STREAM key (key INT, constraint INT, "references" INT, clustered INT, set INT, mode INT, rows INT)
      FROM 'x' KEY (key) CONSTRAINT constraint (key) REFERENCES key (constraint) WITHIN 5 ROWS
      CLUSTERED BY rows WITHIN 5 ROWS;
    SELECT key, constraint, references, clustered, set mode FROM key constraints WHERE constraints.key > 1
    """
    (query,) = bind(text).queries
    assert query.plan.schema.names == ("key", "constraint", "references", "clustered", "mode")


def test_a_scan_knows_the_key_and_the_constraints_with_the_names_that_other_streams_have():
    text = f"{EVERYTHING} SELECT b.pid FROM b, heavy WHERE b.pid = heavy.pid"
    found = scans(bind(text, CATALOG))
    assert (found["b"].key, found["o"].key) == (("pid",), ("pid",))
    assert found["b"].constraints[0] == Reference("b_to_o", ("pid",), "o", ("pid",), Reach(time=5_000_000))
    assert len(found["b"].constraints) == 3
    assert found["o"].constraints == ()


def test_a_stream_may_refer_to_itself_and_to_one_that_is_created_later():
    text = f"""
    {COLUMNS_OF_B} CONSTRAINT (pid) REFERENCES b (size) WITHIN 5 ROWS
      CONSTRAINT (pid) REFERENCES LATER (ID) WITHIN 5 ROWS;
    CREATE STREAM Later (Id INT) FROM 'later';
    SELECT pid FROM b;
    """
    assert [c.other for c in scans(bind(text))["b"].constraints] == ["b", "Later"]


def test_a_later_text_may_create_what_a_stream_refers_to_but_not_something_else():
    waiting = bind(f"{COLUMNS_OF_B} CONSTRAINT (pid) REFERENCES later (id) WITHIN 5 ROWS").catalog
    assert "b" in scans(bind("CREATE STREAM later (id INT) FROM 'l'; SELECT pid FROM b", waiting))
    with pytest.raises(QueryError, match="stream 'later' has no column 'id'") as caught:
        bind("CREATE STREAM later (i INT) FROM 'l'", waiting)
    assert caught.value.span.start == len("CREATE STREAM ")
    with pytest.raises(QueryError, match="'b' refers to 'later', which does not exist"):
        bind("SELECT pid FROM b", waiting)


def test_a_stream_can_be_dropped_once_no_other_refers_to_it():
    late = "CREATE STREAM late (pid BIGINT) FROM 'late' CONSTRAINT (pid) REFERENCES b (pid) WITHIN 0 ROWS;"
    alone = f"{COLUMNS_OF_B} KEY (pid) CONSTRAINT (pid) REFERENCES b (pid) WITHIN 0 ROWS;"
    left = bind(f"{late} {alone} DROP STREAM late; DROP STREAM b", CATALOG).catalog
    assert left.streams == CATALOG.streams


@pytest.mark.parametrize("order", ["xyz", "yzx", "zxy"])
def test_of_streams_that_refer_to_each_other_any_can_be_dropped_first(order):
    ring = "".join(
        f"CREATE STREAM {name} (pid BIGINT) FROM '{name}' CONSTRAINT (pid) REFERENCES {other} (pid) WITHIN 0 ROWS;"
        for name, other in ("xy", "yz", "zx")
    )
    first, second, third = order
    left = bind(f"{ring} DROP STREAM {first}", CATALOG).catalog
    with pytest.raises(QueryError, match=f"stream '{third}' is in use: '{second}' refers to it"):
        bind(f"DROP STREAM {third}", left)
    assert bind(f"DROP STREAM {second}; DROP STREAM {third}", left).catalog.streams == CATALOG.streams


# ---- answers


def test_describe_has_a_line_for_the_key_and_for_each_constraint():
    (command,) = bind(f"{EVERYTHING} DESCRIBE b", CATALOG).commands
    assert isinstance(command, Describe)
    assert answer(command) == snapshot("""\
stream b from 'b', timestamp by ts, delay 1 second
  pid   BIGINT
  size  INT
  ts    TIMESTAMP
  key (pid)
  b_to_o: (pid) references O (PID) within 5 seconds
  clustered by pid, size within 10 rows
  ordered by pid within 100 rows\
""")


def test_show_constraints_lists_what_is_declared_and_what_was_found():
    (command,) = bind(f"{EVERYTHING} SHOW CONSTRAINTS").commands
    assert isinstance(command, ShowConstraints)
    found = [
        ConstraintFinding(
            "b", "(pid) references o (pid)", "5 seconds", "yes", "5 seconds", saves="90 % of b",
            declaration=declaration_identity(Reference("b_to_o", ("pid",), "o", ("pid",), Reach(time=5_000_000))),
        ),
        ConstraintFinding("b", "clustered by pid", "3 rows", in_use="no: too few events", history="7, 3 rows"),
    ]  # fmt: skip
    assert answer(command, found) == snapshot("""\
stream  constraint                        within     origin    in_use              used       history    saves
b       key (pid)                                    declared
b       b_to_o: (pid) references O (PID)  5 seconds  declared  yes                 5 seconds             90 % of b
b       clustered by pid, size            10 rows    declared
b       ordered by pid                    100 rows   declared
b       clustered by pid                  3 rows     found     no: too few events             7, 3 rows\
""")
    assert all(len(row) == len(COLUMNS) for row in constraint_rows(command.streams, found))
    assert [answer(c) for c in bind("SHOW CONSTRAINTS").commands] == ["there are no constraints"]  # type: ignore[arg-type]


def test_the_page_on_constraints_shows_what_is_answered():
    page = (ROOT / "docs/constraints.md").read_text()
    catalog = bind(page.split("```sql\n")[1].split("```")[0]).catalog
    (command,) = bind("SHOW CONSTRAINTS", catalog).commands
    assert f"```\n{answer(command)}\n```" in page  # type: ignore[arg-type]


# ---- settings


def test_without_set_declared_constraints_are_used_and_nothing_is_lost():
    assert bind("").settings == ConstraintSettings(ConstraintUse.DECLARED, exact=True)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("SET constraints = off", ConstraintSettings(ConstraintUse.OFF)),
        ("set CONSTRAINTS = 'Declared' mode LEAN", ConstraintSettings(ConstraintUse.DECLARED, exact=False)),
        ("SET constraints = monitored MODE exact", ConstraintSettings(ConstraintUse.MONITORED)),
        (
            "SET constraints = declared MODE lean; SET constraints = monitored",
            ConstraintSettings(ConstraintUse.MONITORED),
        ),
        (
            "SET monitor_factor = 2; SET monitor_sample = .5; SET monitor_events = 7; SET monitor_window = 9",
            ConstraintSettings(monitoring=Monitoring(2.0, 0.5, 7, 9)),
        ),
        ("SET monitor_threshold = 500", ConstraintSettings(monitoring=Monitoring(threshold=500))),
        ("SET monitor_threshold = 500; SET monitor_threshold = none", ConstraintSettings()),
    ],
)
def test_set_says_how_constraints_are_used(text, settings):
    program = bind(f"{text}; SELECT pid FROM o; EXPLAIN SELECT pid FROM o", CATALOG)
    assert program.settings == settings


def test_a_session_remembers_settings_and_a_text_that_is_wrong_changes_none():
    with Session(runtime="embedded") as session:
        session.stream("reading", pa.table({"at": [0, 10], "value": [1.0, 3.0]}), time="at")
        session.sql("SET constraints = monitored MODE lean")
        with pytest.raises(QueryError):
            session.sql("SET constraints = off; SELECT nothing FROM reading")
        running = session.sql("SET monitor_events = 7; SELECT value FROM reading")
        assert running is not None
        assert running.program.settings == ConstraintSettings(
            ConstraintUse.MONITORED, exact=False, monitoring=Monitoring(events=7)
        )


def test_settings_stay_when_a_program_gets_another_catalog():
    program = bind("SET constraints = off; SELECT pid FROM o", CATALOG)
    assert replace(program, queries=()).settings.use is ConstraintUse.OFF
    assert Program(program.catalog, program.queries).settings.use is ConstraintUse.OFF


# ---- wrong statements


@pytest.mark.parametrize(("statement", "message"), cases(TEXTS))
def test_a_wrong_statement_is_answered_with_what_to_write_instead(statement, message):
    assert said_of(statement, CATALOG) == message


def test_every_message_shows_the_place_and_says_what_to_write():
    for statement, message in cases(TEXTS):
        assert "\n   | " in message, statement
        assert "\n   = hint: " in message or ": expected " in message, statement


if __name__ == "__main__":
    write_anew(TEXTS, CATALOG)

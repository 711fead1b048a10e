"""SHOW, DESCRIBE, EXPLAIN and DROP: what they say, and what they do in a session."""

from __future__ import annotations

import pyarrow as pa
import pytest
from inline_snapshot import snapshot
from typer.testing import CliRunner

from tidegate.catalog.catalog import Program
from tidegate.catalog.show import AnswerableCommand, answer
from tidegate.cli.main import app
from tidegate.errors import QueryError
from tidegate.language.bind.program import bind
from tidegate.session import Session

TEXT = """
CREATE STREAM bid (item INT, price DOUBLE, at TIMESTAMP) FROM 'bid.csv' TIMESTAMP BY at DELAY 5 SECONDS
  IDLE AFTER 1 MINUTE;
CREATE STREAM quote (price DOUBLE, f BIGINT, t BIGINT) FROM 'quote.csv' VALID FROM f TO t;
CREATE STREAM note (words STRING) FROM 'notes';
CREATE TABLE person (id INT, name STRING) FROM 'person.csv';
CREATE STREAM high AS SELECT item, price FROM bid WHERE price > 100;
SELECT COUNT(*) AS n FROM high WINDOW(ROWS 5);
"""


def said(commands: str) -> list[str]:
    return answers(bind(TEXT + commands))


def answers(program: Program) -> list[str]:
    return [answer(command) for command in program.commands if isinstance(command, AnswerableCommand)]


def test_show_has_a_line_for_each_thing_and_its_columns():
    assert said("SHOW STREAMS; SHOW TABLES; SHOW QUERIES") == snapshot(
        [
            """\
bid    item INT, price DOUBLE, at TIMESTAMP
quote  price DOUBLE, f BIGINT, t BIGINT
note   words STRING
high   item INT, price DOUBLE\
""",
            "person  id INT, name STRING",
            "query_1  n BIGINT",
        ]
    )
    assert answers(bind("SHOW STREAMS; SHOW TABLES; SHOW QUERIES")) == snapshot(
        ["there are no streams", "there are no tables", "there are no queries"]
    )


def test_describe_has_a_line_for_each_column_after_what_it_is():
    assert said("DESCRIBE bid; DESCRIBE quote; DESCRIBE note; DESC person; DESC high; DESC query_1") == snapshot(
        [
            """\
stream bid from 'bid.csv', timestamp by at, delay 5 seconds, idle after 1 minute
  item   INT
  price  DOUBLE
  at     TIMESTAMP\
""",
            """\
stream quote from 'quote.csv', valid from f to t
  price  DOUBLE
  f      BIGINT
  t      BIGINT\
""",
            """\
stream note from 'notes', by time of arrival
  words  STRING\
""",
            """\
table person from 'person.csv'
  id    INT
  name  STRING\
""",
            """\
stream high, a query over bid
  item   INT
  price  DOUBLE\
""",
            """\
query query_1 over high
  n  BIGINT\
""",
        ]
    )


@pytest.fixture
def session():
    with Session(runtime="embedded") as session:
        session.stream("reading", pa.table({"at": [0, 10], "value": [1.0, 3.0]}), time="at")
        yield session


def test_a_session_answers(session):
    session.sql("CREATE STREAM high AS SELECT value FROM reading WHERE value > 2")
    assert session.ask("SHOW STREAMS") == "reading  at BIGINT, value DOUBLE\nhigh     value DOUBLE"
    assert "logical plan" in session.ask("EXPLAIN SELECT value FROM high")


def test_a_session_forgets_what_is_dropped(session):
    session.sql("CREATE STREAM high AS SELECT value FROM reading WHERE value > 2")
    with pytest.raises(QueryError, match="'high' reads it"):
        session.sql("DROP STREAM reading")
    session.sql("DROP STREAM high; DROP STREAM reading")
    assert session.ask("SHOW STREAMS") == "there are no streams"


def test_what_a_running_query_reads_stays_until_the_query_is_dropped(session):
    running = session.sql("SELECT value FROM reading")
    assert session.ask("SHOW QUERIES") == "query_1  value DOUBLE"
    with pytest.raises(QueryError, match="'query_1' reads it"):
        session.sql("DROP STREAM reading")
    session.sql("DROP QUERY query_1")
    assert running.is_over
    session.sql("DROP STREAM reading")
    assert session.ask("SHOW QUERIES") == "there are no queries"


def test_one_of_several_queries_that_run_together_is_not_dropped_alone(session):
    session.sql("SELECT value FROM reading; SELECT at FROM reading")
    with pytest.raises(QueryError, match="runs together with others"):
        session.sql("DROP QUERY query_2")


def test_queries_of_a_session_have_names_of_their_own(session):
    first, second = session.sql("SELECT value FROM reading"), session.sql("SELECT at FROM reading")
    assert (first.names, second.names) == (("query_1",), ("query_1_2",))


def test_the_command_line_prints_answers_also_where_nothing_runs(tmp_path):
    file = tmp_path / "ask.sql"
    file.write_text("CREATE STREAM s (a INT) FROM 'a.csv'; SHOW STREAMS; DESCRIBE s")
    result = CliRunner().invoke(app, ["run", str(file)])
    assert (result.exit_code, result.stdout) == (
        0,
        "s  a INT\n\nstream s from 'a.csv', by time of arrival\n  a  INT\n",
    )

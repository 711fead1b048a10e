"""Materialized views: what they keep, and how they are asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.live import SteppedSession

from tidegate.errors import QueryError
from tidegate.language.bind.program import bind

STREAMS = """
CREATE STREAM a (t BIGINT, k INT, v DOUBLE) FROM '{folder}/a.csv' TIMESTAMP BY t;
CREATE STREAM b (t BIGINT, k INT, v DOUBLE) FROM '{folder}/b.csv' TIMESTAMP BY t;
CREATE TABLE c (k INT, w INT) FROM '{folder}/c.csv';
"""


class Desk:
    """A session, and the files of its streams."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("a", "b"):
            (folder / f"{name}.csv").write_text("t,k,v\n")
        (folder / "c.csv").write_text("k,w\n0,10\n1,11\n")
        self.open()
        self.session.execute(STREAMS.format(folder=folder))

    def open(self) -> None:
        self.session = SteppedSession(self.folder / "checkpoint", {})

    def write(self, stream: str, *rows: tuple[object, ...]) -> None:
        with (self.folder / f"{stream}.csv").open("a") as file:
            file.writelines(",".join(map(str, row)) + "\n" for row in rows)
        self.session.step()

    def ask(self, text: str) -> tuple[int | None, list[tuple[object, ...]]]:
        (answer,) = self.session.execute(text)
        assert answer.table is not None
        return answer.instant, [tuple(row.values()) for row in answer.table.to_pylist()]


@pytest.fixture(name="desk")
def _desk(tmp_path):
    desk = Desk(tmp_path)
    yield desk
    desk.session.abandon()


def test_a_view_is_at_the_last_instant_before_the_watermark_of_its_query(desk: Desk):
    desk.session.execute("CREATE MATERIALIZED VIEW x AS SELECT k FROM a WINDOW(RANGE 3)")
    assert desk.ask("SELECT * FROM x") == (None, [])
    desk.write("a", (1, 7, 0), (4, 8, 0))
    # The watermark is 4: rows at 4 may still come.
    assert desk.ask("SELECT * FROM x") == (3, [(7,)])
    desk.write("a", (5, 9, 0))
    (answer,) = desk.session.execute("SELECT * FROM x")
    assert answer.message == "1 rows at 1970-01-01T00:00:00.000004Z"


def test_an_open_value_of_an_aggregate_is_in_the_snapshot(desk: Desk):
    desk.session.execute("CREATE MATERIALIZED VIEW x AS SELECT COUNT(*) AS n FROM a WINDOW(RANGE 100)")
    desk.write("a", (1, 0, 0), (2, 0, 0), (9, 0, 0))
    assert desk.ask("SELECT n FROM x") == (8, [(2,)])


def test_the_rows_are_in_the_order_that_is_asked_for(desk: Desk):
    desk.session.execute("CREATE MATERIALIZED VIEW x AS SELECT k, v FROM a WINDOW(RANGE 9)")
    desk.write("a", (1, 1, 2.5), (1, 2, "NaN"), (1, 3, ""), (2, 4, -1.0), (3, 0, 0))
    assert [k for (k,) in desk.ask("SELECT k FROM x ORDER BY v")[1]] == [4, 1, 2, 3]
    assert [k for (k,) in desk.ask("SELECT k FROM x ORDER BY v DESC")[1]] == [2, 1, 4, 3]
    assert [k for (k,) in desk.ask("SELECT k FROM x ORDER BY v DESC NULLS FIRST LIMIT 2")[1]] == [3, 2]
    below = "WITH y AS (SELECT k FROM x WHERE v < 3) SELECT k FROM y ORDER BY k DESC"
    assert [k for (k,) in desk.ask(below)[1]] == [4, 1]


def test_views_are_joined_at_a_common_instant(desk: Desk):
    desk.session.execute("CREATE MATERIALIZED VIEW x WITH (history = '3 us') AS SELECT k FROM a WINDOW(RANGE 2)")
    desk.session.execute("CREATE MATERIALIZED VIEW y AS SELECT k, v FROM b WINDOW(RANGE 9)")
    joined = "SELECT x.k, y.v, c.w FROM x JOIN y ON x.k = y.k JOIN c ON c.k = x.k"
    desk.write("a", (1, 0, 0), (6, 1, 0))
    with pytest.raises(QueryError, match="'y' has read nothing yet") as error:
        desk.ask(joined)
    assert error.value.code == "Q323"
    desk.write("b", (1, 0, 5), (3, 1, 6))
    # x is at 5, y at 2; the row of x ended at 3, which is not long ago.
    assert desk.ask(joined) == (2, [(0, 5.0, 10)])
    desk.write("a", (7, 1, 0))
    with pytest.raises(QueryError, match=r"no instant in common: 'x' keeps what was valid from .*03Z"):
        desk.ask(joined)


def test_a_view_is_there_after_a_restart(desk: Desk):
    desk.session.execute("CREATE MATERIALIZED VIEW x AS SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 9) GROUP BY k")
    desk.write("a", (1, 0, 0), (4, 1, 0), (5, 0, 0))
    before = desk.ask("SELECT * FROM x ORDER BY k")
    assert before == (4, [(0, 1), (1, 1)])
    desk.session.abandon(in_step=True)
    desk.open()
    assert desk.ask("SELECT * FROM x ORDER BY k") == before
    desk.write("a", (7, 0, 0))
    assert desk.ask("SELECT * FROM x ORDER BY k") == (6, [(0, 2), (1, 1)])


def test_a_view_over_a_running_stream_says_from_when_it_is_exact(desk: Desk):
    desk.session.execute("CREATE QUERY q AS SELECT k FROM a")
    desk.write("a", (1, 0, 0), (5, 0, 0))
    *_, answer = desk.session.execute("CREATE MATERIALIZED VIEW x AS SELECT k FROM a WINDOW(RANGE 3)")
    assert answer.exact_from == 10
    desk.write("a", (6, 0, 0))
    with pytest.raises(QueryError, match=r"is exact from 1970-01-01T00:00:00.000010Z on, and 'x' is at .*05Z"):
        desk.ask("SELECT * FROM x")
    desk.write("a", (9, 1, 0), (11, 0, 0))
    assert desk.ask("SELECT * FROM x") == (10, [(1,)])


def test_a_dropped_view_is_gone_with_what_it_kept(desk: Desk):
    desk.session.execute("CREATE MATERIALIZED VIEW x AS SELECT k FROM a WINDOW(RANGE 3)")
    desk.write("a", (1, 0, 0), (2, 0, 0))
    assert any((desk.folder / "checkpoint" / "state").iterdir())
    assert [a.message for a in desk.session.execute("DROP VIEW x")] == ["dropped view x", "dropped query x"]
    assert not any((desk.folder / "checkpoint" / "state").iterdir())
    with pytest.raises(QueryError, match="unknown stream 'x'"):
        desk.ask("SELECT * FROM x")


def test_a_query_reads_a_view_as_a_stream(desk: Desk):
    desk.session.execute("CREATE MATERIALIZED VIEW x AS SELECT k FROM a WINDOW(RANGE 3)")
    desk.session.execute("CREATE QUERY q AS SELECT k + 1 AS k FROM x")
    desk.write("a", (1, 0, 0))
    assert desk.session.results["q"] == [(1, 4, (1,))]
    with pytest.raises(QueryError, match="view 'x' is in use: 'q' reads it"):
        desk.session.execute("DROP VIEW x")


@pytest.mark.parametrize(
    ("text", "is_snapshot"),
    [
        ("SELECT k FROM x", True),
        ("SELECT w FROM c", True),
        ("SELECT k FROM x WHERE EXISTS (SELECT w FROM c)", True),
        ("SELECT k FROM x UNION ALL SELECT k FROM a", False),
        ("SELECT k FROM x EMIT EARLY", False),
        ("SELECT k FROM x WINDOW(RANGE 3)", False),
        ("SELECT k FROM ISTREAM(x)", False),
        ("CREATE QUERY q AS SELECT k FROM x", False),
    ],
)
def test_a_plain_select_over_views_and_tables_is_a_snapshot_query(desk: Desk, text, is_snapshot):
    desk.session.execute("CREATE MATERIALIZED VIEW x AS SELECT k FROM a WINDOW(RANGE 3)")
    desk.session.execute(text)
    assert len(desk.session.queries()) == 2 - is_snapshot


def test_explain_says_that_a_query_is_answered_at_once(desk: Desk):
    desk.session.execute("CREATE MATERIALIZED VIEW x AS SELECT k FROM a WINDOW(RANGE 3)")
    (answer,) = desk.session.execute("EXPLAIN SELECT k FROM x")
    lines = answer.table.column("text").to_pylist()
    assert lines[:2] == ["snapshot query: answered at once, and not registered", "  reads what x keeps at its instant"]
    assert "live graph" not in lines


def test_rows_that_fail_are_counted(desk: Desk):
    desk.session.execute("CREATE MATERIALIZED VIEW x AS SELECT k FROM a WINDOW(RANGE 9)")
    desk.write("a", (1, 0, 0), (1, 2, 0), (2, 1, 0))
    (answer,) = desk.session.execute("SELECT 8 DIV k AS n FROM x")
    assert (answer.table.to_pylist(), answer.message.rpartition("; ")[2]) == ([{"n": 4}], "1 rows failed")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("CREATE MATERIALIZED VIEW x AS SELECT k FROM a EMIT EARLY", "Q126", "EMIT EARLY"),
        ("CREATE MATERIALIZED VIEW x WITH (history = 'soon') AS SELECT k FROM a", "Q126", "history cannot be 'soon'"),
        ("CREATE MATERIALIZED VIEW x WITH (story = '1 s') AS SELECT k FROM a", "Q126", "no option 'story'"),
        ("CREATE MATERIALIZED VIEW a AS SELECT k FROM b", "Q105", "a stream 'a' already exists"),
        ("CREATE MATERIALIZED VIEW x AS SELECT k FROM a; SELECT k FROM x", "Q323", "view 'x' does not run yet"),
        ("DROP VIEW a", "Q101", "is a stream, not a view"),
    ],
)
def test_what_is_refused_changes_nothing(desk: Desk, text, code, message):
    with pytest.raises(QueryError, match=message) as error:
        desk.session.execute(text)
    assert error.value.code == code
    assert desk.session.queries() == ()


def test_a_view_cannot_be_followed_nor_paused(desk: Desk):
    desk.session.execute("CREATE MATERIALIZED VIEW x AS SELECT k FROM a")
    for call, text in ((desk.session.subscribe, "x"), (desk.session.follow, "SELECT k FROM x")):
        with pytest.raises(QueryError) as error:
            call(text)
        assert error.value.code == "Q324"
    with pytest.raises(QueryError, match="'x' is a view"):
        desk.session.execute("PAUSE QUERY x")


def test_a_snapshot_is_a_table_with_its_instant(desk: Desk):
    desk.session.execute("CREATE MATERIALIZED VIEW x AS SELECT k FROM a WINDOW(RANGE 3)")
    desk.write("a", (1, 7, 0), (2, 7, 0))
    table = desk.session.snapshot("SELECT k FROM x")
    assert (table.to_pydict(), table.schema.metadata) == ({"k": [7]}, {b"instant": b"1"})
    with pytest.raises(QueryError, match="not a snapshot query"):
        desk.session.snapshot("CREATE QUERY q AS SELECT k FROM x")


def test_a_view_needs_a_live_session():
    with pytest.raises(QueryError, match="needs a live session") as error:
        bind("CREATE STREAM a (k INT) FROM 'a.csv'; CREATE MATERIALIZED VIEW x AS SELECT k FROM a")
    assert error.value.code == "Q317"

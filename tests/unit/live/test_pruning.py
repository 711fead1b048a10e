"""Texts that define streams are forgotten with their streams."""

from __future__ import annotations

from pathlib import Path

from support.live import Row, SteppedSession

from tidegate.live.program import CatalogChange, ProgramText
from tidegate.live.pruning import unneeded_texts


def text(number: int, words: str, created: str = "", dropped: str = "", *, others: bool = False) -> ProgramText:
    change = CatalogChange(tuple(created.split()), tuple(dropped.split()), others)
    return ProgramText(number, words, (), change)


def test_a_text_is_needed_as_long_as_another_one_mentions_its_streams():
    made, gone = text(0, "CREATE STREAM x", "x"), text(9, "DROP STREAM x", dropped="x")
    assert unneeded_texts([made], ()) == set()
    assert unneeded_texts([made, gone], ()) == {0, 9}
    # Queries that are needed, and others.
    assert unneeded_texts([made, text(5, "CREATE QUERY q AS SELECT k FROM X"), gone], {5}) == set()
    assert unneeded_texts([made, text(5, "CREATE QUERY q AS SELECT k FROM X"), gone], ()) == {0, 5, 9}
    assert unneeded_texts([made, text(5, "SELECT k FROM y"), gone], {5}) == {0, 9}
    assert unneeded_texts([made, gone], {0}) == set()
    # A stream that is needed keeps its text, and with it the text that drops another stream of it.
    both = text(0, "CREATE STREAM x; CREATE STREAM y", "x y")
    assert unneeded_texts([both, gone], ()) == set()
    assert unneeded_texts([both, gone, text(11, "DROP STREAM y", dropped="y")], ()) == {0, 9, 11}
    # Another stream of the same name.
    again = text(12, "CREATE STREAM x", "x")
    assert unneeded_texts([made, gone, again], ()) == {0, 9}
    assert unneeded_texts([made, text(9, "DROP STREAM x; CREATE STREAM x", "x", "x")], ()) == set()
    # What else a text has set, and texts of which that is not known.
    assert unneeded_texts([text(1, "SET a = 1", others=True)], ()) == set()
    assert unneeded_texts([ProgramText(1, "CREATE STREAM x", ())], ()) == set()


def test_streams_that_come_and_go_leave_nothing_behind(tmp_path: Path):
    results: dict[str, list[Row]] = {}
    (tmp_path / "a.csv").write_text("t,k\n1,1\n")
    session = SteppedSession(tmp_path / "checkpoint", results)
    create = "CREATE STREAM {} (t BIGINT, k INT) FROM '" + str(tmp_path / "a.csv") + "' TIMESTAMP BY t"
    session.execute(create.format("kept"))
    session.execute("CREATE QUERY q AS SELECT k FROM kept")
    known = session._live.version.texts
    for number in range(4):
        session.execute(create.format("x"))
        session.execute("CREATE QUERY of_x AS SELECT k, COUNT(*) AS n FROM x WINDOW(RANGE 9) GROUP BY k")
        session.step()
        assert len(session._live.version.texts) == len(known) + 2
        session.execute("DROP QUERY of_x")
        session.execute("DROP STREAM x")
        assert session._live.version.texts == known
        if number % 2:
            session.abandon()
            session = SteppedSession(tmp_path / "checkpoint", results)
            assert [query.name for query in session.queries()] == ["q"]
    session.abandon()

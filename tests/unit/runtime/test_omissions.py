"""Omitted readings are counted by stream, in metadata, EXPLAIN ANALYZE and SHOW METADATA."""

from __future__ import annotations

import pyarrow as pa

from tidegate import Session
from tidegate.runtime.figures import Metadata

ALERT = "CREATE ALERT far FROM a x, b WITHIN 10 MICROSECONDS MATCHING k WHEN x.v + b.v > 100"
ONE = "CREATE ALERT hot FROM a WITHIN 10 MICROSECONDS MATCHING k WHEN exp(v) > 3"


def session_with_readings() -> Session:
    session = Session(runtime="embedded")
    # The value 1 lies between two greater ones within the window, so it cannot matter; b is a single reading.
    session.stream("a", pa.table({"k": [1, 1, 1, 2], "v": [5.0, 1.0, 5.0, 1.0], "at": [0, 1, 2, 3]}), time="at")
    session.stream("b", pa.table({"k": [1], "v": [7.0], "at": [2]}), time="at")
    return session


def metadata_of(session: Session, text: str) -> Metadata:
    running = session.sql(text, once=True)
    assert running is not None
    assert running.wait()
    return running.metadata()


def test_each_stream_of_an_alert_has_a_row():
    with session_with_readings() as session:
        found = metadata_of(session, ALERT)
    assert found.omissions.to_pylist() == [
        {"query": "far", "stream": "a", "alias": "x", "rows": 4, "omitted": 1, "share": 0.25},
        {"query": "far", "stream": "b", "alias": "b", "rows": 1, "omitted": 0, "share": 0.0},
    ]
    assert sum(found.operators["omitted"].to_pylist()) == 1


def test_an_alert_that_several_queries_use_is_counted_once():
    other = "CREATE ALERT near FROM a x, b WITHIN 20 MICROSECONDS MATCHING k WHEN x.v - b.v > 100"
    with session_with_readings() as session:
        found = metadata_of(session, f"{ALERT}; {other}").omissions.to_pylist()
    assert [(row["query"], row["stream"], row["omitted"]) for row in found] == [(None, "a", 1), (None, "b", 0)]


def test_a_stream_without_a_demand_has_no_row():
    with session_with_readings() as session:
        assert metadata_of(session, f"{ALERT} EMIT ALL").omissions.num_rows == 0


def test_a_query_that_an_alert_reads_is_counted_under_its_streams():
    joined = "SELECT p.k, p.v + q.v AS v FROM a WINDOW(NOW) p, b WINDOW(RANGE 9) q WHERE p.k = q.k"
    text = ALERT.replace("a x", f"({joined}) x")
    with session_with_readings() as session:
        found = metadata_of(session, text).omissions.to_pylist()
    assert {(row["stream"], row["alias"]) for row in found} == {("a, b", "x"), ("b", "b")}


def test_an_alert_on_one_stream_is_counted_like_others():
    with session_with_readings() as session:
        (row,) = metadata_of(session, ONE).omissions.to_pylist()
        assert (row["stream"], row["rows"], row["omitted"]) == ("a", 4, 1)
        shown = session.explain(ONE.replace("hot", "warm"), analyze=True)
    assert "  a: 1 of 4 omitted (25.0 %)\n" in shown


def test_show_metadata_and_explain_say_the_same():
    with session_with_readings() as session:
        running = session.sql(ALERT)
        assert running is not None
        while running.progress().rows_in < 5 or not running.progress().recent_steps:
            assert not running.wait(0.01)
        *_, heading, first, second = session.ask("SHOW METADATA").splitlines()
        assert heading.split() == ["query", "stream", "alias", "rows", "omitted", "share"]
        assert (first.split(), second.split()) == (
            ["far", "a", "x", "4", "1", "0.25"],
            ["far", "b", "b", "1", "0", "0"],
        )
        shown = session.ask("EXPLAIN ANALYZE QUERY far").splitlines()
    assert shown[-2:] == ["  a x: 1 of 4 omitted (25.0 %)", "  b: 0 of 1 omitted (0.0 %)"]

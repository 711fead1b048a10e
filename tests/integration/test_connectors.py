"""Connectors that users register, on both runtimes, in sessions that start again, and in live sessions."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from tidegate import DataError, QueryError, Session
from tidegate.live.session import LiveSession

NUMBERS = "CREATE STREAM number (n INT, at BIGINT) SOURCE numbers('{}') TIMESTAMP BY at;"


def make_growing(path):
    """Return a reader of as many rows as a file says; a class of its own, which Spark sends by value."""

    class Growing:
        def count_rows(self) -> int:
            return int(path.read_text())

        def read_rows(self, begin: int, end: int) -> pa.Table:
            return pa.table({"n": list(range(begin, end)), "at": list(range(begin, end))})

    return Growing()


@pytest.fixture(params=["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def settings(request):
    return {"runtime": "embedded"} if request.param == "embedded" else {"spark": request.getfixturevalue("spark")}


def numbers_of(table: pa.Table) -> list[int]:
    return sorted(table["n"].to_pylist())


def test_a_registered_function_is_a_source(settings, tmp_path):
    (tmp_path / "count").write_text("5")
    with Session(**settings, buckets=2) as session:
        session.connector("numbers", lambda name: make_growing(tmp_path / name))
        session.connector("names", lambda: [pa.table({"id": [1, 3], "name": ["one", "three"]})])
        session.sql(NUMBERS.format("count") + "CREATE TABLE name (id INT, name STRING) SOURCE names()")
        found = session.sql("SELECT n, name FROM number JOIN name ON id = n", once=True).results()
    assert sorted(zip(found["n"].to_pylist(), found["name"].to_pylist(), strict=True)) == [(1, "one"), (3, "three")]


def test_rows_are_read_once_although_the_query_starts_again(settings, tmp_path):
    (tmp_path / "count").write_text("3")
    read = []
    for count in ("3", "7"):
        (tmp_path / "count").write_text(count)
        with Session(**settings, buckets=2) as session:
            session.connector("numbers", lambda name: make_growing(tmp_path / name))
            text = NUMBERS.format("count") + "SELECT n FROM number"
            query = session.sql(text, checkpoint=str(tmp_path / "checkpoint"), once=True)
            query.wait()
            read.append(numbers_of(query.results()))
    assert read == [[0, 1, 2], [3, 4, 5, 6]]


def test_a_live_session_reads_rows_as_they_come(tmp_path):
    (tmp_path / "count").write_text("2")
    connectors = {"numbers": lambda name: make_growing(tmp_path / name)}
    with LiveSession(checkpoint=str(tmp_path / "live"), connectors=connectors) as live:
        live.execute(NUMBERS.format("count") + "CREATE QUERY q AS SELECT n FROM number")
        feed = live.subscribe("q")
        (tmp_path / "count").write_text("4")
        found: list[int] = []
        end = time.monotonic() + 60
        while 3 not in found and time.monotonic() < end:
            rows = feed.next(timeout=0.2)
            found += rows["n"].to_pylist() if rows is not None else []
    assert 3 in found
    with pytest.raises(DataError, match="no connector reads"), LiveSession(checkpoint=str(tmp_path / "live")):
        pass


def test_arguments_of_connectors_are_places_for_allowed_paths(tmp_path):
    connectors = {"numbers": lambda name: make_growing(tmp_path / name)}
    with LiveSession(checkpoint=str(tmp_path / "live"), connectors=connectors, allowed_paths=["data"]) as live:
        for place in (NUMBERS.format("count"), "CREATE STREAM s (a INT) SOURCE csv('/etc/passwd')"):
            with pytest.raises(QueryError):
                live.execute(place)

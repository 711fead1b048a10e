"""How far a query is, and how it ended, can be seen; what it found is never shown as if all were well."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa
import pytest

import tidegate
from tidegate import DataError, QueryError, RunningQuery, Session

PATIENCE = 300
READINGS = pa.table({"at": [0, 3, 4, 12], "celsius": [20.5, 19.0, 23.0, 25.5]})
ALL = "SELECT celsius FROM reading"
TOP = "SELECT MAX(celsius) AS top FROM reading WINDOW(RANGE 10)"
ENDLESS = "CREATE STREAM made (k INT, at BIGINT) FROM 'generator://?rows=100000000000' TIMESTAMP BY at;"


@pytest.fixture
def embedded():
    with Session(runtime="embedded") as session:
        yield session


@pytest.fixture(params=["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def session(request):
    """A session of each runtime."""
    settings = {"runtime": "embedded"} if request.param == "embedded" else {"spark": request.getfixturevalue("spark")}
    with Session(**settings, buckets=1) as opened:
        opened.stream("reading", READINGS, time="at")
        yield opened


def until_over(query: RunningQuery) -> None:
    """Look at the query until it is over; nobody waits for it."""
    end = time.monotonic() + PATIENCE
    while not query.is_over:
        assert time.monotonic() < end, "it does not end"
        time.sleep(0.02)


def reads(query: RunningQuery) -> list[Callable[..., object]]:
    return [query.results, query.to_pandas, query.dead_letters, query.shedding]


def test_a_query_whose_reader_fails_is_seen_to_have_failed(session):
    def refuse(name: str, rows: pa.RecordBatch) -> None:
        raise ValueError("the reader is full")

    query = session.sql(ALL, on_rows=refuse)
    until_over(query)
    assert query.state == "failed"
    assert repr(query.error) == "ValueError('the reader is full')"
    for read in [*reads(query), query.wait, query.finish]:
        with pytest.raises(ValueError, match="the reader is full"):
            read()
    assert [read(partial=True) is not None for read in reads(query)] == [True] * 4
    assert session.ask("SHOW QUERIES") == "there are no queries"
    assert "query_1: failed (the reader is full), " in repr(query)


def test_a_query_whose_source_breaks_keeps_what_it_found_for_those_who_ask(embedded, tmp_path):
    file = tmp_path / "reading.csv"
    file.write_text("celsius,at\n20.5,0\n")
    embedded.sql(f"CREATE STREAM reading (celsius DOUBLE, at BIGINT) FROM '{file}' TIMESTAMP BY at ON BAD FILE STOP")
    query = embedded.sql(ALL)
    while not query.results().num_rows:
        assert not query.wait(0.02)
    assert (query.state, query.error, query.is_over) == ("running", None, False)
    file.write_text("")
    until_over(query)
    assert query.state == "failed"
    assert isinstance(query.error, DataError)
    assert query.error.code == "D104"
    with pytest.raises(DataError):
        query.to_pandas()
    assert query.to_pandas(partial=True)["celsius"].tolist() == [20.5]


def test_reading_the_results_of_a_query_with_once_waits_for_its_end(session):
    query = session.sql(TOP, once=True)
    assert query.to_pandas()["top"].tolist() == [20.5, 23.0, 25.5]
    assert query.state == "finished"
    for read in ("dead_letters", "shedding"):
        another = session.sql(TOP, once=True)
        assert getattr(another, read)().num_rows == 0
        assert another.state == "finished"


def test_a_query_with_once_comes_to_its_end_though_nobody_waits(session):
    found: list[pa.RecordBatch] = []
    query = session.sql(TOP, once=True, on_rows=lambda _, rows: found.append(rows))
    until_over(query)
    assert (query.state, query.error) == ("finished", None)
    assert sum(rows.num_rows for rows in found) == 3


def test_a_query_that_was_stopped_says_so_and_one_with_once_does_not_pass_for_complete(session):
    live = session.sql(ALL)
    live.stop()
    assert (live.state, live.is_over) == ("stopped", True)
    live.results()
    cut = session.sql(ENDLESS + "SELECT k FROM made", once=True)
    cut.stop()
    assert cut.state == "stopped"
    for read in reads(cut):
        with pytest.raises(QueryError) as raised:
            read()
        assert raised.value.code == "Q313"
        assert read(partial=True) is not None


def test_a_finished_query_stays_finished_when_it_is_stopped(session):
    query = session.sql(TOP)
    query.finish()
    query.stop()
    assert query.state == "finished"
    assert query.results().num_rows == 3


def test_a_closed_session_refuses_every_use(embedded):
    embedded.stream("reading", READINGS, time="at")
    query = embedded.sql(TOP, once=True)
    query.wait()
    program = query.program
    embedded.close()
    embedded.close()
    uses: list[Callable[[], object]] = [
        lambda: embedded.sql(TOP),
        lambda: embedded.ask("SHOW STREAMS"),
        lambda: embedded.explain(TOP),
        lambda: embedded.run(program),
        lambda: embedded.stream("more", READINGS, time="at"),
        lambda: embedded.function("twice", lambda x: 2 * x, arguments=["INT"], result="INT"),
        lambda: embedded.aggregate("product", arguments=["INT"], type="INT"),
        lambda: embedded.spark,
        embedded.__enter__,
    ]
    for use in uses:
        with pytest.raises(QueryError) as raised:
            use()
        assert raised.value.render() == (
            "error[Q312]: the session is closed\n   = hint: open another one: tidegate.Session()"
        )
    assert query.results().num_rows == 3
    assert repr(embedded) == "<Session on embedded: closed>"


def test_settings_that_do_not_exist_are_refused_with_the_choices():
    with pytest.raises(QueryError) as raised:
        Session(runtime="flink")  # type: ignore[arg-type]
    assert raised.value.render() == "error[Q311]: there is no runtime 'flink'\n   = hint: available: spark, embedded"
    with pytest.raises(QueryError, match="cannot have 0 buckets"):
        Session(runtime="embedded", buckets=0)


def test_sessions_and_queries_say_what_they_are(embedded):
    embedded.stream("reading", READINGS, time="at")
    assert repr(embedded) == "<Session on embedded: open>"
    query = embedded.sql(TOP, once=True)
    query.wait()
    told = "finished, 4 rows in, 3 rows out, watermark 1970-01-01T00:00:00.000012Z"
    assert repr(query) == f"<RunningQuery query_1: {told}>"
    assert repr(embedded) == f"<Session on embedded: open, query_1 {told}>"


def test_the_package_lists_what_it_offers():
    assert set(tidegate.__all__) < set(dir(tidegate))
    assert [name for name in dir(tidegate) if not name.startswith("__")] == sorted(tidegate.__all__)
    assert tidegate.QueryState("failed") is tidegate.QueryState.FAILED


def test_a_session_of_spark_connect_is_refused():
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(QueryError, match="Spark Connect, which has no RDDs") as raised:
        Session(spark=remote)
    assert raised.value.code == "Q311"

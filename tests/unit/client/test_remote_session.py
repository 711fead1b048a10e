"""`tidegate.connect`: a session with a service, over real HTTP."""

from __future__ import annotations

import socket
import threading

import pyarrow as pa
import pytest
from support.served import served

import tidegate
from tidegate.errors import DataError, InternalError, QueryError
from tidegate.live.feeds import ResultFeed
from tidegate.service.access import Access


@pytest.fixture(name="service")
def _service(tmp_path):
    with served(tmp_path) as service:
        yield service


@pytest.fixture(name="session")
def _session(service):
    with tidegate.connect(service.server.url) as session:
        yield session


def test_a_query_is_registered_followed_and_dropped(service, session):
    session.sql(service.define_readings())
    service.write(1, (1, 5.0), (2, 7.0))
    query = session.follow("SELECT value FROM reading")
    batches = iter(query)
    assert next(batches).column("value").to_pylist() == [5.0, 7.0]
    service.write(2, (3, 9.0))
    rows = next(batches)
    assert rows.column("value").to_pylist() == [9.0]
    assert rows.schema.names == ["valid_from", "valid_to", "value"]
    assert (query.name, query.state, [each.name for each in session.queries()]) == ("query_1", "running", ["query_1"])
    query.stop()
    assert list(batches) == []
    assert session.queries() == ()


def test_two_sessions_follow_one_query(service, session):
    session.sql(service.define_readings())
    query = session.sql("SELECT value FROM reading")
    with tidegate.connect(service.server.url) as other:
        second = other.query("query_1")
        assert query.results().num_rows == second.results().num_rows == 0
        service.write(1, (1, 5.0))
        for each in (query, second):
            assert each.results(60).column("value").to_pylist() == [5.0]


def test_sizes_of_windows_are_followed_as_in_a_local_session(service, session):
    window = "WINDOW(RANGE MIN 1 SECOND, MAX 20 SECONDS)"
    join = f"SELECT x.value AS v, y.value AS w FROM reading x {window}, reading y {window} WHERE x.value = y.value"
    session.sql(f"SET memory_limit = '5 kB'; {service.define_readings()} CREATE QUERY pairs AS {join}")
    remote, local = session.subscribe("quality"), service.live.subscribe("quality")
    for second in range(8):
        before = service.live.progress().rows_in
        service.write(second, *((second * 1_000_000 + n * 10_000, float(n)) for n in range(100)))
        while service.live.progress().rows_in < before + 100:
            threading.Event().wait(0.001)
    rows, expected = list[dict[str, object]](), list[dict[str, object]]()
    while not any("state of" in str(row["reason"]) for row in expected):
        expected += local.next(60).to_pylist()
    while len(rows) < len(expected):
        rows += remote.next(60).to_pylist()
    assert rows == expected
    assert rows[0]["query"] == "pairs"
    assert (rows[0]["size"], rows[-1]["size"] == 20_000_000) == (20_000_000, False)
    session.close()


def test_bad_rows_are_followed_as_in_a_local_session(service, session):
    session.sql(service.define_readings() + "SELECT value FROM reading")
    feed = session.subscribe("dead_letters")
    (service.folder / "reading-001.csv").write_text("at,value\n1,five\n")
    assert feed.next(60).column("row").to_pylist() == ["1,five"]


def test_text_that_registers_nothing_returns_none(service, session):
    assert session.sql(service.define_readings()) is None


def test_questions_are_answered_as_text(service, session):
    session.sql(service.define_readings())
    assert session.ask("SHOW STREAMS") == "reading  at BIGINT, value DOUBLE"
    assert "reading" in session.explain("SELECT value FROM reading")
    assert session.status()["state"] == "running"


def test_an_error_has_its_place_as_in_a_local_session(service, session):
    session.sql(service.define_readings())
    with pytest.raises(QueryError) as caught:
        session.sql("SELECT valeu\nFROM reading")
    with tidegate.Session(runtime="embedded") as local:
        local.sql(service.define_readings())
        with pytest.raises(QueryError) as expected:
            local.sql("SELECT valeu\nFROM reading")
    assert caught.value.render() == expected.value.render()
    with pytest.raises(QueryError, match="there is no query"):
        session.query("no such query?")


def test_warnings_reach_the_caller(service, session):
    session.sql(service.define_readings())
    with pytest.warns(tidegate.TidegateWarning) as caught:
        session.sql("SELECT COUNT(*) AS n FROM reading")
    assert __file__ in {each.filename for each in caught}


def test_the_token_is_sent(tmp_path):
    with served(tmp_path, Access(token="abc")) as service:
        with pytest.raises(QueryError) as caught:
            tidegate.connect(service.server.url)
        assert caught.value.code == "Q503"
        assert tidegate.connect(service.server.url, token="abc").queries() == ()


@pytest.mark.parametrize("url", ["ftp://localhost", "http://", "http://localhost:port", "http://a:b@localhost", ""])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(QueryError) as caught:
        tidegate.connect(url)
    assert caught.value.code == "Q511"


def test_a_token_cannot_add_a_header():
    with pytest.raises(QueryError) as caught:
        tidegate.connect("http://localhost:1", token="a\r\nX: y")
    assert caught.value.code == "Q512"


def test_a_service_that_is_not_there_is_an_error_with_a_code():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(DataError) as caught:
        tidegate.connect(f"127.0.0.1:{port}")
    assert caught.value.code == "D502"


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"HTTP/1.1 404 No\r\n\r\n{}", b"{}"]
)
def test_what_is_no_service_is_told(answer):
    def reply(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(10_000)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=reply, args=(listener,))
        thread.start()
        with pytest.raises(DataError) as caught:
            tidegate.connect(f"127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert caught.value.code in {"D502", "D503"}


def test_the_error_of_the_run_reaches_the_reader_after_the_last_rows(service, session):
    schema = pa.schema({"valid_from": pa.int64(), "valid_to": pa.int64()})
    session.sql(service.define_readings() + "SELECT value FROM reading")
    feed = ResultFeed(schema, most_rows=2)
    service.live.subscribe = lambda _: feed
    feed.add(pa.RecordBatch.from_pydict({"valid_from": [1, 2, 3], "valid_to": [2, 3, 4]}, schema=schema))
    batches = iter(session.query("query_1"))
    feed.end(InternalError("I301", "out of memory"))
    assert next(batches).num_rows == 2
    with pytest.raises(InternalError, match="out of memory"):
        next(batches)


def test_dropped_rows_are_counted(service, session):
    schema = pa.schema({"valid_from": pa.int64(), "valid_to": pa.int64()})
    session.sql(service.define_readings() + "SELECT value FROM reading")
    feed = ResultFeed(schema, most_rows=1)
    service.live.subscribe = lambda _: feed
    feed.add(pa.RecordBatch.from_pydict({"valid_from": [1, 2, 3], "valid_to": [2, 3, 4]}, schema=schema))
    feed.end()
    query = session.query("query_1")
    assert sum(rows.num_rows for rows in query) == 1
    assert query.feed.dropped == 2


def test_a_view_is_read_at_once(service, session):
    session.sql(service.define_readings())
    session.sql("CREATE MATERIALIZED VIEW top AS SELECT MAX(value) AS top FROM reading WINDOW(RANGE 1 HOUR)")
    service.write(1, (1, 5.0), (2, 7.0), (3, 1.0))
    while (table := session.snapshot("SELECT top FROM top")).num_rows == 0:
        pass
    assert (table.to_pydict(), table.schema.metadata) == ({"top": [7.0]}, {b"instant": b"2"})
    (answer,) = service.sql("SELECT top FROM top").json["answers"]
    assert (answer["instant"], answer["table"]["rows"]) == (2, [{"top": 7.0}])
    session.query("top").stop()
    assert session.queries() == ()

"""Live results: every format, several subscribers, slow ones, and every way to end."""

from __future__ import annotations

import json
import threading

import pyarrow as pa
import pytest
from support.served import Served, served

from tidegate.errors import DataError, QueryError
from tidegate.live.feeds import ResultFeed
from tidegate.live.session import LiveSession
from tidegate.runtime.job import QueryState
from tidegate.service import follow

SCHEMA = pa.schema({"valid_from": pa.int64(), "valid_to": pa.int64(), "text": pa.string()})
HARD_TEXT = 'a\n"\r\u2028 data: x\n\nevent: end'


def batch(*texts: str) -> pa.RecordBatch:
    count = range(len(texts))
    return pa.RecordBatch.from_arrays(
        [pa.array(count, pa.int64()), pa.array([n + 1 for n in count], pa.int64()), pa.array(texts, pa.string())],
        schema=SCHEMA,
    )


class OneFeed:
    """A session with one query, whose rows the test publishes."""

    def __init__(self, live, most_rows: int = 100) -> None:
        self.feed = ResultFeed(SCHEMA, most_rows=most_rows)
        live.subscribe = lambda _: self.feed


@pytest.fixture(name="service")
def _service(tmp_path):
    with served(tmp_path) as service:
        service.sql(service.define_readings() + "SELECT value FROM reading")
        yield service


def wait_for(condition) -> None:
    pause = threading.Event()
    for _ in range(60_000):
        if condition():
            return
        pause.wait(0.001)
    raise TimeoutError


def test_lines_of_json(service: Served):
    one = OneFeed(service.live)
    _, response = service.follow("query_1")
    one.feed.add(batch(HARD_TEXT))
    assert json.loads(response.readline()) == {"valid_from": 0, "valid_to": 1, "text": HARD_TEXT}
    one.feed.add(batch("b", "c"))
    one.feed.end()
    assert [json.loads(line)["text"] for line in response.read().splitlines()] == ["b", "c"]


def test_server_sent_events(service: Served):
    one = OneFeed(service.live)
    _, response = service.follow("query_1", "text/event-stream")
    assert response.headers["content-type"].startswith("text/event-stream")
    one.feed.add(batch(HARD_TEXT))
    one.feed.end()
    events = response.read().decode().split("\n\n")
    row, end = (dict(line.split(": ", 1) for line in event.split("\n")) for event in events[1:3])
    assert (row["event"], json.loads(row["data"])["text"]) == ("row", HARD_TEXT)
    assert (end["event"], events[3:]) == ("end", [""])


def test_an_arrow_stream_begins_with_its_schema_before_any_row(service: Served):
    one = OneFeed(service.live)
    _, response = service.follow("query_1", "application/vnd.apache.arrow.stream")
    reader = pa.ipc.open_stream(response)
    assert reader.schema == SCHEMA
    one.feed.add(batch("a", HARD_TEXT))
    one.feed.end()
    assert reader.read_all().column("text").to_pylist() == ["a", HARD_TEXT]


@pytest.mark.parametrize("rows_at_once", [1, 2, 10_000])
def test_large_batches_are_sent_in_parts(service: Served, rows_at_once, monkeypatch):
    monkeypatch.setattr(follow, "ROWS_AT_ONCE", rows_at_once)
    one = OneFeed(service.live)
    one.feed.add(batch("a", "b", "c"))
    one.feed.end()
    _, response = service.follow("query_1")
    assert [json.loads(line)["text"] for line in response.read().splitlines()] == ["a", "b", "c"]


def test_rows_that_a_slow_subscriber_lost_are_told_in_every_format(service: Served):
    told = []
    for accept in ("application/x-ndjson", "text/event-stream"):
        one = OneFeed(service.live, most_rows=2)
        one.feed.add(batch("a", "b", "c", "d", "e"))
        one.feed.end()
        _, response = service.follow("query_1", accept)
        told.append(response.read().decode())
    assert told[0].splitlines()[0] == '{"dropped": 3}'
    assert 'event: dropped\ndata: {"dropped": 3}\n' in told[1]
    assert [text.count('"text"') for text in told] == [2, 2]
    wait_for(lambda: "tidegate_subscriber_lost_rows_total 6" in service.ask("GET", "/metrics").body.decode())


def test_a_subscriber_that_does_not_read_delays_nobody(service: Served):
    one = OneFeed(service.live, most_rows=10)
    connection, _ = service.follow("query_1")
    large = "x" * 1_000_000
    for _ in range(60):
        one.feed.add(batch(large))
    assert one.feed.dropped > 0
    assert service.ask("GET", "/health").status == 200
    connection.close()
    one.feed.add(batch(large))
    wait_for(lambda: one.feed.closed)


def test_a_client_that_leaves_is_unsubscribed(service: Served):
    one = OneFeed(service.live)
    connection, response = service.follow("query_1")
    assert service.ask("GET", "/v1/status").json["subscribers"] == 1
    response.close()
    connection.close()
    wait_for(lambda: one.feed.closed)
    wait_for(lambda: service.ask("GET", "/v1/status").json["subscribers"] == 0)


def test_the_error_of_the_run_is_told_at_the_end(service: Served):
    told = []
    for accept in ("application/x-ndjson", "text/event-stream"):
        one = OneFeed(service.live)
        _, response = service.follow("query_1", accept)
        one.feed.end(DataError("D106", "the disk is full", hint="make room"))
        told.append(response.read().decode())
    error = {"code": "D106", "message": "the disk is full", "hint": "make room"}
    assert json.loads(told[0]) == {"error": error}
    assert f"event: error\ndata: {json.dumps(error)}\n" in told[1]


def test_silence_is_broken_so_that_a_lost_connection_is_noticed(service: Served, monkeypatch):
    monkeypatch.setattr(follow, "ALIVE_SECONDS", 0.01)
    one = OneFeed(service.live)
    _, response = service.follow("query_1")
    assert [response.readline(), response.readline()] == [b"\n", b"\n"]
    one.feed.end()


def test_the_end_of_the_service_ends_all_subscriptions(tmp_path):
    with served(tmp_path) as service:
        service.sql(service.define_readings() + "SELECT value FROM reading")
        _, response = service.follow("query_1")
    assert response.read() == b""


def test_a_run_that_failed_refuses_statements_and_says_so(service: Served, monkeypatch):
    monkeypatch.setattr(LiveSession, "state", QueryState.FAILED)
    monkeypatch.setattr(LiveSession, "error", DataError("D106", "the disk is full"))
    for reply in (service.sql("SHOW STREAMS"), service.ask("GET", "/v1/queries/query_1/results")):
        assert (reply.status, reply.code) == (503, "D106")
    health = service.ask("GET", "/health")
    assert (health.status, health.json["state"], health.json["error"]["code"]) == (503, "failed", "D106")
    assert service.ask("GET", "/v1/status").json["error"]["message"] == "the disk is full"
    assert "tidegate_up 0" in service.ask("GET", "/metrics").body.decode()
    monkeypatch.setattr(LiveSession, "error", ValueError("secret detail"))
    reply = service.sql("SHOW STREAMS")
    assert (reply.status, reply.code) == (503, "I502")
    assert b"secret" not in reply.body


@pytest.mark.parametrize("code", ["Q312", "Q320"])
def test_a_run_that_ends_while_a_statement_waits_is_no_mistake_of_the_client(service: Served, code, monkeypatch):
    def fail(_: str) -> None:
        raise QueryError(code, "the run has ended")

    monkeypatch.setattr(service.live, "execute", fail)
    assert service.sql("SHOW STREAMS").status == 503


def test_an_error_of_the_service_itself_is_told_without_its_details(service: Served, monkeypatch):
    def fail(_: str) -> None:
        raise ValueError("secret detail")

    monkeypatch.setattr(service.live, "execute", fail)
    reply = service.sql("SHOW STREAMS")
    assert (reply.status, reply.code) == (500, "I503")
    assert b"secret" not in reply.body

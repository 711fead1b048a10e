"""Requests over real HTTP: statements, queries, status, and what is wrong with a request."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pytest
from support.served import Served, served

from tidegate.service.openapi import OPERATIONS

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}


@pytest.fixture(name="service")
def _service(tmp_path):
    with served(tmp_path) as service:
        yield service


def test_statements_are_answered_in_json(service: Served):
    made = service.sql(service.define_readings())
    assert made.status == 200
    assert made.headers["content-type"] == "application/json"
    shown = service.sql("SHOW STREAMS").json["answers"][-1]["table"]
    assert [column["name"] for column in shown["columns"]] == list(shown["rows"][0])
    assert any("reading" in str(text) for text in shown["rows"][0].values())


def test_statements_may_be_json_too(service: Served):
    body = json.dumps({"sql": service.define_readings()})
    assert service.ask("POST", "/v1/sql", body, {"Content-Type": "application/json"}).status == 200


def test_a_table_may_be_an_arrow_stream(service: Served):
    service.sql(service.define_readings())
    reply = service.sql("SHOW STREAMS", **ARROW)
    assert reply.headers["content-type"] == ARROW["Accept"]
    assert "reading" in str(pa.ipc.open_stream(reply.body).read_all().to_pylist())
    messages = service.sql("SELECT value FROM reading", **ARROW)
    assert pa.ipc.open_stream(messages.body).read_all().column("query").to_pylist() == ["query_1"]


def test_queries_are_listed_shown_and_dropped(service: Served):
    service.sql(service.define_readings() + "SELECT value FROM reading")
    (listed,) = service.ask("GET", "/v1/queries").json["queries"]
    assert (listed["name"], listed["state"]) == ("query_1", "running")
    assert service.ask("GET", "/v1/queries/QUERY_1").json == listed
    assert service.ask("DELETE", "/v1/queries/query_1").status == 200
    assert service.ask("GET", "/v1/queries").json == {"queries": []}
    for method in ("GET", "DELETE"):
        gone = service.ask(method, "/v1/queries/query_1")
        assert (gone.status, gone.code) == (404, "Q502")


def test_an_alert_is_dropped_as_a_query_is(service: Served):
    service.sql(service.define_readings())
    alert = "/* many */ CREATE ALERT much FROM reading WHEN TOTAL(at) >= 10"
    assert service.sql(alert).json["answers"][-1]["query"] == "much"
    assert service.ask("DELETE", "/v1/queries/much").status == 200
    assert service.ask("GET", "/v1/queries").json == {"queries": []}


def test_a_wrong_query_is_told_with_its_place(service: Served):
    reply = service.sql(service.define_readings() + "\nSELECT valeu FROM reading")
    assert reply.status == 400
    error = reply.json["error"]
    assert (error["line"], error["column"]) == (2, 8)
    assert "value" in error["hint"]
    assert service.sql("SHOW STREAMS").json["answers"][0]["table"]["rows"] == [{"text": "there are no streams"}]


def test_what_exists_is_a_conflict_and_missing_data_is_told(service: Served):
    service.sql(service.define_readings())
    assert service.sql(service.define_readings()).status == 409
    service.sql("SELECT value FROM reading")
    assert service.sql("DROP STREAM reading").status == 409
    (service.folder / "bad.csv").write_text("other\n1\n")
    bad = f"CREATE STREAM other (at BIGINT) FROM '{service.folder}/bad.csv' TIMESTAMP BY at; SELECT * FROM other"
    reply = service.sql(bad)
    assert (reply.status, reply.code[0]) == (422, "D")
    assert [each.name for each in service.live.queries()] == ["query_1"]


@pytest.mark.parametrize(
    "place", ["/etc/hosts", "../outside.csv", "link/hosts", "file:///etc/hosts", "s3://bucket/a.csv"]
)
def test_files_outside_of_the_allowed_folders_are_refused(service: Served, place):
    (service.folder / "link").symlink_to("/etc")
    path = place if "/" in place[:1] or ":" in place else f"{service.folder}/{place}"
    read = service.sql(f"CREATE STREAM other (at BIGINT) FROM '{path}' TIMESTAMP BY at; SELECT * FROM other")
    service.sql(service.define_readings())
    write = service.sql(f"INSERT INTO '{path}' SELECT * FROM reading")
    assert [(reply.status, reply.code) for reply in (read, write)] == [(403, "Q316")] * 2
    assert service.live.queries() == ()


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        ("SHOW STREAMS", "", 415, "Q506"),
        ("SHOW STREAMS", "application/x-www-form-urlencoded", 415, "Q506"),
        (b"SELECT '\xff'", "application/sql", 400, "Q507"),
        ("{", "application/json", 400, "Q507"),
        ("[" * 100_000, "application/json", 400, "Q507"),
        ('{"text": 1}', "application/json", 400, "Q507"),
        ('"SHOW STREAMS"', "application/json", 400, "Q507"),
        ("this is nonsense;", "application/sql", 400, "Q001"),
        ("\x00\x01", "application/sql", 400, "Q001"),
        ("(" * 100_000, "application/sql", 400, None),
        ("x" * ((1 << 20) + 1), "application/sql", 413, "Q501"),
        ("x" * (8 << 20), "application/sql", 413, "Q501"),
    ],
)
def test_a_malformed_request_is_refused_with_a_code(service: Served, body, content_type, status, code):
    reply = service.ask("POST", "/v1/sql", body, {"Content-Type": content_type} if content_type else {})
    assert reply.status == status
    assert code in (None, reply.code)
    assert set(reply.json["error"]) <= {"code", "message", "hint", "line", "column", "start", "end"}
    assert service.sql("SHOW STREAMS").status == 200


def test_a_text_of_a_megabyte_is_read(service: Served):
    text = "SHOW STREAMS -- " + "x" * ((1 << 20) - 16)
    assert service.sql(text).status == 200


def test_a_large_body_is_refused_before_it_is_sent(service: Served):
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as raw:
        raw.sendall(
            b"POST /v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
            b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n"
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "raw", [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 100_000]
)
def test_what_is_not_http_is_refused_and_disturbs_nothing(service: Served, raw):
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(1000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert service.ask("GET", "/health").status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("GET", "/v1/sql", 405), ("PUT", "/v1/sql", 405)]
)
def test_what_is_no_part_of_the_service_is_refused(service: Served, method, path, status):
    reply = service.ask(method, path)
    assert (reply.status, reply.code) == (status, "Q508")


def test_a_thousand_requests_at_once_are_all_answered(service: Served):
    service.sql(service.define_readings())
    together = Barrier(1000)

    def ask(number: int) -> int:
        together.wait()
        if number % 10 == 0:
            return service.sql(f"CREATE STREAM s{number} AS SELECT value FROM reading WHERE value > {number}").status
        if number % 10 == 1:
            return service.sql("nonsense").status
        return service.sql("SHOW STREAMS").status

    with ThreadPoolExecutor(1000) as pool:
        statuses = list(pool.map(ask, range(1000)))
    assert [s for n, s in enumerate(statuses) if n % 10 == 1] == [400] * 100
    assert [s for n, s in enumerate(statuses) if n % 10 != 1] == [200] * 900
    streams = service.sql("SHOW STREAMS").json["answers"][-1]["table"]["rows"]
    assert len(streams) == 101


def test_the_description_names_every_route(service: Served):
    described = service.ask("GET", "/openapi.json").json
    found = {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}
    app = service.server._uvicorn.config.app
    routed = {(method, route.path) for route in app.routes for method in route.methods - {"HEAD"}}
    assert found == routed == {(each.method, each.path) for each in OPERATIONS}
    text = json.dumps(described)
    for name in {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in described["components"]["schemas"]


def test_status_health_and_metrics(service: Served):
    service.write(1, (1_000_000, 5.0), (2_000_000, 7.0))
    service.sql(service.define_readings() + "SELECT value FROM reading")
    connection, response = service.follow("query_1")
    service.write(2, (3_000_000, 9.0))
    while b'"value": 9' not in response.readline():
        pass
    # Rows are delivered just before they are counted.
    while (status := service.ask("GET", "/v1/status").json)["rows_in"] < 3:
        pass
    assert (status["state"], status["rows_in"], status["watermarks"]) == ("running", 3, {"reading": 3_000_000})
    assert status["subscribers"] == 1
    assert service.ask("GET", "/health").json["state"] == "running"
    metrics = service.ask("GET", "/metrics").body.decode()
    assert 'tidegate_rows_out_total{query="query_1"} 3' in metrics
    assert 'tidegate_watermark_timestamp_seconds{stream="reading"} 3.0' in metrics
    assert "tidegate_subscribers 1" in metrics
    connection.close()

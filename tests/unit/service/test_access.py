"""Who may ask: tokens, the Host header, pages of other origins, and addresses of other machines."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers
from support.served import served

from tidegate.errors import DataError, QueryError
from tidegate.service.access import Access, find_refusal
from tidegate.service.openapi import OPERATIONS
from tidegate.service.server import check_access, listen

TOKEN = "s3cret-token"


@pytest.fixture(name="guarded")
def _guarded(tmp_path):
    with served(tmp_path, Access(token=TOKEN)) as service:
        yield service


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_without_the_token_nothing_is_answered(guarded, operation):
    path = operation.path.replace("{name}", "q")
    for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": TOKEN}):
        reply = guarded.ask(operation.method, path, headers=given)
        assert (reply.status, reply.code) == (401, "Q503")
        assert reply.headers["www-authenticate"] == "Bearer"
        assert TOKEN.encode() not in reply.body
    assert guarded.ask(operation.method, path, headers={"Authorization": f"Bearer {TOKEN}"}).status != 401


@pytest.mark.parametrize("token", ["", "s3cret-toke", "s3cret-token2", "S3cret-token", "\xe9" * 12])
def test_another_token_is_wrong(token):
    headers = Headers({"host": "localhost", "authorization": f"Bearer {token}"})
    refusal = find_refusal(headers, Access(token=TOKEN))
    assert refusal is not None
    assert refusal.status == 401


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "evil.example"}, "Q504"),
        ({"Host": "127.0.0.1.evil.example"}, "Q504"),
        ({"Host": "localhost.evil.example:80"}, "Q504"),
        ({"Host": ""}, "Q504"),
        ({"Origin": "http://evil.example"}, "Q505"),
        ({"Origin": "null"}, "Q505"),
        ({"Origin": "http://localhost:1"}, "Q505"),
        ({"Sec-Fetch-Site": "cross-site"}, "Q505"),
        ({"Sec-Fetch-Site": "same-site"}, "Q505"),
    ],
)
def test_a_page_of_another_origin_or_a_name_of_another_machine_is_refused(tmp_path, headers, code):
    with served(tmp_path) as service:
        for method, path in (("GET", "/health"), ("POST", "/v1/sql")):
            reply = service.ask(method, path, headers=headers)
            assert (reply.status, reply.code) == (403, code)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "localhost"},
        {"Host": "LOCALHOST:8080"},
        {"Host": "[::1]:8080"},
        {"Host": "localhost:7", "Origin": "http://localhost:7", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_this_machine_and_pages_of_the_service_may_ask(tmp_path, headers):
    with served(tmp_path) as service:
        reply = service.ask("GET", "/health", headers=headers)
        assert reply.status == 200
        assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
def test_another_address_needs_a_token(host):
    with pytest.raises(QueryError) as caught:
        check_access(Access(host))
    assert caught.value.code == "Q510"
    check_access(Access(host, TOKEN))


def test_on_another_address_the_token_is_enough_and_needed():
    access = Access("0.0.0.0", TOKEN)
    known = {"host": "machine.example", "authorization": f"Bearer {TOKEN}"}
    assert find_refusal(Headers(known), access) is None
    assert find_refusal(Headers({"host": "localhost"}), access).status == 401


def test_an_address_that_is_taken_is_an_error_with_a_code(tmp_path):
    with served(tmp_path) as service, pytest.raises(DataError) as caught:
        listen(Access(), service.port)
    assert caught.value.code == "D501"


def test_the_token_is_not_shown():
    assert TOKEN not in repr(Access(token=TOKEN))

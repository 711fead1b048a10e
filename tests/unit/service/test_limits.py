"""Limits: requests that wait, slow bodies, subscribers; and packages that are not installed."""

from __future__ import annotations

import asyncio
import socket

import pyarrow as pa
import pytest
from support.served import served

from tidegate.cli import extras
from tidegate.cli.tokens import read_token, refuse_short_token
from tidegate.errors import DataError, QueryError
from tidegate.live.feeds import ResultFeed
from tidegate.service import requests
from tidegate.service.refusals import Refusal
from tidegate.service.requests import RequestLine
from tidegate.service.subscribers import Subscribers


def test_a_request_is_refused_if_too_many_wait():
    async def fill() -> list[str]:
        line, order = RequestLine(at_once=1, most_waiting=1), []

        async def work(name: str) -> None:
            async with line.place():
                order.append(name)
                await asyncio.sleep(0)

        async with line.place():
            waiting = asyncio.create_task(work("second"))
            await asyncio.sleep(0)
            with pytest.raises(Refusal) as caught:
                await work("third")
            assert (caught.value.status, caught.value.error.code) == (503, "I501")
            assert order == []
        await waiting
        await work("fourth")
        return order

    assert asyncio.run(fill()) == ["second", "fourth"]


def test_a_body_that_does_not_arrive_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.05)
    with served(tmp_path) as service, socket.create_connection(("127.0.0.1", service.port), timeout=60) as raw:
        raw.sendall(
            b"POST /v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\nSHOW"
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 408")
        assert service.sql("SHOW STREAMS").status == 200


def test_there_are_at_most_so_and_so_many_subscribers():
    subscribers, feeds = Subscribers(most=2), [ResultFeed(pa.schema({"n": pa.int64()}), 1) for _ in range(2)]
    for feed in feeds:
        subscribers.check_room()
        subscribers.join(feed)
    with pytest.raises(Refusal) as caught:
        subscribers.check_room()
    assert (caught.value.status, caught.value.error.code) == (503, "I501")
    feeds[0].add(pa.RecordBatch.from_pydict({"n": [1, 2, 3]}))
    subscribers.leave(feeds[0])
    subscribers.leave(feeds[0])
    subscribers.check_room()
    assert (subscribers.count, subscribers.lost_rows) == (1, 2)
    subscribers.end_all()
    assert feeds[1].closed


@pytest.mark.parametrize(
    ("extra", "message"),
    [("serve", "starlette and uvicorn are not installed"), ("shell", "prompt_toolkit is not installed")],
)
def test_what_is_not_installed_is_told_with_what_to_install(extra, message, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(DataError) as caught:
        extras.require_extra(extra)
    assert (caught.value.code, caught.value.message) == ("D411", message)
    assert caught.value.hint == f"pip install 'tidegate[{extra}]'"


@pytest.mark.parametrize("text", ["", "  \n", "two words", "tab\tinside", "caf\xe9"])
def test_a_file_without_a_token_is_refused(tmp_path, text):
    (tmp_path / "token").write_text(text, encoding="utf-8")
    with pytest.raises(QueryError) as caught:
        read_token(tmp_path / "token")
    assert caught.value.code == "Q512"


def test_the_token_of_a_file_comes_before_that_of_the_environment(tmp_path, monkeypatch):
    (tmp_path / "token").write_text(" of-the-file-0123\n")
    assert read_token(None) is None
    monkeypatch.setenv("TIDEGATE_TOKEN", "of-the-environment")
    assert (read_token(None), read_token(tmp_path / "token")) == ("of-the-environment", "of-the-file-0123")
    refuse_short_token(None)
    refuse_short_token("0123456789abcdef")
    with pytest.raises(QueryError):
        refuse_short_token("0123456789abcde")

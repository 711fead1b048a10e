"""Read requests within limits, and run blocking calls in a bounded number of threads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.requests import ClientDisconnect, Request

from tidegate.errors import InternalError
from tidegate.service.refusals import Refusal, refuse

MOST_BYTES = 1 << 20
"""Size of the largest text of statements."""
BODY_SECONDS = 20.0
"""Time in which the body of a request must arrive."""
AT_ONCE = 8
"""Requests of one kind that are worked on at the same time; others wait in line."""
MOST_WAITING = 2000
_DRAINED_BYTES = 16 << 20

Result = TypeVar("Result")


class RequestLine:
    """Requests of one kind: a few are worked on in threads, others wait before their bodies are read."""

    def __init__(self, at_once: int = AT_ONCE, most_waiting: int = MOST_WAITING) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._threads = CapacityLimiter(at_once)
        self._waiting, self._most_waiting = 0, most_waiting

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place; refuse if too many wait already."""
        if self._waiting >= self._most_waiting:
            error = InternalError("I501", "the service is busy: too many requests wait", hint="try again in a second")
            raise Refusal(503, error, headers={"retry-after": "1"})
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._places.release()

    async def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run a blocking call in a thread."""
        # A call that has begun is not given up: a statement is applied whether or not the client still waits.
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._threads)


async def read_text(request: Request) -> str:
    """Return the statements in the body of a request: plain text, or JSON with the key "sql"."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/sql", "text/plain", "application/json"):
        message = f"the content type '{kind}' is not supported" if kind else "the content type is missing"
        raise refuse(415, "Q506", message, hint='send text as application/sql, or JSON: {"sql": "SHOW STREAMS"}')
    body = await _read_body(request)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise refuse(400, "Q507", "the body is not UTF-8 text") from None
    return _text_in_json(text) if kind == "application/json" else text


def _text_in_json(body: str) -> str:
    try:
        content = json.loads(body)
    except (json.JSONDecodeError, RecursionError):
        raise refuse(400, "Q507", "the body is not JSON") from None
    if not isinstance(content, dict) or not isinstance(content.get("sql"), str):
        raise refuse(400, "Q507", "the body has no text of statements", hint='send {"sql": "SHOW STREAMS"}')
    return str(content["sql"])


async def _read_body(request: Request) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > MOST_BYTES and "expect" in request.headers:
        raise _too_large()  # the client waits for permission to send
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= MOST_BYTES:
                    body += chunk
                elif size > _DRAINED_BYTES:
                    break  # what is a little too large is read to its end, so that the client sees the answer
    except TimeoutError:
        raise refuse(408, "Q509", f"the body did not arrive within {BODY_SECONDS:.0f} seconds") from None
    except ClientDisconnect:
        raise refuse(400, "Q507", "the connection ended before the body did") from None
    if size > MOST_BYTES:
        raise _too_large()
    return bytes(body)


def _too_large() -> Refusal:
    refusal = refuse(413, "Q501", f"the text is larger than {MOST_BYTES:,} bytes", hint="send it in parts")
    refusal.headers = {"connection": "close"}
    return refusal

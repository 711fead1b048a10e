"""Responses that follow a query: they end with the query, the run, the service or the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from tidegate.live.feeds import ResultFeed
from tidegate.service.formats import FeedFormat
from tidegate.service.requests import RequestLine
from tidegate.service.subscribers import Subscribers
from tidegate.wire import Json

ALIVE_SECONDS = 15.0
"""Silence after which something is sent, so that both sides notice a lost connection."""
ROWS_AT_ONCE = 10_000
"""Rows that are encoded and sent at once."""


class FeedResponse(StreamingResponse):
    """A stream of results. The feed is closed when the response ends, for whatever reason."""

    def __init__(
        self,
        feed: ResultFeed,
        shown: FeedFormat,
        subscribers: Subscribers,
        encoders: RequestLine,
        answers: Sequence[Json] = (),
    ) -> None:
        self._feed, self._subscribers = feed, subscribers
        subscribers.join(feed)
        super().__init__(_encode_feed(feed, shown, encoders, answers), media_type=shown.media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.close()
            self._subscribers.leave(self._feed)


async def _encode_feed(
    feed: ResultFeed, shown: FeedFormat, encoders: RequestLine, answers: Sequence[Json]
) -> AsyncIterator[bytes]:
    """Yield the rows of a feed as they arrive."""
    changed = _change_event(feed, asyncio.get_running_loop())
    dropped = 0
    yield shown.begin(answers)
    while True:
        # Read before the rows: what arrived before the end is in the feed then.
        is_last = feed.closed
        changed.clear()
        while (rows := feed.next(0)) is not None:
            if feed.dropped > dropped:
                dropped = feed.dropped
                yield shown.report_loss(dropped)
            for start in range(0, rows.num_rows, ROWS_AT_ONCE):
                yield await encoders.call(shown.rows, rows.slice(start, ROWS_AT_ONCE))
        if is_last:
            break
        if not await _happens(changed, ALIVE_SECONDS):
            yield shown.alive()
    yield shown.end(feed.error)


def _change_event(feed: ResultFeed, loop: asyncio.AbstractEventLoop) -> asyncio.Event:
    """Return an event that is set whenever rows arrive or the feed ends; that happens in the thread of the run."""
    event = asyncio.Event()

    def announce() -> None:
        with suppress(RuntimeError):  # the loop has ended before the run
            loop.call_soon_threadsafe(event.set)

    feed.call_on_change(announce)
    return event


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True

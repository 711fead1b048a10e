"""Subscribers of the service: at most a fixed number, and all of them end with the service."""

from __future__ import annotations

from tidegate.errors import InternalError
from tidegate.live.feeds import ResultFeed
from tidegate.service.refusals import Refusal

MOST_SUBSCRIBERS = 1000


class Subscribers:
    """Feeds that responses read at the moment. Only the event loop changes it; another thread may end all."""

    def __init__(self, most: int = MOST_SUBSCRIBERS) -> None:
        self._most = most
        self._feeds: set[ResultFeed] = set()
        self._lost_before = 0

    @property
    def count(self) -> int:
        return len(self._feeds)

    @property
    def lost_rows(self) -> int:
        """Rows that subscribers lost since the service started."""
        return self._lost_before + sum(feed.dropped for feed in self._feeds)

    def check_room(self) -> None:
        """Refuse another subscriber if there are too many."""
        if len(self._feeds) >= self._most:
            error = InternalError("I501", "the service is busy: too many subscribers", hint="try again later")
            raise Refusal(503, error, headers={"retry-after": "5"})

    def join(self, feed: ResultFeed) -> None:
        self._feeds.add(feed)

    def leave(self, feed: ResultFeed) -> None:
        if feed in self._feeds:
            self._feeds.discard(feed)
            self._lost_before += feed.dropped

    def end_all(self) -> None:
        """End all feeds, because the service ends."""
        for feed in list(self._feeds):
            feed.end()

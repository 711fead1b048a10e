"""Results of live queries on their way to subscribers, in bounded memory."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

import pyarrow as pa

MOST_ROWS = 100_000
"""Rows that wait for one subscriber. If it is slower than the query, it loses the oldest rows."""


class ResultFeed:
    """Results of one query for one subscriber, from the moment it subscribed.

    A run never waits for a subscriber: if more than `most_rows` rows wait, the oldest are dropped and counted.
    After the end of the feed, rows that wait can still be read.

    Examples
    --------
    >>> feed = ResultFeed(pa.schema({"n": pa.int64()}), most_rows=2)
    >>> feed.add(pa.RecordBatch.from_pydict({"n": [1, 2, 3]}))
    >>> feed.close()
    >>> [batch.to_pydict() for batch in feed], feed.dropped
    ([{'n': [2, 3]}], 1)
    """

    def __init__(self, schema: pa.Schema, most_rows: int = MOST_ROWS) -> None:
        self.schema = schema
        self.dropped = 0
        """Rows that were dropped because they were not read in time."""
        self.error: BaseException | None = None
        """Error of the run, if that ended the feed."""
        self._most_rows = most_rows
        self._waiting: deque[pa.RecordBatch] = deque()
        self._rows = 0
        self._is_closed = False
        self._changed = threading.Condition()
        self._on_change: Callable[[], None] | None = None

    @property
    def closed(self) -> bool:
        """True if no more rows arrive: the query or the run ended, or the subscriber closed the feed."""
        return self._is_closed

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, without waiting; drop the oldest if there are too many."""
        with self._changed:
            if self._is_closed or rows.num_rows == 0:
                return
            self._waiting.append(rows)
            self._rows += rows.num_rows
            self._drop_oldest()
        self._announce_change()

    def next(self, timeout: float | None = None) -> pa.RecordBatch | None:
        """Return the next rows; None if there are none within the timeout, or the feed is closed and empty."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._waiting:
                left = None if until is None else until - time.monotonic()
                if self._is_closed or (left is not None and left <= 0):
                    return None
                self._changed.wait(left)
            rows = self._waiting.popleft()
            self._rows -= rows.num_rows
            return rows

    def call_on_change(self, on_change: Callable[[], None]) -> None:
        """Set the function to call, in the thread of the run, when rows arrive or the feed ends; it must not wait."""
        self._on_change = on_change
        on_change()

    def end(self, error: BaseException | None = None) -> None:
        """End the feed because the query ended, or the run failed with an error."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed, self.error = True, error
        self._announce_change()

    def close(self) -> None:
        """Unsubscribe. May be called several times."""
        self.end()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (rows := self.next()) is not None:
            yield rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drop_oldest(self) -> None:
        while (excess := self._rows - self._most_rows) > 0:
            oldest = self._waiting.popleft()
            lost = min(excess, oldest.num_rows)
            if lost < oldest.num_rows:
                self._waiting.appendleft(oldest.slice(lost))
            self._rows -= lost
            self.dropped += lost

    def _announce_change(self) -> None:
        with self._changed:
            self._changed.notify_all()
        if self._on_change is not None:
            self._on_change()


class FeedsOfQueries:
    """The feeds of all queries."""

    def __init__(self) -> None:
        self._feeds: dict[str, list[ResultFeed]] = {}

    def add(self, query: str, feed: ResultFeed) -> None:
        self._feeds[query] = [*(each for each in self._feeds.get(query, ()) if not each.closed), feed]

    def add_rows(self, query: str, rows: pa.RecordBatch) -> None:
        """Add results of a query to its feeds."""
        for feed in self._feeds.get(query, ()):
            feed.add(rows)

    def has_reader(self, query: str) -> bool:
        return any(not feed.closed for feed in self._feeds.get(query, ()))

    def end_query(self, query: str) -> None:
        """End the feeds of a query that is gone."""
        for feed in self._feeds.pop(query, ()):
            feed.end()

    def end_all(self, error: BaseException | None = None) -> None:
        """End all feeds because the run ended, or failed with an error."""
        for feeds in list(self._feeds.values()):
            for feed in feeds:
                feed.end(error)

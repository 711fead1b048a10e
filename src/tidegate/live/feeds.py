"""Feeds: the results of a query from now on, for one reader."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

import pyarrow as pa

MOST_ROWS = 100_000
"""Rows that a feed keeps for a slow reader. When more come, the oldest batches are dropped."""


class ResultFeed:
    """The result rows of a query, with ``valid_from`` and ``valid_to``, in the order in which they are made."""

    def __init__(self, schema: pa.Schema, most_rows: int = MOST_ROWS) -> None:
        self.schema = schema
        self.dropped = 0
        """Rows that a slow reader lost."""
        self._most_rows, self._waiting_rows = most_rows, 0
        self._batches: deque[pa.RecordBatch] = deque()
        self._changed = threading.Condition()
        self.closed = False
        """Whether no more rows come. Rows that wait can still be read."""

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows; called by the run."""
        with self._changed:
            if self.closed:
                return
            self._batches.append(rows)
            self._waiting_rows += rows.num_rows
            while self._waiting_rows > self._most_rows and len(self._batches) > 1:
                lost = self._batches.popleft().num_rows
                self._waiting_rows -= lost
                self.dropped += lost
            self._changed.notify_all()

    def next(self, timeout: float | None = None) -> pa.RecordBatch | None:
        """Return the next batch; None if nothing comes within the timeout, or the feed is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self.closed, timeout)
            if not self._batches:
                return None
            batch = self._batches.popleft()
            self._waiting_rows -= batch.num_rows
            return batch

    def close(self) -> None:
        """Stop the feed."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self.next()) is not None:
            yield batch

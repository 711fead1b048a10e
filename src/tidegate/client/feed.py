"""Results of a query of a service, as they arrive."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from tidegate.client.http import ServiceAddress
from tidegate.errors import DataError, TidegateError
from tidegate.live.answers import Answer
from tidegate.wire import ANSWERS, ARROW, DROPPED, ERROR, answer_from_json, error_from_json

_BATCHES = 16
"""Batches that wait in the client. Further rows wait in the service, which drops the oldest if they are too many."""


class RemoteFeed:
    """Results of a query from the moment of the request; iterating yields record batches until the query ends.

    A thread reads the stream. If the run of the service fails, reading raises its error.
    """

    def __init__(self, address: ServiceAddress, method: str, path: str, text: str | None = None) -> None:
        self.schema: pa.Schema
        self.answers: tuple[Answer, ...] = ()
        """What the service answered to the statements, if the request had any."""
        self.dropped = 0
        """Rows that were lost because they were not read in time."""
        self._waiting: queue.Queue[pa.RecordBatch | None] = queue.Queue(_BATCHES)
        self._error: TidegateError | None = None
        self._is_closed = False
        self._socket: socket.socket | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(
            target=self._read, args=(address, method, path, text), name="tidegate-feed", daemon=True
        )
        self._thread.start()
        self._begun.wait()
        if self._has_failed_to_begin():
            self._raise_error()

    @property
    def closed(self) -> bool:
        """True if no more rows arrive."""
        return self._is_closed

    def next(self, timeout: float | None) -> pa.RecordBatch | None:
        """Return the next rows; None if there are none within the timeout, or the feed has ended."""
        if self._is_closed and self._waiting.empty():
            self._raise_error()
            return None
        try:
            rows = self._waiting.get(timeout is None or timeout > 0, timeout)
        except queue.Empty:
            return None
        if rows is None:
            self._is_closed = True
            self._raise_error()
        return rows

    def close(self) -> None:
        """Unsubscribe. May be called several times."""
        self._is_closed = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        while self._thread.is_alive():  # it may wait for room
            with suppress(queue.Empty):
                self._waiting.get_nowait()
            self._thread.join(0.01)
        self._error = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (rows := self.next(None)) is not None:
            yield rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _has_failed_to_begin(self) -> bool:
        return self._socket is None

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _read(self, address: ServiceAddress, method: str, path: str, text: str | None) -> None:
        """Read the stream to its end; runs in the thread."""
        try:
            with address.follow(method, path, text, {"Accept": ARROW}) as (opened, response):
                reader = pa.ipc.open_stream(response)
                self.schema = reader.schema
                self._note(reader.read_next_batch_with_custom_metadata().custom_metadata, text or "")
                self._socket = opened
                self._begun.set()
                while not self._is_closed:
                    rows, metadata = reader.read_next_batch_with_custom_metadata()
                    self._note(metadata, text or "")
                    if rows.num_rows:
                        self._waiting.put(rows)
        except StopIteration:
            pass
        except TidegateError as error:
            self._error = error
        except (OSError, ValueError, pa.ArrowInvalid):
            if not self._is_closed:
                hint = "the query goes on; subscribe again"
                self._error = DataError("D504", "the connection to the service was lost", hint=hint)
        finally:
            self._begun.set()
            self._waiting.put(None)

    def _note(self, metadata: Mapping[bytes, bytes] | None, text: str) -> None:
        """Note a message that came with a batch."""
        content: dict[bytes, Any] = {key: json.loads(said) for key, said in (metadata or {}).items()}
        self.dropped = content.get(DROPPED, self.dropped)
        if ANSWERS in content:
            self.answers = tuple(answer_from_json(each, text) for each in content[ANSWERS])
        if ERROR in content:
            raise error_from_json(content[ERROR])

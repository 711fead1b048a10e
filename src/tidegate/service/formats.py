"""Formats of a stream of results: lines of JSON, server-sent events, and Arrow."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from tidegate.expressions.column_texts import json_rows
from tidegate.wire import ANSWERS, ARROW, DROPPED, ERROR, EVENTS, LINES, Json, error_to_json


class FeedFormat(Protocol):
    """Encoder of one stream of results."""

    media_type: str

    def begin(self, answers: Sequence[Json]) -> bytes:
        """Return what comes before the first rows, with the answers to statements, if there are any."""

    def rows(self, rows: pa.RecordBatch) -> bytes: ...

    def report_loss(self, count: int) -> bytes:
        """Return the message that so far this number of rows was dropped."""

    def alive(self) -> bytes:
        """Return something that means nothing, to find out whether the client is there."""

    def end(self, error: BaseException | None) -> bytes: ...


class JsonLineFormat:
    """One JSON object per row and line.

    A line without `valid_from` is a message of the service: ``{"answers": …}``, ``{"dropped": 7}`` or
    ``{"error": …}``. Empty lines mean nothing.
    """

    media_type = LINES

    def begin(self, answers: Sequence[Json]) -> bytes:
        return json.dumps({"answers": answers}).encode() + b"\n" if answers else b""

    def rows(self, rows: pa.RecordBatch) -> bytes:
        return "".join(f"{row}\n" for row in json_rows(rows).to_pylist()).encode()

    def report_loss(self, count: int) -> bytes:
        return f'{{"dropped": {count}}}\n'.encode()

    def alive(self) -> bytes:
        return b"\n"

    def end(self, error: BaseException | None) -> bytes:
        return b"" if error is None else json.dumps({"error": error_to_json(error)}).encode() + b"\n"


class EventFormat:
    """Server-sent events: `answers`, `row`, `dropped`, `error` and `end`."""

    media_type = EVENTS

    def begin(self, answers: Sequence[Json]) -> bytes:
        told = f"event: answers\ndata: {json.dumps(answers)}\n\n" if answers else ": results follow\n\n"
        return told.encode()

    def rows(self, rows: pa.RecordBatch) -> bytes:
        # Line ends within strings are escaped in JSON, so that each row is one line of data.
        return "".join(f"event: row\ndata: {row}\n\n" for row in json_rows(rows).to_pylist()).encode()

    def report_loss(self, count: int) -> bytes:
        return f'event: dropped\ndata: {{"dropped": {count}}}\n\n'.encode()

    def alive(self) -> bytes:
        return b":\n\n"

    def end(self, error: BaseException | None) -> bytes:
        failed = b"" if error is None else f"event: error\ndata: {json.dumps(error_to_json(error))}\n\n".encode()
        return failed + b"event: end\ndata: {}\n\n"


class ArrowFormat:
    """An Arrow stream. Dropped rows and the error of the run are metadata of an empty batch."""

    media_type = ARROW

    def __init__(self, schema: pa.Schema) -> None:
        self._empty = pa.RecordBatch.from_pylist([], schema=schema)
        self._sink = io.BytesIO()
        self._writer = pa.ipc.new_stream(self._sink, schema)

    def begin(self, answers: Sequence[Json]) -> bytes:
        # The schema is written with the first batch.
        return self._message({ANSWERS: json.dumps(answers).encode()} if answers else None)

    def rows(self, rows: pa.RecordBatch) -> bytes:
        self._writer.write_batch(rows)
        return self._take()

    def report_loss(self, count: int) -> bytes:
        return self._message({DROPPED: str(count).encode()})

    def alive(self) -> bytes:
        return self._message(None)

    def end(self, error: BaseException | None) -> bytes:
        failed = b"" if error is None else self._message({ERROR: json.dumps(error_to_json(error)).encode()})
        self._writer.close()
        return failed + self._take()

    def _message(self, content: dict[bytes, bytes] | None) -> bytes:
        self._writer.write_batch(self._empty, custom_metadata=content)
        return self._take()

    def _take(self) -> bytes:
        """Return the bytes that were written since the last call."""
        taken = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return taken


def choose_format(accept: str, schema: pa.Schema) -> FeedFormat:
    """Return the format that an Accept header asks for; lines of JSON if it asks for none of the others."""
    accepted = accept.lower()
    if ARROW in accepted:
        return ArrowFormat(schema)
    if EVENTS in accepted:
        return EventFormat()
    return JsonLineFormat()

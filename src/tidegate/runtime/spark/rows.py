"""Travelling rows: elements travel through Spark as a few large binary rows, not as many small ones.

A batch of elements is one row with an Arrow stream as its payload. So a shuffle moves bytes without reading values,
and stages of any schema share one shuffle.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import pyarrow as pa

from tidegate.runtime.state import deserialize, serialize


class PayloadKind(IntEnum):
    """Kind of payload of a row, which also determines what its number refers to."""

    ELEMENTS = 0  # for a port of the stage with that number
    MARK = 1  # a sender's watermark, for a port of the stage with that number
    LATEST = 2  # the largest time of the stream with that number in the step
    RESULT = 3  # rows of the output with that number
    REPORT = 4  # figures of a task, for the driver; the number is 0
    ARRIVED = 5  # the number of raw rows of the stream with that number in the step


class Row(NamedTuple):
    """A row between tasks. The payload is an Arrow stream, or a plain value."""

    bucket: int
    kind: int
    number: int
    port: int
    payload: Any

    @property
    def batch(self) -> pa.RecordBatch:
        return deserialize(self.payload)


def batch_row(bucket: int, kind: PayloadKind, number: int, batch: pa.RecordBatch, *, port: int = 0) -> Row:
    return Row(bucket, int(kind), number, port, serialize(batch))


def value_row(bucket: int, kind: PayloadKind, number: int, value: object, *, port: int = 0) -> Row:
    return Row(bucket, int(kind), number, port, value)

"""Travelling rows: elements travel through Spark as a few large binary rows, not as many small ones.

Between the stages of a job a row is (bucket, kind, number, port, payload). A batch of elements is
one row with an Arrow stream as its payload. So a shuffle moves bytes without reading values, and
stages of any schema share one shuffle.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from tidegate.runtime.state import deserialize, serialize

TRAVELLING = StructType(
    [
        *(StructField(name, IntegerType()) for name in ("bucket", "kind", "number", "port")),
        StructField("payload", BinaryType()),
    ]
)
_ARROW = pa.schema(
    [
        ("bucket", pa.int32()),
        ("kind", pa.int32()),
        ("number", pa.int32()),
        ("port", pa.int32()),
        ("payload", pa.binary()),
    ]
)
BYTES_PER_BATCH = 32 << 20


class PayloadKind(IntEnum):
    """Kind of payload of a row, which also determines what its number refers to."""

    ELEMENTS = 0  # for a port of the stage with that number
    MARK = 1  # a sender's watermark, for a port of the stage with that number
    LATEST = 2  # the largest time of the stream with that number in the step
    RESULT = 3  # rows of the output with that number
    REPORT = 4  # figures of a task, for the driver; the number is 0
    NOTHING = 5  # no payload: the row makes Spark run the bucket
    ARRIVED = 6  # the number of raw rows of the stream with that number in the step


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    bucket: int
    kind: PayloadKind
    number: int
    port: int
    payload: bytes

    @property
    def batch(self) -> pa.RecordBatch:
        return deserialize(self.payload)

    @property
    def value(self) -> Any:
        return json.loads(self.payload)


def batch_row(bucket: int, kind: PayloadKind, number: int, batch: pa.RecordBatch, *, port: int = 0) -> Row:
    return Row(bucket, kind, number, port, serialize(batch))


def value_row(bucket: int, kind: PayloadKind, number: int, value: object, *, port: int = 0) -> Row:
    return Row(bucket, kind, number, port, json.dumps(value).encode())


def read_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        columns = [batch.column(i).to_pylist() for i in range(4)]
        payloads = batch.column(4)
        for i, (bucket, kind, number, port) in enumerate(zip(*columns, strict=True)):
            yield Row(bucket, PayloadKind(kind), number, port, payloads[i].as_py())


def write_rows(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Pack rows into Arrow batches of bounded size."""
    held: list[Row] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row.payload)
        if size >= BYTES_PER_BATCH:
            yield _pack_rows(held)
            held, size = [], 0
    if held:
        yield _pack_rows(held)


def _pack_rows(rows: list[Row]) -> pa.RecordBatch:
    columns = [
        [r.bucket for r in rows],
        [int(r.kind) for r in rows],
        [r.number for r in rows],
        [r.port for r in rows],
        [r.payload for r in rows],
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)], schema=_ARROW
    )

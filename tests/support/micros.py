"""Results in integer microseconds, to compare them with plain numbers."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

from tidegate.time import BEGINNING, FOREVER

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
_TIMES = {"valid_from": BEGINNING, "valid_to": FOREVER, "time": None}
"""The columns that Tidegate adds to results and dead letters, and what stands for NULL in them."""


def in_micros(rows: Rows) -> Rows:
    """The rows of a result, or dead letters, with times as int64: no beginning is BEGINNING, no end FOREVER."""
    for place, field in enumerate(rows.schema):
        if field.name in _TIMES and pa.types.is_timestamp(field.type):
            micros = rows.column(place).cast(pa.int64())
            missing = _TIMES[field.name]
            made = micros if missing is None else micros.fill_null(missing)
            rows = rows.set_column(place, field.with_type(pa.int64()), made)
    return rows

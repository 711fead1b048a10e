"""Rows on quality: which size was in force when, for each query and each of its adaptable windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from tidegate.physical.common.sizes import SizeChange, SizeHistories
from tidegate.runtime.adaptation import AdjustedWindow, AdjustedWindows
from tidegate.schema import Type
from tidegate.time import EARLIEST, TimeFormat

QUALITY = "quality"
"""Name of the output with the sizes of windows and granularities. The other outputs are named by query."""

Readers = Mapping[str, Sequence[str]]
"""The queries that read each adaptable window, by key."""


def quality_schema(times: TimeFormat = "iso") -> pa.Schema:
    """Return the schema with one row for each query and change of a size.

    Sizes are microseconds, or rows of a count window. `valid_from` is NULL for a size that was always in force.
    """
    return pa.schema(
        {
            "query": pa.string(),
            "window": pa.string(),
            "valid_from": Type.TIMESTAMP.arrow if times == "iso" else pa.int64(),
            "size": pa.int64(),
            "best": pa.int64(),
            "worst": pa.int64(),
            "reason": pa.string(),
        }
    )


def readers_of(windows: AdjustedWindows) -> dict[str, tuple[str, ...]]:
    """Return the queries that read each window."""
    return {key: each.queries for key, each in windows.items()}


def quality_rows(
    windows: AdjustedWindows, before: SizeHistories, readers: Readers, after: SizeHistories, times: TimeFormat = "iso"
) -> pa.RecordBatch:
    """Return what a step adds: the sizes that are new, and all sizes in force for queries that are new.

    `before` and `readers` are from the record of the step before, so that a repeated step adds the same rows.
    """
    schema = quality_schema(times)
    rows = [
        _row(query, window, change)
        for key, window in windows.items()
        for query in window.queries
        for change in _new_changes(key, query, before, readers, after)
    ]
    columns = [pa.array([row[at] for row in rows], _storage_type(each.type)) for at, each in enumerate(schema)]
    arrays = [each.cast(field.type) for each, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _new_changes(
    key: str, query: str, before: SizeHistories, readers: Readers, after: SizeHistories
) -> Iterator[SizeChange]:
    is_known = query in readers.get(key, ())
    for change in after[key].changes:
        if not is_known or change.instant > before[key].newest.instant:
            yield change


def _row(query: str, window: AdjustedWindow, change: SizeChange) -> tuple[object, ...]:
    begin = None if change.instant < EARLIEST else change.instant
    bounds = window.bounds
    return query, window.text, begin, change.size, bounds.best, bounds.worst, change.reason


def _storage_type(type_: pa.DataType) -> pa.DataType:
    return pa.int64() if type_ == Type.TIMESTAMP.arrow else type_

"""Origins of raw rows: their file, and their line or row in it.

A raw batch carries them as metadata of its schema, because its columns belong to the data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.arrays import Ints

_FILE, _FIRST, _OFFSETS = b"tidegate.file", b"tidegate.first", b"tidegate.offsets"


def with_places(batch: pa.RecordBatch, file: str, first: int, offsets: Ints | None = None) -> pa.RecordBatch:
    """Attach the file and the number of the first row to a batch.

    Rows are consecutive, unless `offsets` has the distance of each row from the first one.
    """
    metadata = {**(batch.schema.metadata or {}), _FILE: file.encode(), _FIRST: str(first).encode()}
    if offsets is not None:
        metadata[_OFFSETS] = offsets.astype(np.int64).tobytes()
    return batch.replace_schema_metadata(metadata)


class RawPlace(NamedTuple):
    """Where a raw batch was read: its file, and the number of its first line or row in it, counted from 1."""

    file: str | None = None
    first: int | None = None


def place_of(batch: pa.RecordBatch) -> RawPlace:
    """Return where a raw batch was read; nothing is known of batches that are not from files."""
    metadata = batch.schema.metadata or {}
    return RawPlace(metadata[_FILE].decode(), int(metadata[_FIRST])) if _FILE in metadata else RawPlace()


def numbers_of(batch: pa.RecordBatch, rows: npt.NDArray[np.intp]) -> pa.Array:
    """Return the line or row numbers in the file for some rows of a raw batch; NULL if it has no file.

    Examples
    --------
    >>> batch = with_places(pa.RecordBatch.from_pydict({"line": ["a", "b"]}), "x.csv", 7)
    >>> numbers_of(batch, np.array([1])).to_pylist()
    [8]
    """
    first = place_of(batch).first
    if first is None:
        return pa.nulls(len(rows), pa.int64())
    offsets = (batch.schema.metadata or {}).get(_OFFSETS)
    steps = rows.astype(np.int64) if offsets is None else np.frombuffer(offsets, np.int64)[rows]
    return pa.array(first + steps)

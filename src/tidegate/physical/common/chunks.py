"""Parts of a state as kernels have them, in columns, and as they are kept, in chunks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.physical.common.arrays import Columns


def chunk_of_columns(part: Columns) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(column) for column in part.values()], list(part))


def columns_of_chunk(chunk: pa.RecordBatch, *, writable: bool = False) -> Columns:
    """Return the columns of a chunk; without `writable`, they may share its memory."""
    named = zip(chunk.schema.names, chunk.columns, strict=True)
    columns = {name: column.to_numpy(zero_copy_only=False) for name, column in named}
    return {name: np.array(column) for name, column in columns.items()} if writable else columns

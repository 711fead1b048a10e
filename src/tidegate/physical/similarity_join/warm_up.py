"""Elements that exercise all compiled functions of a similarity join."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.physical.common.batch import Batch
from tidegate.schema import Schema, Type

ROWS = 20
"""Elements of each side in a step."""


def warm_up_elements(schema: Schema, time: int, width: int) -> Batch:
    """Return elements of one step, spread over a slot."""
    numbers = np.arange(ROWS)
    start = time + numbers * max(1, width // ROWS)
    columns = [_column(f.type, numbers) for f in schema]
    return Batch(start, start + 5 * width, pa.RecordBatch.from_arrays(columns, schema=schema.arrow))


def _column(type_: Type, numbers: np.ndarray) -> pa.Array:
    if not type_.parts:
        return pa.nulls(len(numbers)) if type_ is Type.NULL else _cast(numbers % 7, type_)
    ends = pa.array(2 * np.arange(len(numbers) + 1), pa.int32())
    entries = [_cast(np.stack([numbers % 5, numbers % 3 + 5], axis=1).ravel(), part) for part in type_.parts]
    if type_.is_map:
        return pa.MapArray.from_arrays(ends, *entries).cast(type_.arrow)
    return pa.ListArray.from_arrays(ends, *entries).cast(type_.arrow)


def _cast(numbers: np.ndarray, type_: Type) -> pa.Array:
    whole = pa.array(numbers, pa.int64())
    if type_ is Type.BOOLEAN:
        return pa.array(numbers % 2 == 0)
    return whole.cast(type_.arrow)

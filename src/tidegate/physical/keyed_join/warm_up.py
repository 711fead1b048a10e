"""Elements that exercise all compiled functions of a keyed join."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.physical.common.batch import Batch
from tidegate.schema import Schema

ROWS = 40
"""Elements of each input in a step."""


def warm_up_elements(schema: Schema, number: int, time: int) -> Batch:
    """Return elements of one step, some of which find their partners a step later."""
    values = np.arange(number * ROWS // 2, number * ROWS // 2 + ROWS)
    numbers = pa.array(values.astype(np.int32))
    columns = [pa.nulls(ROWS) if f.type.arrow == pa.null() else _cast(numbers, f.type.arrow) for f in schema]
    start = np.full(ROWS, time)
    return Batch(start, start + 25, pa.RecordBatch.from_arrays(columns, schema=schema.arrow))


def _cast(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    whole = numbers.cast(pa.int64()) if pa.types.is_temporal(kind) else numbers
    return whole.cast(kind)

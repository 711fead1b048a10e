"""Helpers of operators that hold elements back until the watermark passes them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tidegate.errors import InternalError
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import Chunks
from tidegate.time import FOREVER

FIGURES = "figures"


def figures_of(chunks: Chunks) -> dict[str, int]:
    """Return the named numbers that are saved among the chunks; empty in the initial state."""
    if FIGURES not in chunks:
        return {}
    names, values = (column.to_pylist() for column in chunks[FIGURES].columns)
    return dict(zip(names, values, strict=True))


def figures_chunk(figures: Mapping[str, int]) -> pa.RecordBatch:
    """Return the chunk from which `figures_of` reads these numbers."""
    columns = [pa.array(figures.keys(), pa.string()), pa.array(figures.values(), pa.int64())]
    return pa.RecordBatch.from_arrays(columns, ["name", "value"])


def valid_elements(batch: Batch, watermark: int) -> Batch:
    """Return the elements with a non-empty validity; raise an internal error if one starts before the watermark."""
    if len(batch) and batch.start.min() < watermark:
        raise InternalError("I321", f"an element starts at {batch.start.min()}, before the watermark {watermark}")
    ending = Batch(batch.start, np.minimum(batch.end, FOREVER), batch.columns)
    return ending.filter(ending.start < ending.end)

"""What operators have in common that let elements wait for the watermark."""

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
    """The named numbers among the chunks; none at the beginning."""
    if FIGURES not in chunks:
        return {}
    names, values = (column.to_pylist() for column in chunks[FIGURES].columns)
    return dict(zip(names, values, strict=True))


def figures_chunk(figures: Mapping[str, int]) -> pa.RecordBatch:
    """The inverse of `figures_of`."""
    columns = [pa.array(figures.keys(), pa.string()), pa.array(figures.values(), pa.int64())]
    return pa.RecordBatch.from_arrays(columns, ["name", "value"])


def valid_elements(batch: Batch, watermark: int) -> Batch:
    """The elements that are valid at all; none may start before the watermark."""
    if len(batch) and batch.start.min() < watermark:
        raise InternalError("I321", f"an element starts at {batch.start.min()}, before the watermark {watermark}")
    ending = Batch(batch.start, np.minimum(batch.end, FOREVER), batch.columns)
    return ending.filter(ending.start < ending.end)

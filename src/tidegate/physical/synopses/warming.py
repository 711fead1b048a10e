"""Let everything that is compiled for a many-one join be called once, before there is any hurry."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate.physical.batch import Batch
from tidegate.physical.operator import NO_FACTS, NO_STATE, Chunks
from tidegate.schema import Schema

if TYPE_CHECKING:
    from tidegate.physical.synopses.operator import SynopsisJoinOperator

_ROUNDS, _ROWS = 4, 40
"""So many steps with so many elements each; in half of them the state is loaded anew."""


def exercise(operator: SynopsisJoinOperator) -> None:
    """Join a few elements, some of which find each other late, before and after the state was saved."""
    alone = replace(operator, order=NO_FACTS)
    state: Chunks = NO_STATE
    for number in range(_ROUNDS):
        time = number * 10
        inputs = [_elements(schema, number, time) for schema in alone.taken]
        arrived = {name: (number + 1) * _ROWS for name in alone.streams if name is not None}
        state = alone.steered(NO_FACTS, arrived).step(state, inputs, [time + 10] * len(inputs)).state
        if number % 2:
            state = {name: pa.RecordBatch.from_arrays(c.columns, schema=c.schema) for name, c in state.items()}


def _elements(schema: Schema, number: int, time: int) -> Batch:
    values = np.arange(number * _ROWS // 2, number * _ROWS // 2 + _ROWS)
    numbers = pa.array(values.astype(np.int32))
    columns = [pa.nulls(_ROWS) if f.type.arrow == pa.null() else _cast(numbers, f.type.arrow) for f in schema]
    start = np.full(_ROWS, time)
    return Batch(start, start + 25, pa.RecordBatch.from_arrays(columns, schema=schema.arrow))


def _cast(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    whole = numbers.cast(pa.int64()) if pa.types.is_temporal(kind) else numbers
    return whole.cast(kind)

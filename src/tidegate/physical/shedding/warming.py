"""Let everything that is compiled for a join by likeness be called once, before there is any hurry."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate.algebra.shedding import Policy, Shedding
from tidegate.expressions.nodes import TRUE
from tidegate.physical.batch import Batch
from tidegate.physical.operator import NO_FACTS, NO_STATE, Chunks
from tidegate.schema import Schema, Type

if TYPE_CHECKING:
    from tidegate.physical.shedding.operator import SimilarityJoinOperator

_ROUNDS, _ROWS = 4, 20
"""So many steps with so many elements each; in half of them the state is loaded anew."""


def exercise(operator: SimilarityJoinOperator) -> None:
    """Join a few elements of several slots, completely and in part, before and after the state was saved."""
    width = operator.width
    for policy in (Policy.OFF, Policy.ON, Policy.DROP):
        shedding = Shedding(policy, budget=_ROWS)
        alone = replace(operator, predicate=TRUE, shedding=shedding, order=NO_FACTS, bucket=0, buckets=2)
        state: Chunks = NO_STATE
        for number in range(_ROUNDS):
            inputs = [_elements(schema, number * width, width) for schema in (alone.left, alone.right)]
            state = alone.step(state, inputs, [number * width] * 2).state
            if number % 2:
                state = {name: pa.RecordBatch.from_arrays(c.columns, schema=c.schema) for name, c in state.items()}


def _elements(schema: Schema, time: int, width: int) -> Batch:
    numbers = np.arange(_ROWS)
    start = time + numbers * max(1, width // _ROWS)
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

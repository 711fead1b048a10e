"""Operator that keeps each element with a probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tidegate.algebra.plan import EVERY_ROW
from tidegate.physical.common.batch import Batch, take
from tidegate.physical.common.operator import NO_STATE, Chunks, PartitionKeys, Step
from tidegate.physical.common.sizes import SizeHistory
from tidegate.physical.shedding.kernels.sampling import choose_sample
from tidegate.schema import Field, Schema, Type
from tidegate.values import value


@value
class SampleOperator:
    """Keep elements by a hash of their columns and start; add a column with how many rows each of them counts for."""

    source: Schema
    stream: str
    weight: str
    rate: int | None
    adjusted_by: str | None = None
    rates: SizeHistory | None = None
    """Rates over time; None: always `rate`, or all elements."""

    partition_keys: ClassVar[PartitionKeys | None] = None

    @property
    def schema(self) -> Schema:
        return self.source + Schema((Field(self.weight, Type.DOUBLE),))

    def describe(self) -> str:
        share = "as many rows as fit" if self.rate is None else f"{100 * self.rate / EVERY_ROW:g} % of the rows"
        return f"sample {share} of {self.stream}, weight as {self.weight}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        if not len(batch):
            return Step(NO_STATE, Batch.empty(self.schema), watermarks[0])
        rates = np.full(len(batch), self.rate or EVERY_ROW) if self.rates is None else self.rates.at(batch.start)
        kept = np.flatnonzero(choose_sample(batch.columns.columns, batch.start, rates))
        weights = pa.array(EVERY_ROW / rates[kept])
        columns = [*take(batch.columns, kept).columns, weights]
        sample = pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)
        return Step(NO_STATE, Batch(batch.start[kept], batch.end[kept], sample), watermarks[0])

    def with_sizes(self, history: SizeHistory) -> SampleOperator:
        return replace(self, rates=history)

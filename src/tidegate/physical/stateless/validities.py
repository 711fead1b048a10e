"""Operators without state that change or read validities: split, stamp, granularity and clip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tidegate.algebra.explain import duration_text
from tidegate.algebra.refusals import MOST_PIECES
from tidegate.errors import DataError
from tidegate.expressions.parse.times import instant_text
from tidegate.physical.common.batch import Batch, take
from tidegate.physical.common.operator import NO_STATE, Chunks, PartitionKeys, Step
from tidegate.physical.common.sizes import SizeHistory
from tidegate.physical.stateless.kernels.validities import coarsen_times, coarsen_watermark, split_validities
from tidegate.schema import Field, Schema, Type
from tidegate.time import BEGINNING, FOREVER
from tidegate.values import value


@value
class SplitOperator:
    """Split elements into ones that are valid for at most `length`; the relation at every instant stays the same."""

    schema: Schema
    length: int

    partition_keys: ClassVar[PartitionKeys | None] = None

    def describe(self) -> str:
        return f"split into {duration_text(self.length)}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        if not (batch.end > batch.start + self.length).any():
            return Step(NO_STATE, batch.filter(batch.start < batch.end), watermarks[0])
        if batch.start.min() <= BEGINNING or batch.end.max() >= FOREVER:
            message = "a row that is valid for ever cannot be split into the instants that a window over it needs"
            hint = "give every row an end, or remove the window"
            raise DataError("D120", message, hint=hint)
        self._refuse_pieces(int((batch.end - batch.start).max()))
        rows, start, end = split_validities(batch.start, np.maximum(batch.start, batch.end), self.length)
        return Step(NO_STATE, Batch(start, end, take(batch.columns, rows)), watermarks[0])

    def _refuse_pieces(self, longest: int) -> None:
        """Raise an error for a row that would become too many elements, as plans are refused that show it."""
        if longest > MOST_PIECES * self.length:
            message = (
                f"a row is valid for {duration_text(longest)}: a window over it would count "
                f"each of its {-(-longest // self.length):,} instants"
            )
            hint = (
                "read rows as they appear, with ISTREAM(…), or in steps: FROM (SELECT * FROM … GRANULARITY(1 MINUTE))"
            )
            raise DataError("D121", message, hint=hint)


@value
class ClipOperator:
    """Clip validities to [begin, end), and drop elements of which nothing is left."""

    schema: Schema
    begin: int
    end: int

    partition_keys: ClassVar[PartitionKeys | None] = None

    def describe(self) -> str:
        begin = "the beginning" if self.begin <= BEGINNING else instant_text(self.begin)
        end = "the end" if self.end >= FOREVER else instant_text(self.end)
        return f"clip from {begin} to {end}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        start, end = np.maximum(batch.start, self.begin), np.minimum(batch.end, self.end)
        return Step(NO_STATE, Batch(start, end, batch.columns).filter(start < end), watermarks[0])


@value
class StampOperator:
    """Add a column with the start of each element."""

    source: Schema
    column: str

    partition_keys: ClassVar[PartitionKeys | None] = None

    @property
    def schema(self) -> Schema:
        return self.source + Schema((Field(self.column, Type.BIGINT),))

    def describe(self) -> str:
        return f"stamp own time as {self.column}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        columns = [*batch.columns.columns, pa.array(batch.start)]
        stamped = pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)
        return Step(NO_STATE, batch.with_columns(stamped), watermarks[0])


@value
class GranularityOperator:
    """Coarsen time to steps of `size`: what is valid at a multiple of `size` is valid until the next multiple."""

    schema: Schema
    size: int
    adjusted_by: str | None = None
    coarsest: int | None = field(default=None, compare=False)
    """The coarsest size that the query allows; queries that allow others share the operator."""
    sizes: SizeHistory | None = None
    """Sizes over time; None: always `size`, which is the finest one."""

    partition_keys: ClassVar[PartitionKeys | None] = None

    def describe(self) -> str:
        return f"granularity {duration_text(self.size)}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        size = self.size if self.sizes is None else self.sizes.at(batch.start)
        start, end = coarsen_times(batch.start, size), coarsen_times(batch.end, size)
        output = Batch(start, end, batch.columns).filter(start < end)
        return Step(NO_STATE, output, self.watermark_after(watermarks[0]))

    @property
    def looks_back(self) -> int | None:
        return self.coarsest or self.size

    def with_sizes(self, history: SizeHistory) -> GranularityOperator:
        return replace(self, sizes=history)

    def watermark_after(self, watermark: int) -> int:
        # It never goes back: coarse granules become finer only at a multiple of the coarse ones.
        return coarsen_watermark(watermark, self.size if self.sizes is None else self.sizes.size_at(watermark))

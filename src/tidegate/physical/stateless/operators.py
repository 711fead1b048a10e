"""Operators without state: filter, map, window, union."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.algebra.explain import duration_text
from tidegate.algebra.plan import Output
from tidegate.expressions.evaluate import Evaluation, evaluate
from tidegate.expressions.nodes import Column, Expression
from tidegate.expressions.sql_text import to_sql
from tidegate.physical.common.batch import Batch, concat
from tidegate.physical.common.dead_letters import NO_DEAD_LETTERS
from tidegate.physical.common.failures import dead_letters_of_failures
from tidegate.physical.common.operator import NO_STATE, Chunks, PartitionKeys, Step
from tidegate.physical.common.sizes import SizeHistory
from tidegate.physical.stateless.kernels.window import shift_watermark, slide_validities
from tidegate.physical.stateless.selections import is_one_comparison, select_candidates
from tidegate.schema import Field, Schema
from tidegate.time import CHRONON
from tidegate.values import value


@value
class FilterOperator:
    """Forward the elements for which the predicate is true."""

    schema: Schema
    predicate: Expression

    partition_keys: ClassVar[PartitionKeys | None] = None

    def describe(self) -> str:
        return f"filter {to_sql(self.predicate)}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        if not len(batch):
            return Step(NO_STATE, batch, watermarks[0])
        if (rows := select_candidates(self.predicate, batch)) is not None:
            batch = batch.take_ascending(rows)
            if is_one_comparison(self.predicate):
                return Step(NO_STATE, batch, watermarks[0])
        verdict = evaluate(self.predicate, batch.columns, len(batch))
        keep = verdict.values.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - Arrow's API
        dead = NO_DEAD_LETTERS
        if verdict.errors is not None:
            keep = keep & (verdict.errors == 0)
            dead = dead_letters_of_failures(batch, verdict, self.predicate, origin="filter")
        return Step(NO_STATE, batch.filter(keep), watermarks[0], dead)


@value
class MapOperator:
    """Replace the columns of each element."""

    outputs: tuple[Output, ...]
    schema: Schema = field(init=False, repr=False, compare=False)
    names: tuple[str, ...] | None = field(init=False, repr=False, compare=False)
    """Names of the columns that it selects; None if it computes any."""

    partition_keys: ClassVar[PartitionKeys | None] = None

    def describe(self) -> str:
        return "map " + ", ".join(
            o.name if to_sql(o.expression) == o.name else f"{to_sql(o.expression)} AS {o.name}" for o in self.outputs
        )

    def __post_init__(self) -> None:
        names = [o.expression.name for o in self.outputs if isinstance(o.expression, Column)]
        object.__setattr__(self, "schema", Schema(tuple(Field(o.name, o.expression.type) for o in self.outputs)))
        object.__setattr__(self, "names", tuple(names) if len(names) == len(self.outputs) else None)

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        if self.names is not None:
            arrays = [batch.columns.column(name) for name in self.names]
            selected = pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)
            return Step(NO_STATE, batch.with_columns(selected), watermarks[0])
        columns = [evaluate(o.expression, batch.columns, len(batch)) for o in self.outputs]
        mapped = pa.RecordBatch.from_arrays([c.values for c in columns], schema=self.schema.arrow)
        output = batch.with_columns(mapped)
        dead = [
            dead_letters_of_failures(batch, column, o.expression, origin=o.name)
            for o, column in zip(self.outputs, columns, strict=True)
            if column.errors is not None
        ]
        if not dead:
            return Step(NO_STATE, output, watermarks[0])
        fine = np.logical_and.reduce([c.errors == 0 for c in columns if c.errors is not None])
        return Step(NO_STATE, output.filter(fine), watermarks[0], _one_letter_per_element(dead, columns))


@value
class WindowOperator:
    """Extend validities by the size of the window, on the grid of its slide.

    An element may be valid for one instant (one granule) or longer.
    """

    schema: Schema
    size: int | None
    slide: int
    granule: int = CHRONON
    adjusted_by: str | None = None
    sizes: SizeHistory | None = None
    """Sizes over time; None: always `size`, which is the largest one."""

    partition_keys: ClassVar[PartitionKeys | None] = None

    def describe(self) -> str:
        reach = "for ever" if self.size is None else duration_text(self.size)
        return f"window {reach}" + (f", sliding by {duration_text(self.slide)}" if self.slide != 1 else "")

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        size = self.size if self.sizes is None else self.sizes.at(batch.start)
        start, end = slide_validities(batch.start, batch.end - self.granule, size, self.slide, self.granule)
        output = Batch(start, end, batch.columns).filter((end > start) & (batch.end > batch.start))
        return Step(NO_STATE, output, self.watermark_after(watermarks[0]))

    @property
    def looks_back(self) -> int | None:
        return None if self.size is None else -(-self.size // self.slide) * self.slide + self.granule

    def with_sizes(self, history: SizeHistory) -> WindowOperator:
        return replace(self, sizes=history)

    def watermark_after(self, watermark: int) -> int:
        return shift_watermark(watermark, self.slide, self.granule)


@value
class UnionOperator:
    """Forward all elements of all inputs; columns match by position and take the names of the first input."""

    schema: Schema

    partition_keys: ClassVar[PartitionKeys | None] = None

    def describe(self) -> str:
        return "union"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        renamed = [b.with_columns(b.columns.rename_columns(list(self.schema.names))) for b in inputs]
        return Step(NO_STATE, concat(renamed), min(watermarks))


def _one_letter_per_element(dead: list[pa.RecordBatch], columns: list[Evaluation]) -> pa.RecordBatch:
    # An element that fails in several columns becomes one dead letter, for the first of these columns.
    failing: list[npt.NDArray[np.bool_]] = [c.errors != 0 for c in columns if c.errors is not None]
    seen = np.zeros_like(failing[0])
    kept = []
    for letters, mask in zip(dead, failing, strict=True):
        kept.append(letters.filter(pa.array(~seen[mask])))
        seen |= mask
    return pa.Table.from_batches(kept).combine_chunks().to_batches()[0]

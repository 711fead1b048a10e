"""Omission of elements that cannot change the outcome of any alert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tidegate.algebra.explain import duration_text
from tidegate.algebra.threshold_alert import Demand
from tidegate.physical.common.arrays import Floats, Ints, Mask
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.kernels.groups import canonical, group_rows
from tidegate.physical.common.operator import NO_STATE, Chunks, PartitionKeys, Step
from tidegate.physical.threshold_alert.kernels.brackets import find_bracketed, find_duplicates, order_by_group_and_time
from tidegate.schema import Schema


@dataclass(frozen=True, slots=True)
class OmitOperator:
    """Forward the elements that alerts may need, as far as one batch shows.

    The operator needs no state, so it runs before elements travel. The join that follows omits more.
    """

    schema: Schema
    keys: tuple[str, ...]
    demands: tuple[Demand, ...]

    partition_keys: ClassVar[PartitionKeys | None] = None

    @property
    def aliases(self) -> tuple[str, ...]:
        return (alias_of(self.schema),)

    @property
    def is_first(self) -> bool:
        return True

    def describe(self) -> str:
        return "omit elements that " + " and ".join(describe_demand(d) for d in self.demands)

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        group = group_numbers([batch.column(key) for key in self.keys], len(batch))
        needed = needed_rows(batch, group, self.demands)
        return Step(NO_STATE, batch.take(needed), watermarks[0], omitted=(len(batch) - len(needed),))


def alias_of(schema: Schema) -> str:
    """Return the name under which an alert reads an input: the prefix of the names of its columns.

    Examples
    --------
    >>> from tidegate.schema import Type
    >>> alias_of(Schema.of(**{"alert:dew:0": Type.DOUBLE, "h.at": Type.TIMESTAMP}))
    'h'
    """
    names = (name.rpartition(".")[0] for name in schema.names if not name.startswith("alert:"))
    return next(filter(None, names), "")


def describe_demand(demand: Demand) -> str:
    """Return a phrase that says which elements a demand allows to omit."""
    sides = [name for name, asked in (("two greater", demand.above), ("two smaller", demand.below)) if asked]
    length = f"{'less than ' if demand.strict else ''}{duration_text(demand.window)}"
    return f"lie between {' and between '.join(sides)} values of {demand.value_text or demand.value} within {length}"


def needed_rows(batch: Batch, group: Ints, demands: Sequence[Demand]) -> Ints:
    """Return the rows that cannot be omitted, in the order of group and time."""
    order = order_by_group_and_time(group, batch.start)
    # Most rows are omitted: only the columns that decide are put in order, the others with the rows that stay.
    values = batch.select(sorted({demand.value for demand in demands}))
    if order is None:
        return np.flatnonzero(~omissible_rows(values, group, demands))
    return order[~omissible_rows(values.take(order), group[order], demands)]


def omissible_rows(batch: Batch, group: Ints, demands: Sequence[Demand]) -> Mask:
    """Return which elements can be omitted; rows must be in the order of group and time.

    Of elements that are equal in time and in all demanded values, the first stays, unless a demand keeps copies.
    """
    if not demands:
        return np.zeros(len(batch), np.bool_)
    values = {demand.value: float_values(batch.column(demand.value)) for demand in demands}
    found = np.ones(len(batch), np.bool_)
    for d in demands:
        found &= find_bracketed(
            group, batch.start, values[d.value], window=d.window, strict=d.strict, above=d.above, below=d.below
        )
    if any(demand.keeps_copies for demand in demands):
        return found
    known = [batch.column(name).is_valid().to_numpy(zero_copy_only=False) for name in values]
    copies: Mask = find_duplicates(group, batch.start, list(values.values())) & np.logical_and.reduce(known)
    return found | copies


def float_values(column: pa.Array) -> Floats:
    """Return the values of a column as floats; NULL becomes NaN, which keeps the element."""
    wide = column.cast(pa.float64())
    return np.array(wide.fill_null(np.nan) if wide.null_count else wide)


def group_numbers(keys: Sequence[pa.Array], rows: int) -> Ints:
    """Return a number for each row, the same for rows of equal keys."""
    same = [canonical(key) for key in keys]
    return group_rows([key[:0] for key in same], same, groups=0, rows=rows).groups

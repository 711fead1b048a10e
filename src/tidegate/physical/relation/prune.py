"""Drop elements early that cannot be among the first rows, so that fewer travel and wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tidegate.algebra.plan import Order
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.kernels.groups import canonical, group_rows, sort_by_group
from tidegate.physical.common.kernels.order_codes import equality_classes, order_codes, presence, row_order_by_codes
from tidegate.physical.common.operator import NO_STATE, Chunks, PartitionKeys, Step
from tidegate.schema import Schema


@dataclass(frozen=True, slots=True)
class PruneOperator:
    """Drop elements that come after `count` others with the same keys and the same validity.

    The operator compares only the elements of one batch, so it needs no state. What it drops depends on the batches;
    the first rows do not.
    """

    schema: Schema
    order: Order
    count: int
    keys: tuple[str, ...]

    partition_keys: ClassVar[PartitionKeys | None] = None

    def describe(self) -> str:
        owner = f" of each {', '.join(self.keys)}" if self.keys else ""
        turned = " descending" if self.order.descending else ""
        return f"prune to the first {self.count}{owner} in order of {self.order.column}{turned}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        if len(batch) <= self.count:
            return Step(NO_STATE, batch, watermarks[0])
        together = [pa.array(batch.start), pa.array(batch.end), *(canonical(batch.column(k)) for k in self.keys)]
        groups, founders = group_rows([t[:0] for t in together], together, groups=0, rows=len(batch))
        place = _rank_rows(sort_keys(batch.column(self.order.column), self.order))
        limit = _place_limits(groups, place, len(founders), self.count)
        return Step(NO_STATE, batch.filter(place <= limit[groups]), watermarks[0])


def sort_keys(column: pa.Array, order: Order) -> list[Ints]:
    """Return the sort keys, the most important first."""
    (codes,) = order_codes([column]).codes
    turned = ~codes if order.descending else codes
    if not column.null_count:
        return [turned]
    present = presence(column).astype(np.int64)
    return [present if order.nulls_first else 1 - present, turned]


def _rank_rows(keys: list[Ints]) -> Ints:
    """Return one number for each row, in the order of the keys."""
    return keys[0] if len(keys) == 1 else equality_classes(row_order_by_codes(keys), keys)


def _place_limits(groups: Ints, place: Ints, many: int, count: int) -> Ints:
    """Return, for each group, the place of the last of its first `count` rows."""
    if count == 1:
        limit = np.full(many, np.iinfo(np.int64).max)
        np.minimum.at(limit, groups, place)
        return limit
    bounds, rows = sort_by_group(groups, np.argsort(place), many)
    last: Ints = place[rows[np.minimum(bounds[:-1] + count, bounds[1:]) - 1]]
    return last

"""Emit an alarm when the total weight of the elements of a key reaches a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidegate.algebra.subscriptions import TOTAL, TotalCompletion
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.hold_back import load_waiting, split_due, valid_elements, waiting_chunks
from tidegate.physical.common.kernels.groups import canonical, group_rows
from tidegate.physical.common.kernels.order_codes import integers
from tidegate.physical.common.kernels.schedule import Schedule
from tidegate.physical.common.kernels.time_order import sort_in_time_order
from tidegate.physical.common.operator import Chunks, PartitionKeys, Step
from tidegate.physical.subscriptions.kernels.totals import GroupedElements, Totals, add_up, drop_expired
from tidegate.schema import Schema
from tidegate.time import FOREVER

_FUTURES, _GROUPS, _KEPT = "futures", "groups", "kept"


@dataclass(frozen=True, slots=True)
class TotalThresholdOperator:
    """Follow the total of each key from the beginning; elements count once the watermark has passed them."""

    elements: Schema
    keys: tuple[str, ...]
    waiting: TotalCompletion
    threshold: int

    @property
    def schema(self) -> Schema:
        return Schema((*self.elements, TOTAL))

    @property
    def partition_keys(self) -> PartitionKeys:
        return (self.keys,)

    @property
    def looks_back(self) -> int | None:
        return None

    def describe(self) -> str:
        by = f" of each {', '.join(self.keys)}" if self.keys else ""
        return f"total{by} reaching {self.threshold} for {self.waiting.name}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        memory = _TotalState.load(self, state)
        watermark = max(memory.watermark, min(watermarks[0], FOREVER))
        arrived = valid_elements(inputs[0], memory.watermark)
        if watermark == memory.watermark and not len(arrived):
            return Step(state, Batch.empty(self.schema), watermark)
        futures, due = split_due(memory.futures, arrived, watermark)
        after, output = self._count_due(replace(memory, watermark=watermark, futures=futures), due)
        return Step(after.save(), output, watermark)

    def _count_due(self, memory: _TotalState, due: Batch) -> tuple[_TotalState, Batch]:
        """Add the weights of the due elements, and return the new state and the alarms."""
        known = memory.totals
        keys = [canonical(due.column(name)) for name in self.keys]
        found = group_rows(memory.keys, keys, groups=len(known.total), rows=len(due))
        memory = memory.with_founders([key.take(pa.array(found.founders)) for key in keys], len(found.founders))
        order = sort_in_time_order(found.groups, due.start, due.columns.columns, count=len(memory.totals.total)).order
        due = due.take(order)
        weighed = GroupedElements(found.groups[order], due.start, integers(due.column(self.waiting.weight)))
        within, repeats = self.waiting.within, self.waiting.repeats
        totals, complete = add_up(memory.totals, weighed, self.threshold, within=within, repeats=repeats)
        if within is not None:
            # No later element starts before the watermark.
            totals = drop_expired(totals, memory.watermark - within)
        rows = due.take(complete.row)
        columns = [*rows.columns.columns, pa.array(complete.total)]
        output = rows.with_columns(pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow))
        return replace(memory, totals=totals).without_empty_keys(), output


@dataclass(frozen=True, slots=True, eq=False)
class _TotalState:
    """State of a step: waiting elements, keys and their totals."""

    watermark: int
    futures: Schedule
    keys: tuple[pa.Array, ...]
    totals: Totals

    @staticmethod
    def load(operator: TotalThresholdOperator, chunks: Chunks) -> _TotalState:
        keys = tuple(pa.array([], operator.elements.type_of(k).arrow) for k in operator.keys)
        totals = Totals.empty(0)
        if _GROUPS in chunks:
            total, done, *keys_ = chunks[_GROUPS].columns
            keys, totals = tuple(keys_), Totals(np.array(total), np.array(done), totals.kept)
        if _KEPT in chunks:
            totals = totals._replace(kept=GroupedElements(*(np.array(column) for column in chunks[_KEPT].columns)))
        watermark, [futures] = load_waiting(chunks, _FUTURES)
        return _TotalState(watermark, futures, keys, totals)

    def with_founders(self, keys: Sequence[pa.Array], new: int) -> _TotalState:
        """Add new keys with empty totals."""
        if not new:
            return self
        more = Totals.empty(new)
        total, done = np.append(self.totals.total, more.total), np.append(self.totals.done, more.done)
        joined = tuple(pa.concat_arrays([old, key]) for old, key in zip(self.keys, keys, strict=True))
        return replace(self, keys=joined, totals=Totals(total, done, self.totals.kept))

    def without_empty_keys(self) -> _TotalState:
        """Drop keys whose total is zero and that are not complete."""
        total, done, kept = self.totals
        needed = done | (total > 0)
        if needed.all():
            return self
        rows, number = pa.array(np.flatnonzero(needed)), np.cumsum(needed) - 1
        keys = tuple(key.take(rows) for key in self.keys)
        totals = Totals(total[needed], done[needed], kept._replace(group=number[kept.group]))
        return replace(self, keys=keys, totals=totals)

    def save(self) -> Chunks:
        total, done, kept = self.totals
        chunks = waiting_chunks({"watermark": self.watermark}, self.futures)
        names = ["total", "done", *(f"key.{place}" for place in range(len(self.keys)))]
        if len(total):
            chunks[_GROUPS] = pa.RecordBatch.from_arrays([pa.array(total), pa.array(done), *self.keys], names)
        if len(kept.group):
            chunks[_KEPT] = pa.RecordBatch.from_arrays([pa.array(c) for c in kept], list(GroupedElements._fields))
        return chunks

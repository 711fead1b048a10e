"""Rows that a relation gains or loses from one instant to the next (ISTREAM, DSTREAM, EMIT CHANGES).

At an instant, a relation gains as many copies of a row as begin there, less those that end there. So an element that
was cut in two gains and loses nothing at the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tidegate.algebra.plan import Change
from tidegate.physical.common.batch import CHANGE, Batch, concat
from tidegate.physical.common.hold_back import HeldBack, split_due, valid_elements
from tidegate.physical.common.kernels.groups import canonical, group_rows
from tidegate.physical.common.operator import Chunks, PartitionKeys, Step
from tidegate.physical.relation.kernels.net import net_rows
from tidegate.schema import Field, Schema, Type
from tidegate.time import BEGINNING, CHRONON, FOREVER

_BEGINS, _ENDS = "begins", "ends"


PLUS, MINUS = "+", "-"


@dataclass(frozen=True, slots=True)
class ChangelogOperator:
    """Emit all rows gained and lost, in time order, with a first column that says which.

    The log is read in order, so it is made in one bucket. A row that was always valid is gained at the beginning. All
    rows are lost at `end`: what was to happen later happens then, where gains and losses cancel out.
    """

    source: Schema
    end: int = FOREVER

    partition_keys: ClassVar[PartitionKeys] = ((),)

    @property
    def schema(self) -> Schema:
        return Schema((Field(CHANGE, Type.STRING), *self.source))

    def describe(self) -> str:
        return "changelog"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        memory = HeldBack.load(state, _BEGINS, _ENDS)
        watermark = max(memory.watermark, min(watermarks[0], FOREVER))
        new = valid_elements(inputs[0], memory.watermark)
        if watermark == memory.watermark and state and not len(new):
            return Step(state, Batch.empty(self.schema), watermark)
        ending = new.filter(new.end < FOREVER)
        begins, ends = memory.waiting
        due = FOREVER if watermark > self.end else watermark
        begins, begun = split_due(begins, Batch(new.start, new.start + CHRONON, new.columns), due)
        ends, ended = split_due(ends, Batch(ending.end, ending.end + CHRONON, ending.columns), due)
        after = HeldBack(watermark, (begins, ends)).save()
        begun, ended = self._end_log(begun), self._end_log(ended)
        return Step(after, self._with_op(net_changes(begun, ended), net_changes(ended, begun)), watermark)

    def _end_log(self, edges: Batch) -> Batch:
        times = np.minimum(edges.start, self.end)
        return Batch(times, times + CHRONON, edges.columns)

    def _with_op(self, gained: Batch, lost: Batch) -> Batch:
        """Return both in time order; of one instant, what is lost comes first."""
        both = concat([lost, gained])
        is_gain = np.repeat([False, True], [len(lost), len(gained)])
        ops = pa.array(np.where(is_gain, PLUS, MINUS), pa.string())
        marked = pa.RecordBatch.from_arrays([ops, *both.columns.columns], schema=self.schema.arrow)
        return both.with_columns(marked).take(np.argsort(both.start, kind="stable"))


@dataclass(frozen=True, slots=True)
class ChangesOperator:
    """Emit one chronon for each row gained or lost, once the watermark has passed its instant."""

    schema: Schema
    change: Change

    @property
    def partition_keys(self) -> PartitionKeys:
        return (self.schema.names,)

    @property
    def looks_back(self) -> int | None:
        return CHRONON

    def describe(self) -> str:
        return f"changes {self.change.value}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        memory = HeldBack.load(state, _BEGINS, _ENDS)
        watermark = max(memory.watermark, self._report_watermark(min(watermarks[0], FOREVER)))
        new = valid_elements(inputs[0], memory.watermark)
        if watermark == memory.watermark and state and not len(new):
            return Step(state, Batch.empty(self.schema), watermark)
        begins, ends = memory.waiting
        new_begins, new_ends = self._edges(new)
        begins, begun = split_due(begins, new_begins, watermark)
        ends, ended = split_due(ends, new_ends, watermark)
        more, less = (begun, ended) if self.change is Change.INSERTED else (ended, begun)
        return Step(HeldBack(watermark, (begins, ends)).save(), net_changes(more, less), watermark)

    @property
    def _lead_time(self) -> int:
        """Return how much earlier than the change it is reported.

        The last instant of a row is one chronon before the instant at which it is gone.
        """
        return CHRONON if self.change is Change.DELETED_LAST else 0

    def _report_watermark(self, watermark: int) -> int:
        """Return the watermark of reports, given the watermark of elements."""
        return watermark if watermark in (BEGINNING, FOREVER) else watermark - self._lead_time

    def _edges(self, batch: Batch) -> tuple[Batch, Batch]:
        """Return chronons where elements begin and where they end.

        An element that starts at the beginning of time does not begin, and an endless one does not end.
        """
        beginning, ending = batch.filter(batch.start > BEGINNING), batch.filter(batch.end < FOREVER)
        begin, end = beginning.start - self._lead_time, ending.end - self._lead_time
        return Batch(begin, begin + CHRONON, beginning.columns), Batch(end, end + CHRONON, ending.columns)


def net_changes(more: Batch, less: Batch) -> Batch:
    """Return the surplus of one kind of edge over the other, by row and instant."""
    both = concat([more, less])
    keys = [canonical(column) for column in both.columns.columns]
    groups = group_rows([key.slice(0, 0) for key in keys], keys, groups=0, rows=len(both)).groups
    weights = np.repeat(np.array([1, -1], np.int64), [len(more), len(less)])
    return both.take(net_rows(groups, both.start, weights))

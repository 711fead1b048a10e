"""Coalesce equal elements that are adjacent in time, up to a bound on the length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.algebra.explain import duration_text
from tidegate.algebra.plan import WHOLE
from tidegate.physical.common.batch import Batch, concat
from tidegate.physical.common.hold_back import HeldBack, split_due, valid_elements
from tidegate.physical.common.kernels.groups import canonical, group_rows
from tidegate.physical.common.kernels.schedule import Schedule
from tidegate.physical.common.operator import Chunks, PartitionKeys, Step
from tidegate.physical.relation.kernels.coalesce import chains
from tidegate.schema import Schema
from tidegate.time import FOREVER

_FUTURES, _HELD = "futures", "held"


@dataclass(frozen=True, slots=True)
class CoalesceOperator:
    """Merge equal elements that are adjacent in time, up to `length`; the relation at every instant stays the same.

    An element that starts before the watermark is held back while a later one may continue it: while it is shorter than
    `length` and does not end before the watermark. So the output's watermark lags by at most `length`.
    """

    schema: Schema
    length: int

    @property
    def partition_keys(self) -> PartitionKeys:
        return (self.schema.names,)

    def describe(self) -> str:
        return "coalesce" if self.length == WHOLE else f"coalesce up to {duration_text(self.length)}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        memory = HeldBack.load(state, _FUTURES, _HELD)
        futures, held = memory.waiting
        watermark = max(memory.watermark, min(watermarks[0], FOREVER))
        arrived = valid_elements(inputs[0], memory.watermark)
        futures, due = split_due(futures, arrived, watermark)
        if watermark == memory.watermark:
            changed = HeldBack(watermark, (futures, held)).save() if len(arrived) or not state else state
            return Step(changed, Batch.empty(self.schema), held_watermark(watermark, held))
        held, ended = held.take_before(watermark)
        due = concat([due, *(swap_start_and_end(Batch.from_arrow(rows)) for rows in ended)])
        merged = merge_adjacent(due, self.length)
        # An endless element has no later neighbour.
        extensible = (merged.end >= watermark) & (merged.end < FOREVER) & (merged.end - self.length < merged.start)
        # Elements that are held wait in the order of their ends.
        held = held.with_rows(swap_start_and_end(merged.filter(extensible)).to_arrow())
        after = HeldBack(watermark, (futures, held))
        return Step(after.save(), merged.filter(~extensible), held_watermark(watermark, held))


def merge_adjacent(batch: Batch, length: int) -> Batch:
    """Merge equal elements that are adjacent in time into elements of at most `length`."""
    keys = [canonical(column) for column in batch.columns.columns]
    groups = group_rows([key.slice(0, 0) for key in keys], keys, groups=0, rows=len(batch)).groups
    last, since = chains(groups, batch.start, batch.end, length)
    chosen = batch.take(last)
    return Batch(since, chosen.end, chosen.columns)


def held_watermark(watermark: int, held: Schedule) -> int:
    """Return the time before which nothing more will be emitted, given the elements that are held, by their ends."""
    starts = (int(run.waiting_rows().column(1).to_numpy().min()) for run in held.runs if run.waiting_count)
    return min((watermark, *starts))


def swap_start_and_end(batch: Batch) -> Batch:
    """Swap start and end, because held elements wait in the order of their ends."""
    return Batch(batch.end, batch.start, batch.columns)

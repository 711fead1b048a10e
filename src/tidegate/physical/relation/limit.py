"""LIMIT: the first rows in an order, at every instant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.algebra.plan import Order
from tidegate.physical.aggregate.kernels.slot_order import first_few
from tidegate.physical.aggregate.kernels.slots import live_counts
from tidegate.physical.aggregate.live import LiveState, SlotStep, slot_step_of
from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.batch import Batch, take
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.kernels.order_codes import equality_classes, row_order_by_codes
from tidegate.physical.common.operator import Chunks, PartitionKeys, Step
from tidegate.physical.relation.prune import sort_keys
from tidegate.schema import Schema
from tidegate.time import FOREVER

_OPEN = "open"


@dataclass(frozen=True, slots=True)
class LimitOperator:
    """Return, at every instant, `count` rows in an order after skipping `offset`; in each group of keys.

    With `ties`, also return the rows that are equal in the order to the last of them.
    """

    schema: Schema
    order: tuple[Order, ...]
    count: int
    offset: int
    keys: tuple[str, ...]
    emit: Emit
    ties: bool = False

    @property
    def partition_keys(self) -> PartitionKeys:
        return (self.keys,)

    def describe(self) -> str:
        by = ", ".join(o.column + (" descending" if o.descending else "") for o in self.order) or "all columns"
        skipped = f" after {self.offset}" if self.offset else ""
        owner = f" of each {', '.join(self.keys)}" if self.keys else ""
        tied = " and their equals" if self.ties else ""
        return f"first {self.count}{tied}{skipped}{owner} in order of {by}, reporting {self.emit.name.lower()}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        """Process the new elements and emit what the watermark settles."""
        memory, shown = LiveState.load(state), _FirstRows.load(state)
        watermark = max(memory.watermark, min(watermarks[0], FOREVER))
        after, due = memory.absorb(inputs[0], self.schema.names, watermark)
        if watermark == memory.watermark:
            kept = state if state and after.futures is memory.futures else {**after.save(), **shown.save()}
            return Step(kept, Batch.empty(self.schema), shown.output_watermark(watermark))
        emit = Emit.SETTLED if watermark == FOREVER else self.emit
        scene = slot_step_of(after, due, self.keys, watermark, only_touched=emit.holds_back)
        pieces = self._pieces(scene, shown, emit)
        chosen = np.flatnonzero(pieces.emitted)
        output = Batch(pieces.start[chosen], pieces.end[chosen], take(scene.columns, pieces.element[chosen]))
        still = shown.after(scene, pieces) if emit.holds_back else _NO_FIRST_ROWS
        done = scene.state_after(*_live_groups(scene))
        return Step({**done.save(), **still.save()}, output, still.output_watermark(watermark))

    def _pieces(self, scene: SlotStep, shown: _FirstRows, emit: Emit) -> _LimitPieces:
        slots = scene.slots
        order, ties = self._sort_elements(scene)
        element, within = first_few(order, ties, slots, scene.spans, offset=self.offset, count=self.count)
        group = slots.group[within.first]
        is_carried = (within.first == slots.bounds[group]) & (group < scene.known)
        is_open = within.last == slots.bounds[group + 1]
        begun = slots.time[within.first]
        begun[is_carried] = shown.since_of(scene.number[element[is_carried]], scene.begin)
        until = np.append(slots.time, 0)[within.last]
        until[is_open] = scene.watermark
        emitted = (begun < until) & (~is_open | emit.emits_while_open(~is_carried))
        return _LimitPieces(element, begun, until, is_open, emitted)

    def _sort_elements(self, scene: SlotStep) -> tuple[Ints, Ints]:
        """Return the elements in the order, and numbers that are equal for elements that tie.

        Elements that are equal in the order are ordered by all columns, and equal rows by their number. Equal rows must
        not swap places from step to step, because part of one of them may have been emitted.
        """
        deciding = [key for order in self.order for key in sort_keys(scene.columns.column(order.column), order)]
        others = [key for name in self.schema.names for key in sort_keys(scene.columns.column(name), Order(name))]
        sorted_rows = row_order_by_codes([*deciding, *others, scene.number])
        return sorted_rows, equality_classes(sorted_rows, deciding) if self.ties else scene.number


@dataclass(frozen=True, slots=True, eq=False)
class _LimitPieces:
    """Elements with the validities in which they are among the first rows; `open` ones last beyond the step."""

    element: Ints
    start: Ints
    end: Ints
    open: Mask
    emitted: Mask


@dataclass(frozen=True, slots=True, eq=False)
class _FirstRows:
    """Elements that are among the first rows, by ascending number, and since when they were not emitted."""

    number: Ints
    since: Ints
    chunk: pa.RecordBatch | None = None

    @staticmethod
    def load(chunks: Chunks) -> _FirstRows:
        if _OPEN not in chunks:
            return _NO_FIRST_ROWS
        number, since = (np.array(column) for column in chunks[_OPEN].columns)
        return _FirstRows(number, since, chunks[_OPEN])

    def save(self) -> Chunks:
        if self.chunk is not None:
            return {_OPEN: self.chunk}
        if not len(self.number):
            return {}
        return {_OPEN: pa.RecordBatch.from_arrays([pa.array(self.number), pa.array(self.since)], ["number", "since"])}

    def output_watermark(self, watermark: int) -> int:
        """Return the time before which nothing more will be emitted."""
        return int(np.min(self.since, initial=watermark))

    def since_of(self, numbers: Ints, otherwise: int) -> Ints:
        if not len(self.number):
            return np.full(len(numbers), otherwise)
        return self.since[np.searchsorted(self.number, numbers)]

    def after(self, scene: SlotStep, pieces: _LimitPieces) -> _FirstRows:
        """Return the elements after the step; those of groups in which nothing happened stay as they are."""
        others = ~np.isin(self.number, scene.number)
        rows = np.flatnonzero(pieces.open)
        since = np.where(pieces.emitted[rows], scene.watermark, pieces.start[rows])
        number = np.concatenate([self.number[others], scene.number[pieces.element[rows]]])
        order = np.argsort(number)
        new = _FirstRows(number[order], np.concatenate([self.since[others], since])[order])
        same = np.array_equal(new.number, self.number) and np.array_equal(new.since, self.since)
        return self if same else new


_NO_FIRST_ROWS = _FirstRows(np.empty(0, np.int64), np.empty(0, np.int64))


def _live_groups(scene: SlotStep) -> tuple[Ints, Ints]:
    """Return the groups with live elements at the watermark, and FOREVER for each: groups hold nothing back."""
    slots = scene.slots
    untouched = slots.bounds[1:] == slots.bounds[:-1]
    last = np.append(live_counts(scene.spans, slots.total), 0)[slots.bounds[1:] - 1]
    alive = np.flatnonzero(untouched | (last > 0))
    return alive, np.full(len(alive), FOREVER)

"""Count windows: windows of the last N elements, of all of them or of each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch, concat_columns, take
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.hold_back import load_waiting, split_due, valid_elements, waiting_chunks
from tidegate.physical.common.kernels.groups import canonical, group_rows
from tidegate.physical.common.kernels.schedule import Schedule
from tidegate.physical.common.kernels.time_order import sort_in_time_order
from tidegate.physical.common.operator import Chunks, PartitionKeys, Step
from tidegate.physical.common.sizes import SizeHistory
from tidegate.physical.relation.kernels.count_window import (
    ALL,
    CountWindowResult,
    GroupCounts,
    VaryingResult,
    count_varying_windows,
    count_windows,
    leaves_of_fixed_window,
)
from tidegate.schema import Schema
from tidegate.time import FOREVER

_FUTURES, _GROUPS, _ELEMENTS, _SINCE, _LEAVES = "futures", "groups", "elements", "since", "leaves"
_COUNT, _SIZE = "count", "size"


@dataclass(frozen=True, slots=True)
class CountWindowOperator:
    """Keep the last `rows` elements of each group, or all; the content changes with every `slide`-th element.

    Elements are counted once the watermark has passed them, so that the order of arrival does not matter.
    """

    schema: Schema
    rows: int | None
    slide: int
    keys: tuple[str, ...]
    emit: Emit
    adjusted_by: str | None = None
    sizes: SizeHistory | None = None
    """Numbers of rows over time; None: always `rows`, which is the largest one."""

    @property
    def partition_keys(self) -> PartitionKeys:
        return (self.keys,)

    @property
    def looks_back(self) -> int | None:
        return None

    def with_sizes(self, history: SizeHistory) -> CountWindowOperator:
        return replace(self, sizes=history)

    def describe(self) -> str:
        reach = "all elements" if self.rows is None else f"last {self.rows} elements"
        owner = f" of each {', '.join(self.keys)}" if self.keys else ""
        moving = f", sliding by {self.slide}" if self.slide != 1 else ""
        return f"window {reach}{owner}{moving}, reporting {self.emit.name.lower()}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        memory = CountWindowState.load(self, state)
        watermark = max(memory.watermark, min(watermarks[0], FOREVER))
        arrived = valid_elements(inputs[0], memory.watermark)
        futures, due = split_due(memory.futures, arrived, watermark)
        memory = replace(memory, futures=futures)
        if watermark == memory.watermark:
            changed = state if state and not len(arrived) else memory.save()
            return Step(changed, Batch.empty(self.schema), memory.output_watermark)
        after, output = self._advance(memory, due, watermark)
        return Step(after.save(), output, after.output_watermark)

    def _advance(self, memory: CountWindowState, due: Batch, watermark: int) -> tuple[CountWindowState, Batch]:
        """Count the elements that are due, and emit up to the watermark."""
        table = memory.groups
        keys = [canonical(due.column(name)) for name in self.keys]
        found = group_rows(table.keys, keys, groups=len(table.counts), rows=len(due))
        table = table.with_founders([key.take(pa.array(found.founders)) for key in keys], len(found.founders))
        arrived = sort_in_time_order(found.groups, due.start, due.columns.columns, count=len(table.counts))
        remembered = GroupCounts(table.counts, table.sizes, memory.not_emitted)
        rows = ALL if self.rows is None else self.rows
        cut, early = self.emit is Emit.SETTLED, self.emit is Emit.EARLY
        counted: CountWindowResult | VaryingResult
        if self.rows is None or (self.sizes is None and memory.leaves is None):
            counted = count_windows(remembered, arrived, rows, self.slide, watermark, cut, early)
        else:
            windows = np.full(len(due), rows) if self.sizes is None else self.sizes.at(due.start)
            leaves = leaves_of_fixed_window(*remembered[:2], self.rows) if memory.leaves is None else memory.leaves
            counted = count_varying_windows(remembered, leaves, arrived, windows, watermark, cut, early)
        columns = concat_columns([memory.elements, due.columns])
        output = Batch(counted.start, counted.end, take(columns, counted.rows))
        return _state_after(memory, table, arrived.bounds, counted, columns, watermark), output


@dataclass(frozen=True, slots=True, eq=False)
class CountWindowGroups:
    """Groups: their keys, the number of elements of each so far, and how many of the last ones are kept."""

    keys: list[pa.Array]
    counts: Ints
    sizes: Ints

    def with_founders(self, keys: list[pa.Array], new: int) -> CountWindowGroups:
        """Add new groups without elements after the known ones."""
        if not new:
            return self
        none = np.zeros(new, np.int64)
        joined = [pa.concat_arrays([old, more]) for old, more in zip(self.keys, keys, strict=True)]
        return CountWindowGroups(joined, np.append(self.counts, none), np.append(self.sizes, none))

    def save(self) -> pa.RecordBatch:
        names = [_COUNT, _SIZE, *(f"key.{k}" for k in range(len(self.keys)))]
        return pa.RecordBatch.from_arrays([pa.array(self.counts), pa.array(self.sizes), *self.keys], names)


@dataclass(frozen=True, slots=True, eq=False)
class CountWindowState:
    """State of a count window; `since` is None if everything was emitted up to the watermark."""

    watermark: int
    futures: Schedule
    groups: CountWindowGroups
    elements: pa.RecordBatch
    since: Ints | None
    leaves: Ints | None
    """Numbers of the elements with which kept ones end; None if all windows had the same size so far."""
    chunks: Chunks
    """Chunks of groups, elements, since and leaves, as loaded or as changed by the step."""

    @staticmethod
    def load(operator: CountWindowOperator, chunks: Chunks) -> CountWindowState:
        watermark, [futures] = load_waiting(chunks, _FUTURES)
        held = {name: chunks[name] for name in (_GROUPS, _ELEMENTS, _SINCE, _LEAVES) if name in chunks}
        return CountWindowState(
            watermark,
            futures,
            _load_groups(operator, held),
            held.get(_ELEMENTS, pa.RecordBatch.from_pylist([], schema=operator.schema.arrow)),
            _load_since(operator, held),
            np.array(held[_LEAVES].column(0)) if _LEAVES in held else None,
            held,
        )

    def save(self) -> Chunks:
        return {**waiting_chunks({"watermark": self.watermark}, self.futures), **self.chunks}

    @property
    def not_emitted(self) -> Ints:
        """Return the time from which each kept element was not emitted yet."""
        return np.full(self.groups.sizes.sum(), self.watermark) if self.since is None else self.since

    @property
    def output_watermark(self) -> int:
        """Return the time before which nothing more will be emitted."""
        return self.watermark if self.since is None else int(np.min(self.since, initial=self.watermark))


def _load_groups(operator: CountWindowOperator, chunks: Chunks) -> CountWindowGroups:
    if _GROUPS not in chunks:
        none = np.empty(0, np.int64)
        return CountWindowGroups([pa.array([], operator.schema.type_of(k).arrow) for k in operator.keys], none, none)
    counts, sizes, *keys = chunks[_GROUPS].columns
    return CountWindowGroups(keys, np.array(counts), np.array(sizes))


def _load_since(operator: CountWindowOperator, chunks: Chunks) -> Ints | None:
    if operator.emit is Emit.SETTLED:
        return None
    return np.array(chunks[_SINCE].column(0)) if _SINCE in chunks else np.empty(0, np.int64)


def _state_after(
    memory: CountWindowState,
    table: CountWindowGroups,
    bounds: Ints,
    counted: CountWindowResult | VaryingResult,
    columns: pa.RecordBatch,
    watermark: int,
) -> CountWindowState:
    """Return the state at the watermark; reuse the chunks if no element arrived."""
    if not bounds[-1] and watermark < FOREVER:
        return replace(memory, watermark=watermark)
    groups = CountWindowGroups(table.keys, table.counts + np.diff(bounds), counted.sizes)
    elements = take(columns, counted.kept)
    since = None if memory.since is None else counted.since
    chunks = {_GROUPS: groups.save(), _ELEMENTS: elements}
    if since is not None:
        chunks[_SINCE] = pa.RecordBatch.from_arrays([pa.array(since)], [_SINCE])
    leaves = counted.leaves if isinstance(counted, VaryingResult) else None
    if leaves is not None:
        chunks[_LEAVES] = pa.RecordBatch.from_arrays([pa.array(leaves)], [_LEAVES])
    return CountWindowState(watermark, memory.futures, groups, elements, since, leaves, chunks)

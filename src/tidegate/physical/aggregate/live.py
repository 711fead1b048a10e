"""Elements that are live between steps, and the slots of time of one step.

Some operators need all live elements of a group. They keep them in sorted runs until they end; a step reads the
elements of the groups in which something happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidegate.physical.aggregate.kernels.slots import CARRIED, Slots, Spans, cut_into_slots
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch, concat_columns
from tidegate.physical.common.hold_back import figures_of, split_due, valid_elements, waiting_chunks
from tidegate.physical.common.kernels.groups import canonical, group_rows, positions_of_ids
from tidegate.physical.common.kernels.schedule import Schedule
from tidegate.physical.common.operator import Chunks
from tidegate.time import BEGINNING, FOREVER

_GROUPS, _FUTURES, _LIVE = "groups", "futures", "live"
_END, _START, _GROUP, _NUMBER = range(4)
_BEFORE_COLUMNS = 4


@dataclass(frozen=True, slots=True, eq=False)
class LiveGroups:
    """Groups that have live elements: their ids, ascending, their keys, and the time since which nothing was emitted.

    FOREVER in `since` means the watermark: everything before it has been emitted. BEGINNING cannot mean that, because
    rows of tables start there.
    """

    ids: Ints
    since: Ints
    keys: list[pa.Array]

    @staticmethod
    def load(rows: pa.RecordBatch | None, key_types: Sequence[pa.DataType]) -> LiveGroups:
        if rows is None:
            none = np.empty(0, np.int64)
            return LiveGroups(none, none, [pa.array([], kind) for kind in key_types])
        return LiveGroups(np.array(rows.column(0)), np.array(rows.column(1)), list(rows.columns[2:]))

    def save(self) -> pa.RecordBatch:
        names = ["id", "since", *(f"key.{k}" for k in range(len(self.keys)))]
        return pa.RecordBatch.from_arrays([pa.array(self.ids), pa.array(self.since), *self.keys], names)

    def with_founders(self, keys: list[pa.Array], founders: Ints, first_id: int) -> LiveGroups:
        rows, new = pa.array(founders), len(founders)
        return LiveGroups(
            np.append(self.ids, first_id + np.arange(new)),
            np.append(self.since, np.full(new, FOREVER)),
            [pa.concat_arrays([old, key.take(rows)]) for old, key in zip(self.keys, keys, strict=True)],
        )

    def take(self, rows: Ints) -> LiveGroups:
        return LiveGroups(self.ids[rows], self.since[rows], [key.take(pa.array(rows)) for key in self.keys])


@dataclass(frozen=True, slots=True, eq=False)
class LiveState:
    """State between steps; `groups` is None if no group has a live element."""

    watermark: int
    ids_given: int
    numbers_given: int
    futures: Schedule
    live: Schedule
    groups: pa.RecordBatch | None

    @staticmethod
    def load(chunks: Chunks) -> LiveState:
        figures = figures_of(chunks)
        return LiveState(
            figures.get("watermark", BEGINNING),
            figures.get("ids", 0),
            figures.get("numbers", 0),
            Schedule.load(_FUTURES, chunks, figures),
            Schedule.load(_LIVE, chunks, figures),
            chunks.get(_GROUPS),
        )

    def save(self) -> Chunks:
        """Return the chunks; unchanged ones are the same objects as before."""
        own = {"watermark": self.watermark, "ids": self.ids_given, "numbers": self.numbers_given}
        groups = {} if self.groups is None else {_GROUPS: self.groups}
        return {**waiting_chunks(own, self.futures, self.live), **groups}

    def absorb(self, batch: Batch, columns: Sequence[str], watermark: int) -> tuple[LiveState, Batch]:
        """Keep the new elements that start at or after the watermark; return all elements that start before it."""
        arrived = valid_elements(batch.with_columns(batch.columns.select(list(columns))), self.watermark)
        futures, due = split_due(self.futures, arrived, watermark)
        return replace(self, futures=futures), due


@dataclass(frozen=True, slots=True, eq=False)
class SlotStep:
    """One step: all groups, the slots of those in which something happens, and the elements in them.

    The first `known` groups existed before. `number` identifies elements across steps.
    """

    memory: LiveState
    groups: LiveGroups
    known: int
    slots: Slots
    spans: Spans
    number: Ints
    columns: pa.RecordBatch
    begin: int
    watermark: int

    @property
    def starts_of_carried(self) -> Ints:
        """Return, for each group, the time since which its initial value was not emitted."""
        return np.where(self.groups.since == FOREVER, self.begin, self.groups.since)

    def state_after(self, alive: Ints, since: Ints) -> LiveState:
        """Return the state after the step, with the groups that are alive."""
        if self.watermark >= FOREVER:
            return replace(self.memory, live=Schedule(_LIVE, (), self.memory.live.made), groups=None)
        same = len(alive) == self.known == len(self.groups.ids) and np.array_equal(since, self.groups.since)
        if same and self.memory.groups is not None:
            return self.memory
        kept = self.groups if len(alive) == len(self.groups.ids) else self.groups.take(alive)
        return replace(self.memory, groups=replace(kept, since=since).save() if len(alive) else None)


def slot_step_of(memory: LiveState, due: Batch, keys: Sequence[str], watermark: int, *, only_touched: bool) -> SlotStep:
    """Cut the time up to the watermark into slots, for all groups or only those in which something happens."""
    by = [canonical(due.column(name)) for name in keys]
    before = LiveGroups.load(memory.groups, [key.type for key in by])
    found = group_rows(before.keys, by, groups=len(before.ids), rows=len(due))
    groups = before.with_founders(by, found.founders, memory.ids_given) if len(found.founders) else before
    new = _rows_to_keep(due, groups.ids[found.groups], memory.numbers_given)
    old = [run.waiting_rows() for run in memory.live.runs]
    rows = concat_columns([*old, new]) if old else new
    owners = np.concatenate([*(positions_of_ids(groups.ids, _ints(part, _GROUP)) for part in old), found.groups])
    is_new = np.arange(rows.num_rows) >= rows.num_rows - len(due)
    known = np.arange(len(before.ids))
    if only_touched:
        happens = np.zeros(len(groups.ids), np.bool_)
        happens[owners[is_new | (_ints(rows, _END) < watermark)]] = True
        kept, known = np.flatnonzero(happens[owners]), np.flatnonzero(happens[: len(before.ids)])
        if len(kept) < len(owners):
            rows, owners, is_new = rows.take(pa.array(kept)), owners[kept], is_new[kept]
    starts = np.where(is_new, _ints(rows, _START), CARRIED)
    slots, spans = cut_into_slots(
        owners, starts, _ints(rows, _END), carried=known, count=len(groups.ids), until=watermark
    )
    after = replace(
        memory,
        watermark=watermark,
        ids_given=memory.ids_given + len(found.founders),
        numbers_given=memory.numbers_given + len(due),
        live=memory.live.take_before(watermark)[0].with_rows(_rows_still_live(new, watermark)),
    )
    columns = pa.RecordBatch.from_arrays(
        [canonical(c) for c in rows.columns[_BEFORE_COLUMNS:]], due.columns.schema.names
    ) if due.columns.num_columns else due.columns  # fmt: skip
    number = _ints(rows, _NUMBER)
    return SlotStep(after, groups, len(before.ids), slots, spans, number, columns, memory.watermark, watermark)


def _rows_to_keep(due: Batch, ids: Ints, first_number: int) -> pa.RecordBatch:
    """Return elements as they are kept: end, start, id of the group, number, columns."""
    numbers = first_number + np.arange(len(due))
    own = [pa.array(np.ascontiguousarray(a)) for a in (due.end, due.start, ids, numbers)]
    names = ["end", "start", "group", "number", *(f"column.{c}" for c in range(due.columns.num_columns))]
    return pa.RecordBatch.from_arrays([*own, *due.columns.columns], names)


def _rows_still_live(rows: pa.RecordBatch, watermark: int) -> pa.RecordBatch:
    return rows.take(pa.array(np.flatnonzero(_ints(rows, _END) >= watermark)))


def _ints(rows: pa.RecordBatch, column: int) -> Ints:
    return np.array(rows.column(column))

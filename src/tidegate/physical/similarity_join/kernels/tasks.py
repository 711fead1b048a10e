"""Comparisons that a batch needs, in cells: elements of a slot with a slot of the other stream."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Floats, Ints
from tidegate.physical.similarity_join.kernels.keyed import count_partners
from tidegate.physical.similarity_join.kernels.pairs import count_pairs
from tidegate.physical.similarity_join.kernels.slots import Slot

Slots = Mapping[int, Slot]
"""Slots by number."""


class Cell(NamedTuple):
    """Comparisons that are equally productive, as far as is known."""

    lag: int
    stream: int
    """Stream of the probing elements; 0 is the left one."""
    kind: int


class Task(NamedTuple):
    """Comparison of new elements of one slot, all of one kind, with a slot of the other stream."""

    cell: Cell
    probing: Slot
    rows: Ints
    stored: Slot
    volume: int
    name: tuple[int, ...]
    """Identifies the task within the batch."""

    @property
    def is_fresh(self) -> bool:
        """Return whether the stored elements are new as well."""
        return bool(self.name[-1])


class SlotPair(NamedTuple):
    """New elements of a slot, and a slot of the other stream."""

    stream: int
    number: int
    probing: Slot
    other: int
    stored: Slot
    fresh: bool
    """True if the stored elements are new as well."""


def tasks_of(
    new: tuple[Slots, Slots], old: tuple[Slots, Slots], own: Slots, reach: int, *, keyed: bool = False
) -> list[Task]:
    """Return all tasks of a batch. Every pair is in exactly one task; if `keyed`, every pair with the same key.

    `own` are the new elements of the right stream that this bucket compares with new ones of the left stream.
    """
    tasks = []
    for meeting in _slot_pairs(new, old, own):
        stream, number, probing, other, stored, fresh = meeting
        lag = number - other if stream == 0 else other - number
        for kind, rows in probing.rows_by_kind.items():
            some, pairs = (_with_partners if keyed else _overlapping)(probing, rows, stored)
            if pairs:
                cell = Cell(max(-reach, min(reach, lag)), stream, kind)
                tasks.append(Task(cell, probing, some, stored, pairs, (stream, number, other, kind, int(fresh))))
    return tasks


def volume_by_cell(tasks: list[Task]) -> tuple[list[Cell], Ints]:
    """Return the cells in a fixed order, and the number of comparisons of each."""
    total: dict[Cell, int] = {}
    for task in tasks:
        total[task.cell] = total.get(task.cell, 0) + task.volume
    cells = sorted(total)
    return cells, np.array([total[cell] for cell in cells], np.int64)


def kind_shares(slots: Slots, fresh: Slots, kinds: int) -> Floats:
    """Return the share of each kind among stored and new elements; equal shares if there are none."""
    counts = np.zeros(kinds)
    for slot in (*slots.values(), *fresh.values()):
        for kind, rows in slot.rows_by_kind.items():
            counts[kind] += len(rows)
    total = counts.sum()
    return counts / total if total else np.full(kinds, 1.0 / kinds)


def _slot_pairs(new: tuple[Slots, Slots], old: tuple[Slots, Slots], own: Slots) -> Iterator[SlotPair]:
    """Yield new elements with stored ones, and new ones with new ones. Of two new slots, the later one probes."""
    for stream in (0, 1):
        there = _SlotsInTime(old[1 - stream])
        for number, probing in new[stream].items():
            for other, stored in there.overlapping_slots(probing):
                yield SlotPair(stream, number, probing, other, stored, fresh=False)
    there = _SlotsInTime(own)
    for number, left in new[0].items():
        for other, right in there.overlapping_slots(left):
            if number >= other:
                yield SlotPair(0, number, left, other, right, fresh=True)
            else:
                yield SlotPair(1, other, right, number, left, fresh=True)


class _SlotsInTime:
    """Slots in time order, to find those that others may meet."""

    def __init__(self, slots: Slots) -> None:
        self.slots = sorted(slots.items(), key=lambda each: each[1].extent)
        self.first = [slot.extent[0] for _, slot in self.slots]
        self.until = list(accumulate((slot.extent[3] for _, slot in self.slots), max))

    def overlapping_slots(self, probing: Slot) -> list[tuple[int, Slot]]:
        """Return numbered slots with all elements that may be valid together with `probing`, and few others."""
        low = bisect_right(self.until, probing.extent[0])
        return self.slots[low : bisect_left(self.first, probing.extent[3])]


def _overlapping(probing: Slot, rows: Ints, stored: Slot) -> tuple[Ints, int]:
    """Return the rows, and the number of pairs that may be valid together.

    Usually these are all or none, as the extents show.
    """
    first, last, first_end, last_end = probing.extent
    other_first, other_last, other_first_end, other_last_end = stored.extent
    if other_first >= last_end or other_last_end <= first:
        return rows, 0
    if other_last < first_end and other_first_end > last:
        return rows, len(rows) * len(stored)
    return rows, count_pairs(probing.times, rows, stored.times)


def _with_partners(probing: Slot, rows: Ints, stored: Slot) -> tuple[Ints, int]:
    """Return the rows with partners of the same key, and the number of pairs that may be valid together."""
    counts = count_partners(probing, rows, stored)
    return rows[counts > 0], int(counts.sum())

"""The comparisons that a batch calls for, in cells: which elements of which slot with which other slot."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Floats, Ints
from tidegate.physical.similarity_join.kernels.pairs import volume
from tidegate.physical.similarity_join.kernels.slots import Slot

Slots = Mapping[int, Slot]
"""Slots by number."""


class Cell(NamedTuple):
    """Comparisons that are equally productive, as far as is known."""

    lag: int
    stream: int
    """That of the probing elements: 0 is the left one."""
    kind: int


class Task(NamedTuple):
    """Some new elements of one slot, all of one kind, against a slot of the other stream."""

    cell: Cell
    probing: Slot
    rows: Ints
    stored: Slot
    volume: int
    name: tuple[int, ...]
    """By which the task is told from others of the batch."""

    @property
    def fresh(self) -> bool:
        """Whether the stored ones are new, too."""
        return bool(self.name[-1])


class Meeting(NamedTuple):
    """New elements of a slot and a slot of the other stream."""

    stream: int
    number: int
    probing: Slot
    other: int
    stored: Slot
    fresh: bool
    """Whether the stored ones are new, too."""


def tasks_of(new: tuple[Slots, Slots], old: tuple[Slots, Slots], own: Slots, reach: int) -> list[Task]:
    """All that a batch calls for; every pair is in one task.

    `own` are those new elements of the right stream that new ones of the left stream are compared with here.
    """
    tasks = []
    for meeting in _meetings(new, old, own):
        stream, number, probing, other, stored, fresh = meeting
        lag = number - other if stream == 0 else other - number
        for kind, rows in probing.of_kind.items():
            pairs = _volume(probing, rows, stored)
            if pairs:
                cell = Cell(max(-reach, min(reach, lag)), stream, kind)
                tasks.append(Task(cell, probing, rows, stored, pairs, (stream, number, other, kind, int(fresh))))
    return tasks


def volumes(tasks: list[Task]) -> tuple[list[Cell], Ints]:
    """The cells, in a fixed order, and how many comparisons each has."""
    total: dict[Cell, int] = {}
    for task in tasks:
        total[task.cell] = total.get(task.cell, 0) + task.volume
    cells = sorted(total)
    return cells, np.array([total[cell] for cell in cells], np.int64)


def frequencies(slots: Slots, fresh: Slots, kinds: int) -> Floats:
    """The share of each kind among stored and new elements; all equal if there are none."""
    counts = np.zeros(kinds)
    for slot in (*slots.values(), *fresh.values()):
        for kind, rows in slot.of_kind.items():
            counts[kind] += len(rows)
    total = counts.sum()
    return counts / total if total else np.full(kinds, 1.0 / kinds)


def _meetings(new: tuple[Slots, Slots], old: tuple[Slots, Slots], own: Slots) -> Iterator[Meeting]:
    """New elements with those that were there, and new ones with new ones, of which the later slot probes."""
    for stream in (0, 1):
        there = _InTime(old[1 - stream])
        for number, probing in new[stream].items():
            for other, stored in there.reached(probing):
                yield Meeting(stream, number, probing, other, stored, fresh=False)
    there = _InTime(own)
    for number, left in new[0].items():
        for other, right in there.reached(left):
            if number >= other:
                yield Meeting(0, number, left, other, right, fresh=True)
            else:
                yield Meeting(1, other, right, number, left, fresh=True)


class _InTime:
    """Slots in the order of time, to find those that others may meet."""

    def __init__(self, slots: Slots) -> None:
        self.slots = sorted(slots.items(), key=lambda each: each[1].extent)
        self.first = [slot.extent[0] for _, slot in self.slots]
        self.until = list(accumulate((slot.extent[3] for _, slot in self.slots), max))

    def reached(self, probing: Slot) -> list[tuple[int, Slot]]:
        """With their numbers, all of which an element may be valid together with one of these, and few others."""
        low = bisect_right(self.until, probing.extent[0])
        return self.slots[low : bisect_left(self.first, probing.extent[3])]


def _volume(probing: Slot, rows: Ints, stored: Slot) -> int:
    """How many pairs may be valid together; mostly all or none, which the slots' extents tell."""
    first, last, first_end, last_end = probing.extent
    other_first, other_last, other_first_end, other_last_end = stored.extent
    if other_first >= last_end or other_last_end <= first:
        return 0
    if other_last < first_end and other_first_end > last:
        return len(rows) * len(stored)
    return volume(probing.times, rows, stored.times)

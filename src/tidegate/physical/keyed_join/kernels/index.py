"""Index of elements by key: open addressing, changed in place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.physical.common.arrays import Ints, Positions, Words
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.keyed_join.kernels.model import GONE, REPEATED, Components

_SLOTS = 16
"""Slots per word of marks: at least eight bits per key."""


@dataclass(slots=True, eq=False)
class KeyIndex:
    """Slots with a key and a position each; their number is a power of two, and at least twice that of the keys.

    A key sets two bits in one word of `marks`. They rule out most absent keys. Marks are small enough for the CPU
    cache, so slots need not be read.
    """

    slots: Ints
    marks: Words
    used: int

    @classmethod
    def with_room_for(cls, keys: int) -> KeyIndex:
        size = 16
        while size < 2 * keys + 2:
            size *= 2
        slots = np.empty((size, 2), np.int64)
        slots[:, 1] = -1
        return cls(slots, np.zeros(size // _SLOTS, np.uint64), 0)

    def has_room(self, more: int) -> bool:
        return 2 * (self.used + more) <= len(self.slots)

    def insert(self, keys: Ints, first: int, after: int, component: Components, number: Ints) -> int:
        """Insert the elements of [first, after); return how many are repeated.

        If two live elements have one key, the earlier one stays.
        """
        used, repeated = _insert(self.slots, self.marks, keys, first, after, component, number)
        self.used += used
        return int(repeated)

    def find(self, wanted: Ints, at: Positions, component: Components, found: Positions) -> None:
        """Write at each position where the wanted key is, or -1. Elements that are gone are not found."""
        _find_all(self.slots, wanted, at, component, found)

    def find_from(self, wanted: Ints, first: int, after: int, component: Components, found: Positions) -> None:
        """Write for each row of [first, after) where the wanted key is, or -1."""
        _find_from(self.slots, self.marks, wanted, first, after, component, found)


@inlined
def _mix_key(key: int) -> np.uint64:
    bits = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return bits ^ (bits >> np.uint64(29))


@inlined
def home_slot(key: int, size: int) -> np.int64:
    """Return the slot at which the search for a key starts."""
    return np.int64(_mix_key(key) >> np.uint64(16)) & (size - 1)


@inlined
def _mark_bits(key: int) -> np.uint64:
    """Return the two bits of a key in its word of marks."""
    bits = _mix_key(key)
    return (np.uint64(1) << (bits >> np.uint64(58))) | (np.uint64(1) << ((bits >> np.uint64(52)) & np.uint64(63)))


@inlined
def slot_of(slots: Ints, key: int) -> np.int64:
    """Return the slot of a key, or the free slot where it would be."""
    size = len(slots)
    slot = home_slot(key, size)
    while slots[slot, 1] >= 0 and slots[slot, 0] != key:
        slot = (slot + 1) & (size - 1)
    return slot


@compiled
def _insert(
    slots: Ints, marks: Words, keys: Ints, first: int, after: int, component: Components, number: Ints
) -> tuple[int, int]:
    """Insert the elements of [first, after); return the number of new keys, and of repeated elements."""
    used, repeated = 0, 0
    for row in range(first, after):
        if component[row] >= GONE:
            continue
        slot = slot_of(slots, keys[row])
        other = slots[slot, 1]
        if other < 0:
            used += 1
        elif component[other] < GONE:
            repeated += 1
            if other < first or number[other] <= number[row]:
                component[row] = REPEATED
                continue
            component[other] = REPEATED
        slots[slot, 0], slots[slot, 1] = keys[row], row
        marks[home_slot(keys[row], len(marks))] |= _mark_bits(keys[row])
    return used, repeated


@compiled
def _find_all(slots: Ints, wanted: Ints, at: Positions, component: Components, found: Positions) -> None:
    for i in range(len(at)):
        row = at[i]
        if found[row] >= 0:
            continue
        position = slots[slot_of(slots, wanted[row]), 1]
        found[row] = position if position >= 0 and component[position] < GONE else -1


@compiled
def _find_from(
    slots: Ints, marks: Words, wanted: Ints, first: int, after: int, component: Components, found: Positions
) -> None:
    """Check the marks, then one slot each, and search only where needed. Separate loops let memory accesses overlap."""
    some = np.empty(after - first, np.int32)
    count = 0
    for row in range(first, after):
        mark = _mark_bits(wanted[row])
        found[row] = -1
        some[count] = row
        count += (marks[home_slot(wanted[row], len(marks))] & mark) == mark
    for row in some[:count]:
        slot = home_slot(wanted[row], len(slots))
        is_there = (slots[slot, 0] == wanted[row]) | (slots[slot, 1] < 0)
        found[row] = slots[slot, 1] if is_there else -2
    for row in some[:count]:
        if found[row] == -2:
            found[row] = slots[slot_of(slots, wanted[row]), 1]
    for row in some[:count]:
        if component[max(found[row], 0)] >= GONE:
            found[row] = -1


@compiled
def chain_starts(head: Positions, wanted: Ints, at: Positions) -> Positions:
    """Return where the chains of the keys of some elements start."""
    firsts = np.empty(len(at), np.int32)
    for i in range(len(at)):
        firsts[i] = head[home_slot(wanted[at[i]], len(head))]
    return firsts


@compiled
def repeated_rows(component: Components, rows: Ints, fresh: int, count: int) -> Ints:
    """Return the rows of new elements that have the key of another one."""
    found = 0
    for row in range(fresh, count):
        found += component[row] == REPEATED
    repeated = np.empty(found, np.int64)
    for row in range(fresh, count if found else fresh):
        if component[row] == REPEATED:
            found -= 1
            repeated[len(repeated) - 1 - found] = rows[row]
    return repeated

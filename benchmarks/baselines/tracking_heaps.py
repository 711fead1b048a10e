"""Min-heaps, one for each node, whose entries know their place: any of them can be changed or taken out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.baselines.tracking_cuts import Cells
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined

NEVER = 2**62
"""The least key of a heap that is empty."""

TOTAL, DUE = 0, 1
"""Columns of the nodes: the weight that has been counted, and the least key of the heap."""


class Heaps(NamedTuple):
    """The heap of node v lies in the slots from `at[v]` on and has `size[v]` of them.

    Keys lie in the slots, so that sinking reads neighbours only.
    """

    nodes: Ints
    at: Ints
    size: Cells
    key: Ints
    entry: Cells
    slot: Cells
    """The slot of each entry."""
    node: Cells
    """The node of each entry."""


def heaps_of(node: Cells, key: Ints, count: int) -> Heaps:
    """Heaps of so many nodes, with entries given by node and key."""
    size = np.bincount(node, minlength=count)
    entry, slot = np.empty((2, len(node)), np.int32)
    found = Heaps(
        nodes=np.zeros((count, 2), np.int64),
        at=np.cumsum(size) - size,
        size=size.astype(np.int32),
        key=np.empty(len(node), np.int64),
        entry=entry,
        slot=slot,
        node=node,
    )
    _fill(found, key)
    return found


def copied(heaps: Heaps) -> Heaps:
    """Heaps that can be changed while these stay as they are."""
    changing = heaps._replace(nodes=heaps.nodes.copy(), size=heaps.size.copy(), key=heaps.key.copy())
    return changing._replace(entry=heaps.entry.copy(), slot=heaps.slot.copy())


@compiled
def _fill(heaps: Heaps, key: Ints) -> None:
    filled = heaps.at.copy()
    for entry in range(len(key)):
        node = heaps.node[entry]
        _put(heaps, filled[node], entry, key[entry])
        filled[node] += 1
    for node in range(len(heaps.at)):
        for i in range(heaps.size[node] // 2 - 1, -1, -1):
            _sink(heaps, heaps.at[node], heaps.size[node], i)
        note_least(heaps, node)


@inlined
def note_least(heaps: Heaps, node: int) -> None:
    heaps.nodes[node, DUE] = heaps.key[heaps.at[node]] if heaps.size[node] else NEVER


@inlined
def _put(heaps: Heaps, slot: int, entry: int, key: int) -> None:
    heaps.key[slot] = key
    heaps.entry[slot] = entry
    heaps.slot[entry] = slot


@inlined
def _sink(heaps: Heaps, at: int, size: int, i: int) -> None:
    """Move what is at position i of a heap down to where nothing below is less."""
    key, entry = heaps.key[at + i], heaps.entry[at + i]
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and heaps.key[at + child + 1] < heaps.key[at + child]:
            child += 1
        if heaps.key[at + child] >= key:
            break
        _put(heaps, at + i, heaps.entry[at + child], heaps.key[at + child])
        i = child
    _put(heaps, at + i, entry, key)


@inlined
def _rise(heaps: Heaps, at: int, i: int) -> int:
    """Move what is at position i of a heap up to where nothing above is greater."""
    key, entry = heaps.key[at + i], heaps.entry[at + i]
    while i > 0:
        parent = (i - 1) >> 1
        if heaps.key[at + parent] <= key:
            break
        _put(heaps, at + i, heaps.entry[at + parent], heaps.key[at + parent])
        i = parent
    _put(heaps, at + i, entry, key)
    return i


@inlined
def change_key(heaps: Heaps, entry: int, key: int) -> None:
    """Give an entry another key."""
    node = heaps.node[entry]
    at, slot = heaps.at[node], heaps.slot[entry]
    heaps.key[slot] = key
    _sink(heaps, at, heaps.size[node], _rise(heaps, at, slot - at))
    note_least(heaps, node)


@inlined
def take_out(heaps: Heaps, entry: int) -> None:
    """Remove an entry from its heap."""
    node = heaps.node[entry]
    at, slot = heaps.at[node], heaps.slot[entry]
    heaps.size[node] -= 1
    last = at + heaps.size[node]
    if slot != last:
        _put(heaps, slot, heaps.entry[last], heaps.key[last])
        _sink(heaps, at, heaps.size[node], _rise(heaps, at, slot - at))
    note_least(heaps, node)

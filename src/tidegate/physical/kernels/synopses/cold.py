"""What left because of a constraint alone: slices that are not searched unless a filter of their keys says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate.physical.kernels.compiled import compiled, inlined
from tidegate.physical.kernels.synopses.index import slot_of
from tidegate.physical.kernels.synopses.model import Columns, Ints, Mask

SLICE = 4096
"""So many elements make a slice; fewer wait without a filter."""

_WORDS = 8
"""A block of a filter has so many words of 32 bits, and a key sets one bit in each."""

_SALTS = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)

Filter = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Cold elements, a filter for each key, when all are expired, and which have been brought back.

    The columns may be loaded when they are asked for, which is not done without need.
    """

    number: int
    columns: Columns
    filters: Mapping[str, Filter]
    last_end: int
    returned: Mask


@dataclass(slots=True, eq=False)
class Cold:
    """The cold elements of a stream in slices, in the order in which they left; those of no slice yet are `loose`."""

    slices: list[Slice] = field(default_factory=list)
    loose: list[Columns] = field(default_factory=list)
    sealed: int = 0

    def __len__(self) -> int:
        return sum(int(np.count_nonzero(~s.returned)) for s in self.slices) + self._loose

    @property
    def _loose(self) -> int:
        return sum(len(columns["row"]) for columns in self.loose)

    def put(self, columns: Columns) -> None:
        """Take elements over."""
        self.loose = [*self.loose, columns]
        if self._loose >= SLICE:
            self.slices = [*self.slices, _sliced(self.all_loose(), self.sealed)]
            self.loose, self.sealed = [], self.sealed + 1

    def all_loose(self) -> Columns:
        if len(self.loose) > 1:
            self.loose = [{n: np.concatenate([c[n] for c in self.loose]) for n in self.loose[0]}]
        return self.loose[0]

    def expire(self, horizon: int) -> None:
        """Drop slices of which no element is valid any more."""
        self.slices = [s for s in self.slices if s.last_end > horizon and not s.returned.all()]
        if self.loose and int(self.all_loose()["end"].max()) <= horizon:
            self.loose = []

    def take(self, name: str, keys: Ints) -> list[Columns]:
        """Take out the elements that have one of the keys in a column."""
        if not len(keys) or not (self.slices or self.loose):
            return []
        found: list[Columns] = []
        wanted = _key_set(keys)
        for i, each in enumerate(self.slices):
            if not _may_contain(each.filters[name], keys):
                continue
            hit = _contained(wanted, each.columns[name]) & ~each.returned
            if hit.any():
                found.append({n: column[hit] for n, column in each.columns.items()})
                again = replace(each, returned=each.returned | hit)
                self.slices = [*self.slices[:i], again, *self.slices[i + 1 :]]
        if self.loose:
            columns = self.all_loose()
            hit = _contained(wanted, columns[name])
            if hit.any():
                found.append({n: column[hit] for n, column in columns.items()})
                self.loose = [] if hit.all() else [{n: column[~hit] for n, column in columns.items()}]
        return found

    def rows(self) -> Ints:
        """The rows of all of them."""
        parts = [s.columns["row"][~s.returned] for s in self.slices] + [c["row"] for c in self.loose]
        return np.concatenate([np.empty(0, np.int64), *parts])


def _sliced(columns: Columns, number: int) -> Slice:
    """A slice with filters."""
    filters = {name: _filter(column) for name, column in columns.items() if name.startswith("key")}
    returned = np.zeros(len(columns["row"]), np.bool_)
    return Slice(number, columns, filters, int(columns["end"].max()), returned)


@inlined
def _bits(key: Any) -> Any:
    bits = np.uint64(key) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@compiled
def _filter(keys: Any) -> Any:
    """A blocked Bloom filter of 16 bits for each key."""
    blocks = max(len(keys) * 2 // _WORDS // 2, 1)
    words = np.zeros(blocks * _WORDS, np.uint32)
    for key in keys:
        bits = _bits(key)
        block = np.int64(((bits >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32)) * _WORDS
        for i in range(_WORDS):
            words[block + i] |= np.uint32(1) << _place(bits, i)
    return words


@inlined
def _place(bits: Any, i: Any) -> Any:
    return np.uint32(np.uint32((bits & np.uint64(0xFFFFFFFF)) * np.uint64(_SALTS[i])) >> np.uint32(27))


@compiled
def _may_contain(words: Any, keys: Any) -> Any:
    """Whether any of the keys may be in a filter."""
    blocks = len(words) // _WORDS
    for key in keys:
        bits = _bits(key)
        block = np.int64(((bits >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32)) * _WORDS
        missing = np.uint32(0)
        for i in range(_WORDS):
            missing |= ~words[block + i] & (np.uint32(1) << _place(bits, i))
        if missing == 0:
            return True
    return False


@compiled
def _key_set(keys: Any) -> Any:
    size = 16
    while size < 2 * len(keys):
        size *= 2
    slots = np.empty((size, 2), np.int64)
    slots[:, 1] = -1
    for key in keys:
        slot = slot_of(slots, key)
        slots[slot, 0], slots[slot, 1] = key, 0
    return slots


@compiled
def _contained(slots: Any, column: Any) -> Any:
    found = np.empty(len(column), np.bool_)
    for row in range(len(column)):
        found[row] = slots[slot_of(slots, column[row]), 1] >= 0
    return found

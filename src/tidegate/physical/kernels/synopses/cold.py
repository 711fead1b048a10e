"""What left because of a constraint alone: slices that are not searched unless a filter of their keys says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate.physical.kernels.compiled import compiled, inlined
from tidegate.physical.kernels.hashing import read_only
from tidegate.physical.kernels.synopses.bounds import LEAST
from tidegate.physical.kernels.synopses.index import slot_of
from tidegate.physical.kernels.synopses.model import COLD, COLD_YES, GONE, REPEATED, UNKNOWN, YES, Columns, Ints, Mask
from tidegate.physical.kernels.synopses.table import Table

SLICE = 8192
"""So many elements make a slice with filters; what has less waits for others, and is searched as it is."""

_FEWEST, _PART = 1024, 16
"""Where there are few slices yet, fewer elements make one: so many, or one of so many parts of what slices have."""

_MOST_LOOSE = 8
"""So many loose slices there may be."""

_WORDS = 8
"""A block of a filter has so many words of 32 bits, and a key sets one bit in each."""

_SALTS = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)

Filter = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Cold elements in the order of their rows, when all are expired, and where those are that came back.

    With a filter for each key, the columns are not looked at without need. `first` and `last` are rows.
    """

    number: int
    columns: Columns
    filters: Mapping[str, Filter]
    count: int
    first: int
    last: int
    last_end: int
    returned: Ints

    @property
    def is_loose(self) -> bool:
        return not self.filters

    @property
    def alive(self) -> int:
        return self.count - len(self.returned)

    def still(self) -> Mask:
        """Which elements have not come back."""
        mask = np.ones(self.count, np.bool_)
        mask[self.returned] = False
        return mask


@dataclass(slots=True, eq=False)
class Summary:
    """A filter of all keys that slices have or had, by column; it can be made anew from the slices."""

    words: dict[str, Filter]
    room: int
    """With so many keys it has as many bits for each as the filter of a slice; before, it has more."""
    held: int = 0

    @classmethod
    def of(cls, slices: Sequence[Slice]) -> Summary:
        count = sum(each.count for each in slices)
        summary = cls({name: _no_keys(4 * count) for name in slices[0].filters}, 4 * count)
        for each in slices:
            summary.add(each)
        return summary

    def add(self, more: Slice) -> None:
        self.held += more.count
        for name, words in self.words.items():
            _add(words, read_only(more.columns[name]))


@dataclass(slots=True, eq=False)
class Cold:
    """The cold elements of a stream in slices, in the order in which they left; the last ones may be loose."""

    slices: list[Slice] = field(default_factory=list)
    numbered: int = 0
    """So many slices there have been."""
    horizon: int = LEAST
    """What ends until then does not count any more."""
    summary: Summary | None = None
    """So that of most keys one look says that none of the slices has them; it is not part of the state."""

    def __len__(self) -> int:
        return sum(each.alive for each in self.slices)

    def put(self, columns: Columns) -> None:
        """Take elements over; with loose ones they become one slice if these are enough, or in too many pieces."""
        loose = [each for each in self.slices if each.is_loose]
        parts = [columns]
        if len(columns["row"]) + sum(each.alive for each in loose) >= self._enough() or len(loose) >= _MOST_LOOSE:
            for each in loose:
                still = each.still() & (each.columns["end"] > self.horizon)
                parts.append({n: each.columns[n][still] for n in columns})
            self.slices = [each for each in self.slices if not each.is_loose]
        if len(parts) > 1:
            columns = {n: np.concatenate([part[n] for part in parts]) for n in columns}
        row = columns["row"]
        if (row[1:] < row[:-1]).any():
            order = np.argsort(row, kind="stable")
            columns = {n: column[order] for n, column in columns.items()}
        self._add(columns)

    def _enough(self) -> int:
        """So many elements make a slice: no more slices are searched than with large ones, but for some dozens."""
        full = sum(each.count for each in self.slices if not each.is_loose)
        return min(SLICE, max(_FEWEST, full // _PART))

    def _add(self, columns: Columns) -> None:
        row, keys = columns["row"], [name for name in columns if name.startswith("key")]
        filters = {name: _filter(read_only(columns[name])) for name in keys} if len(row) >= self._enough() else {}
        ends = (int(row[0]), int(row[-1]), int(columns["end"].max()))
        new = Slice(self.numbered, columns, filters, len(row), *ends, np.empty(0, np.int64))
        self.slices, self.numbered = [*self.slices, new], self.numbered + 1
        if not new.is_loose:
            self._summarise(new)

    def _summarise(self, new: Slice) -> None:
        if self.summary is not None and self.summary.held + new.count <= self.summary.room:
            self.summary.add(new)
            return
        full = [each for each in self.slices if not each.is_loose]
        self.summary = Summary.of(full) if len(full) > 1 else None

    def expire(self, horizon: int) -> None:
        """Drop slices of which no element is valid any more."""
        self.horizon = horizon
        if any(s.last_end <= horizon or not s.alive for s in self.slices):
            self.slices = [s for s in self.slices if s.last_end > horizon and s.alive]

    def take(self, name: str, keys: Ints) -> list[Columns]:
        """Take out the elements that have one of the keys in a column."""
        found: list[Columns] = []
        for i, each, hit in self._hits(name, keys):
            found.append({n: column[hit] for n, column in each.columns.items()})
            again = replace(each, returned=np.concatenate([each.returned, hit]))
            self.slices = [*self.slices[:i], again, *self.slices[i + 1 :]]
        return found

    def find(self, name: str, keys: Ints) -> tuple[Ints, Ints]:
        """Of elements that are still valid and have one of the keys in a column: the keys, and the rows."""
        found = [np.empty((2, 0), np.int64)]
        for _, each, hit in self._hits(name, keys):
            valid = hit[each.columns["end"][hit] > self.horizon]
            found.append(np.stack([each.columns[name][valid], each.columns["row"][valid]]))
        known, rows = np.concatenate(found, axis=1)
        return known, rows

    def _hits(self, name: str, keys: Ints) -> Iterator[tuple[int, Slice, Ints]]:
        """Slices by place, and where in them elements are that have one of the keys in a column."""
        few = keys
        if self.summary is not None:
            few = _maybe(read_only(self.summary.words[name]), keys)
        all_keys = _key_set(keys) if any(each.is_loose for each in self.slices) else None
        for i, each in enumerate(self.slices):
            some = keys if each.is_loose else few
            if len(some) and not each.is_loose:
                some = _maybe(read_only(each.filters[name]), some)
            if not len(some):
                continue
            wanted = all_keys if each.is_loose else _key_set(some)
            hit = _contained(wanted, read_only(each.columns[name]), read_only(each.returned))
            if len(hit):
                yield i, each, hit

    def rows(self) -> Ints:
        """The rows of all of them."""
        return np.concatenate([np.empty(0, np.int64), *(s.columns["row"][s.still()] for s in self.slices)])


def chill(table: Table, cold: Cold) -> Ints:
    """Move cold elements out of a table; their rows."""
    component = table["component"]
    rows = np.flatnonzero((component == COLD) | (component == COLD_YES))
    if len(rows):
        columns = {n: table[n][rows] for n in table.stored}
        columns["component"] = np.where(component[rows] == COLD_YES, YES, UNKNOWN).astype(np.uint8)
        cold.put(columns)
        component[rows] = GONE
    return columns["row"] if len(rows) else np.empty(0, np.int64)


def mark_repeated(table: Table, cold: Cold) -> None:
    """Mark new elements of a table that have the key of a cold one: that is remembered, too."""
    for edge in table.indexes if cold.slices else ():
        keys, component = (table[name][table.fresh :] for name in (f"key{edge}", "component"))
        known, _ = cold.find(f"key{edge}", keys)
        if len(known):
            component[np.isin(keys, known)] = REPEATED
            table.repeats = True


@inlined
def _bits(key: Any) -> Any:
    bits = np.uint64(key) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@compiled
def _no_keys(keys: Any) -> Any:
    """A blocked Bloom filter with 16 bits for each of so many keys, without any."""
    return np.zeros(max(keys // (2 * _WORDS), 1) * _WORDS, np.uint32)


@compiled
def _add(words: Any, keys: Any) -> None:
    blocks = len(words) // _WORDS
    for key in keys:
        bits = _bits(key)
        block = np.int64(((bits >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32)) * _WORDS
        for i in range(_WORDS):
            words[block + i] |= np.uint32(1) << _place(bits, i)


def _filter(keys: Ints) -> Filter:
    words: Filter = _no_keys(len(keys))
    _add(words, keys)
    return words


@inlined
def _place(bits: Any, i: Any) -> Any:
    return np.uint32(np.uint32((bits & np.uint64(0xFFFFFFFF)) * np.uint64(_SALTS[i])) >> np.uint32(27))


@compiled
def _maybe(words: Any, keys: Any) -> Any:
    """Those of the keys that may be in a filter."""
    blocks = len(words) // _WORDS
    some = np.empty(len(keys), np.int64)
    count = 0
    for key in keys:
        bits = _bits(key)
        block = np.int64(((bits >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32)) * _WORDS
        missing = np.uint32(0)
        for i in range(_WORDS):
            missing |= ~words[block + i] & (np.uint32(1) << _place(bits, i))
            if missing:
                break
        some[count] = key
        count += missing == 0
    return some[:count].copy()


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
def _contained(slots: Any, column: Any, returned: Any) -> Any:
    """Where the keys are that are in the slots, without those that came back before."""
    found, is_back = np.empty(len(column), np.int64), np.zeros(len(column), np.bool_)
    is_back[returned] = True
    count = 0
    for row in range(len(column)):
        found[count] = row
        count += slots[slot_of(slots, column[row]), 1] >= 0 and not is_back[row]
    return found[:count].copy()

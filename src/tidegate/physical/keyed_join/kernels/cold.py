"""Cold elements, which left because of a constraint alone, in slices that are searched only if a key filter matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.hashing import read_only
from tidegate.physical.keyed_join.kernels.bounds import LEAST
from tidegate.physical.keyed_join.kernels.filters import KeyFilter, empty_filter, possible_keys, with_keys
from tidegate.physical.keyed_join.kernels.index import slot_of
from tidegate.physical.keyed_join.kernels.model import COLD, COLD_YES, GONE, REPEATED, UNKNOWN, YES
from tidegate.physical.keyed_join.kernels.table import Table

FULL_SLICE = 8192
"""Elements of a slice with filters. Fewer elements stay loose: they wait for others, and are searched directly."""

_LEAST_SLICE, _SLICE_SHARE = 1024, 16
"""Least elements of a slice, and the share of all elements in slices that make one, while there are few slices."""

_MOST_LOOSE = 8
"""Most loose slices."""

_SLICE_BITS, _DIGEST_BITS = 32, 6
"""Bits per key in the filter of a slice, which is as cold as the slice, and in a digest, which stays in memory."""

_MOST_DIGEST_KEYS = 1 << 17
"""Most keys of a digest, unless one slice has more. It limits the keys of dropped slices that a digest still holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Cold elements in row order, the last of their ends, and the positions of those that returned.

    With filters by key, the columns are read only if needed. The filters are read only if a digest matches. `first` and
    `last` are rows.
    """

    number: int
    columns: Columns
    filters: Mapping[str, KeyFilter]
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

    def is_still_cold(self) -> Mask:
        """Return which elements have not returned."""
        mask = np.ones(self.count, np.bool_)
        mask[self.returned] = False
        return mask


@dataclass(frozen=True, slots=True, eq=False)
class Digest:
    """Filter of the keys of some slices, by column. It rules out most keys for all these slices.

    `first` and `last` are the numbers of the slices. `held` of `room` keys have been added.
    """

    first: int
    last: int
    room: int
    held: int
    words: Mapping[str, KeyFilter]

    @classmethod
    def of(cls, each: Slice, room: int) -> Digest:
        """Return a digest of one slice, with room for more."""
        nothing = {name: empty_filter(room, _DIGEST_BITS) for name in each.filters}
        return cls(each.number, each.number, room, 0, nothing).with_slice(each)

    def with_slice(self, each: Slice) -> Digest:
        words = {name: with_keys(known, read_only(each.columns[name])) for name, known in self.words.items()}
        return replace(self, last=each.number, held=self.held + each.count, words=words)


@dataclass(slots=True, eq=False)
class ColdElements:
    """Cold elements of a stream in slices, in the order in which they left. The last slices may be loose."""

    slices: list[Slice] = field(default_factory=list)
    slices_made: int = 0
    """Number of slices made so far."""
    horizon: int = LEAST
    """Elements that end at or before this have expired."""
    digests: list[Digest] = field(default_factory=list)
    """Digests of all slices that are not loose, in their order."""

    def __len__(self) -> int:
        return sum(each.alive for each in self.slices)

    def add_elements(self, columns: Columns) -> None:
        """Add elements, merged with the loose slices if together they fill one, or if there are too many."""
        loose = [each for each in self.slices if each.is_loose]
        parts = [columns]
        if len(columns["row"]) + sum(each.alive for each in loose) >= self._slice_size() or len(loose) >= _MOST_LOOSE:
            for each in loose:
                still = each.is_still_cold() & (each.columns["end"] > self.horizon)
                parts.append({n: each.columns[n][still] for n in columns})
            self.slices = [each for each in self.slices if not each.is_loose]
        if len(parts) > 1:
            columns = {n: np.concatenate([part[n] for part in parts]) for n in columns}
        row = columns["row"]
        if (row[1:] < row[:-1]).any():
            order = np.argsort(row, kind="stable")
            columns = {n: column[order] for n, column in columns.items()}
        self._add_slice(columns)

    def _slice_size(self) -> int:
        """Return the number of elements that make a slice. Small slices add only some dozens to those searched."""
        full = sum(each.count for each in self.slices if not each.is_loose)
        return min(FULL_SLICE, max(_LEAST_SLICE, full // _SLICE_SHARE))

    def _add_slice(self, columns: Columns) -> None:
        row, keys = columns["row"], [name for name in columns if name.startswith("key")]
        nothing = empty_filter(len(row), _SLICE_BITS)
        is_loose = len(row) < self._slice_size()
        filters = {} if is_loose else {name: with_keys(nothing, read_only(columns[name])) for name in keys}
        ends = (int(row[0]), int(row[-1]), int(columns["end"].max()))
        new = Slice(self.slices_made, columns, filters, len(row), *ends, np.empty(0, np.int64))
        self.slices, self.slices_made = [*self.slices, new], self.slices_made + 1
        if not is_loose:
            self._add_to_digest(new)

    def _add_to_digest(self, new: Slice) -> None:
        """Add a slice to the last digest, or, if that is full, to a new one as large as all others together."""
        last = self.digests[-1] if self.digests else None
        if last is not None and last.held + new.count <= last.room:
            self.digests = [*self.digests[:-1], last.with_slice(new)]
            return
        known = sum(each.held for each in self.digests)
        self.digests = [*self.digests, Digest.of(new, max(new.count, min(known, _MOST_DIGEST_KEYS)))]

    def expire(self, horizon: int) -> None:
        """Drop slices without a valid element."""
        self.horizon = horizon
        if any(s.last_end <= horizon or not s.alive for s in self.slices):
            self.slices = [s for s in self.slices if s.last_end > horizon and s.alive]
            numbers = [s.number for s in self.slices if not s.is_loose]
            self.digests = [d for d in self.digests if any(d.first <= number <= d.last for number in numbers)]

    def take(self, name: str, keys: Ints) -> list[Columns]:
        """Remove and return the elements that have one of the keys in a column."""
        found: list[Columns] = []
        for i, each, hit in self._matching_slices(name, keys):
            found.append({n: column[hit] for n, column in each.columns.items()})
            again = replace(each, returned=np.concatenate([each.returned, hit]))
            self.slices = [*self.slices[:i], again, *self.slices[i + 1 :]]
        return found

    def find(self, name: str, keys: Ints) -> tuple[Ints, Ints]:
        """Return the keys and rows of valid elements that have one of the keys in a column."""
        found = [np.empty((2, 0), np.int64)]
        for _, each, hit in self._matching_slices(name, keys):
            valid = hit[each.columns["end"][hit] > self.horizon]
            found.append(np.stack([each.columns[name][valid], each.columns["row"][valid]]))
        known, rows = np.concatenate(found, axis=1)
        return known, rows

    def _matching_slices(self, name: str, keys: Ints) -> Iterator[tuple[int, Slice, Ints]]:
        """Yield slices with their position, and where in them elements have one of the keys in a column."""
        all_keys: Ints | None = None
        for i, each, some in self._candidate_slices(name, keys):
            if each.is_loose:
                wanted = all_keys = _key_set(keys) if all_keys is None else all_keys
            else:
                wanted = _key_set(some)
            hit = _positions_of_keys(wanted, read_only(each.columns[name]), read_only(each.returned))
            if len(hit):
                yield i, each, hit

    def _candidate_slices(self, name: str, keys: Ints) -> Iterator[tuple[int, Slice, Ints]]:
        """Yield slices with their position, and the keys that they may have, if any."""
        digests, last, digested = iter(self.digests), -1, keys
        for i, each in enumerate(self.slices):
            if each.is_loose:
                yield i, each, keys
                continue
            while each.number > last:
                digest = next(digests)
                last, digested = digest.last, possible_keys(read_only(digest.words[name]), keys)
            some = possible_keys(read_only(each.filters[name]), digested) if len(digested) else digested
            if len(some):
                yield i, each, some

    def rows(self) -> Ints:
        """Return the rows of all cold elements."""
        return np.concatenate([np.empty(0, np.int64), *(s.columns["row"][s.is_still_cold()] for s in self.slices)])


def move_cold_elements(table: Table, cold: ColdElements) -> Ints:
    """Move cold elements out of a table; return their rows."""
    component = table["component"]
    rows = np.flatnonzero((component == COLD) | (component == COLD_YES))
    if len(rows):
        columns = {n: table[n][rows] for n in table.stored_columns}
        columns["component"] = np.where(component[rows] == COLD_YES, YES, UNKNOWN).astype(np.uint8)
        cold.add_elements(columns)
        component[rows] = GONE
    return columns["row"] if len(rows) else np.empty(0, np.int64)


def mark_repeated(table: Table, cold: ColdElements) -> None:
    """Mark new elements of a table that have the key of a cold element, which still counts for repeated keys."""
    for edge in table.indexes if cold.slices else ():
        keys, component = (table[name][table.fresh :] for name in (f"key{edge}", "component"))
        known, _ = cold.find(f"key{edge}", keys)
        if len(known):
            component[np.isin(keys, known)] = REPEATED
            table.note_repeated(table.fresh)


@compiled
def _key_set(keys: Ints) -> Ints:
    """Return slots that have the keys."""
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
def _positions_of_keys(slots: Ints, column: Ints, returned: Ints) -> Ints:
    """Return the positions of keys that are in the slots, without elements that have returned."""
    found, is_back = np.empty(len(column), np.int64), np.zeros(len(column), np.bool_)
    is_back[returned] = True
    count = 0
    for row in range(len(column)):
        found[count] = row
        count += slots[slot_of(slots, column[row]), 1] >= 0 and not is_back[row]
    return found[:count].copy()

"""Observe how far arrivals deviate from the ideal pattern of a constraint.

Each constraint has an observer that measures *distances* of arrivals (`monitor_joins`, `monitor_clusters`,
`monitor_orders`). `keyed_join.distances` decides from the observations which distance to rely on. All observers
measure on an axis of *places*, integers that are arrival numbers or microseconds:

    kind       in rows: place of an arrival                        in time     distance, in rows | in time
    joins      parent: children so far; child: its own number      its time    place of child - of parent, or 0
    clusters   its own number                                      its time    arrivals of others since the first |
                                                                               time since the first
    orders     its own number                                      its time    place - of the first greater value

Numbers start at 1. The watermark of arrivals in rows is the least place of later arrivals: the next number,
or for parents the number of children so far. Tasks that do not know the numbers use the number of arrivals at
the end of the batch for the whole batch. A distance is then at least what must be kept between batches.

The observations of all batches together depend neither on how batches are cut nor on the order within a batch, as
long as the limits stay the same: arrivals beyond the limits do not count even while they are still stored. Parts of a
stream that are split by key are observed separately, and their observations are added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tidegate.physical.common.arrays import Array, Columns, Ints, Mask, Positions
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.hashing import Hashes, read_only
from tidegate.time import FOREVER

UNLIMITED = FOREVER
"""Limit that no distance exceeds."""

_BINS = 64


class WatchedArrivals(NamedTuple):
    """Arrivals of one stream: hashes of keys that are not NULL, places, and the least place of later arrivals."""

    key: Hashes
    at: Ints
    watermark: int


@dataclass(frozen=True, slots=True, eq=False)
class ObserverState:
    """State of an observer: parts with a column `at`, each a field of the class."""

    def __len__(self) -> int:
        return sum(len(part["at"]) for part in self.to_columns().values())

    def to_columns(self) -> dict[str, Columns]:
        """Return the parts. A part that has not changed is the same object as before."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_columns(cls, parts: Mapping[str, Columns]) -> Self:
        return cls(*(parts[each.name] for each in fields(cls)))


class KeyedPlaces(NamedTuple):
    """Hashes of keys, and a place for each."""

    key: Hashes
    at: Ints


class KeyLimits(NamedTuple):
    """Limits of keys: the upper end of the sample's hashes, the limit of sampled keys, and the limit of others."""

    hash_limit: np.uint64
    sampled: int
    kept: int


class KeyTable(NamedTuple):
    """Hash table of distinct keys. Slots have positions in `keys`, or -1 if they are free."""

    slots: Positions
    keys: Hashes


@dataclass(frozen=True, slots=True)
class Limits:
    """Greatest distance to observe: `kept` for all keys, `sampled` for a share of the keys.

    The hash of a key decides whether it is in the share, so that all parts of a stream choose the same keys.
    """

    kept: int = UNLIMITED
    sampled: int = 0
    share: float = 0.0

    @property
    def hash_limit(self) -> np.uint64:
        """Return the limit of the sample: a key is in it if the upper half of its hash is less."""
        return np.uint64(round(min(max(self.share, 0.0), 1.0) * 2**32))

    @property
    def sampled_limit(self) -> int:
        """Return the limit of sampled keys."""
        return max(self.kept, self.sampled)

    @property
    def of_keys(self) -> KeyLimits:
        """Return the limits as compiled loops take them."""
        return KeyLimits(self.hash_limit, self.sampled_limit, self.kept)


@dataclass(frozen=True, slots=True)
class Observations:
    """Number of distances, including zeros, the greatest, and a histogram of their sizes.

    The bins are 0, 1, 2 to 3, 4 to 7, and so on, up to the last bin that is not empty.
    """

    events: int = 0
    greatest: int = 0
    histogram: tuple[int, ...] = ()

    @classmethod
    def of(cls, distances: Ints) -> Observations:
        """Summarize distances.

        Examples
        --------
        >>> Observations.of(np.array([0, 5, 1]))
        Observations(events=3, greatest=5, histogram=(1, 1, 0, 1))
        """
        if not len(distances):
            return cls()
        counts = np.trim_zeros(_count_by_size(read_only(np.ascontiguousarray(distances, np.int64))), "b")
        return cls(len(distances), int(distances.max()), tuple(counts.tolist()))


def sum_observations(several: Iterable[Observations]) -> Observations:
    """Add up observations of the parts of a batch, or of batches.

    Examples
    --------
    >>> sum_observations([Observations.of(np.array([0, 5])), Observations(), Observations.of(np.array([1]))])
    Observations(events=3, greatest=5, histogram=(1, 1, 0, 1))
    """
    several = list(several)
    counts = (sum(sizes) for sizes in zip_longest(*(each.histogram for each in several), fillvalue=0))
    greatest = max((each.greatest for each in several), default=0)
    return Observations(sum(each.events for each in several), greatest, tuple(counts))


def is_in_sample(key: Hashes, limits: Limits) -> Mask:
    """Return which keys are in the sample."""
    return key >> np.uint64(32) < limits.hash_limit


def limits_of_keys(key: Hashes, limits: Limits) -> Ints:
    """Return the limit of each key."""
    return np.where(is_in_sample(key, limits), limits.sampled_limit, limits.kept)


def keyed_columns(key: npt.ArrayLike, at: npt.ArrayLike) -> dict[str, Array]:
    """Return two read-only columns of a state."""
    return {"key": _read_only_column(key, np.uint64), "at": _read_only_column(at, np.int64)}


def no_rows() -> dict[str, Array]:
    """Return columns without rows."""
    return keyed_columns([], [])


def filter_rows(part: Columns, keep: Mask) -> Columns:
    """Return the rows to keep; the same object if these are all."""
    return part if keep.all() else {name: read_only(column[keep]) for name, column in part.items()}


def _read_only_column(values: npt.ArrayLike, kind: type[np.generic]) -> Array:
    return read_only(np.ascontiguousarray(values, kind))


@compiled
def _count_by_size(distances: Ints) -> Ints:
    """Count distances by their number of binary digits."""
    counts = np.zeros(_BINS, np.int64)
    for distance in distances:
        digits = 0
        while distance:
            distance >>= 1  # noqa: PLW2901 - the digits are shifted out
            digits += 1
        counts[digits] += 1
    return counts


@inlined
def limit_of_key(key: np.uint64, limits: KeyLimits) -> int:
    """Return the limit of a key."""
    return limits.sampled if key >> np.uint64(32) < limits.hash_limit else limits.kept


@inlined
def number_of_key(table: KeyTable, key: np.uint64) -> int:
    """Return the position of a key among the distinct keys, or -1."""
    return table.slots[_slot_of_key(table.slots, table.keys, key)]


@inlined
def _slot_of_key(slots: Positions, keys: Hashes, key: np.uint64) -> np.int64:
    """Return the slot of a key, or the free slot for it."""
    slot = np.int64(key >> np.uint64(32)) & (len(slots) - 1)
    while slots[slot] >= 0 and keys[slots[slot]] != key:
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@compiled
def build_key_table(first: Hashes, second: Hashes) -> KeyTable:
    """Return a hash table of the distinct keys of two columns.

    Most slots stay free, because most lookups find nothing.
    """
    size = 16
    while size < 8 * (len(first) + len(second)):
        size *= 2
    slots, keys, count = np.full(size, -1, np.int32), np.empty(len(first) + len(second), np.uint64), 0
    for column in (first, second):
        for key in column:
            slot = _slot_of_key(slots, keys, key)
            if slots[slot] < 0:
                slots[slot], keys[count] = count, key
                count += 1
    return KeyTable(slots, keys[:count])

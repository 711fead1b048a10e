"""Input of the keyed join kernel, constraints on its order, and output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Bytes, Ints, Mask, Positions

Components = Bytes


UNKNOWN, YES, NO, GONE, COLD, COLD_YES, REPEATED = range(7)
"""Component of an element.

Unknown: children are missing. Yes: complete with all elements below it. No: can never be complete. A gone element waits
to be removed. A cold element leaves because of a constraint alone, and may have to return as what it was. A repeated
element has the key of another one.
"""

NO_POSITIONS: Positions = np.empty(0, np.int32)
"""Empty array of positions."""

NEVER = 2**62
"""Greater than all arrival numbers and all times."""


@dataclass(frozen=True, slots=True, eq=False)
class StreamArrivals:
    """Elements of one stream.

    `keys` has a column for each edge at the stream, by the edge's number: equal codes for equal keys, in key order if
    the order of arrivals is used. An element with a missing key does not pass. `number` counts all arrivals of the
    stream, in all buckets, from 1. `row` identifies the element to the caller.
    """

    keys: Mapping[int, Ints]
    start: Ints
    end: Ints
    number: Ints
    row: Ints
    passes: Mask | None = None

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class Moment:
    """Position of each stream after a batch: the watermark before which no later element starts, and the arrivals.

    `bucket_counters` counts the arrivals in this bucket, if these are not all. Clusters are counted among them, because
    equal keys elsewhere must not count as other keys.

    Elements may be joined later than they arrived, and in another order. Then all elements that arrived up to the
    number `settled` have been joined, and `measurable` counts those of `bucket_counters` for which the order does
    not matter. If `ended` is given for a stream, its elements expire when their own end is at or before it, whatever
    the watermarks.
    """

    watermarks: Sequence[int]
    counters: Sequence[int]
    bucket_counters: Sequence[int] | None = None
    settled: Sequence[int] | None = None
    measurable: Sequence[int] | None = None
    ended: Sequence[int | None] | None = None

    def expired_until(self, horizons: Sequence[int]) -> list[int]:
        """Return for each stream the time up to which ends have expired."""
        own = self.ended or [None] * len(horizons)
        return [horizon if end is None else end for horizon, end in zip(horizons, own, strict=True)]


def horizons_of(watermarks: Sequence[int]) -> list[int]:
    """Return for each stream the least start of later elements in all other streams."""
    if len(watermarks) == 1:
        return list(watermarks)
    least, second = sorted(watermarks)[:2]
    return [second if watermark == least else least for watermark in watermarks]


@dataclass(frozen=True, slots=True)
class Bound:
    """Greatest deviation of arrivals, in rows, in microseconds, or both. If both are given, both hold."""

    rows: int | None = None
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Constraints:
    """Constraints in use, by number of edge.

    arriving: a child arrives within the bound after its parents (referential integrity)
    clustered: parents with equal keys arrive within the bound of each other
    ordered_parents, ordered_children: elements out of the order of this key are within the bound of each other
    keeps_no: streams that remember the keys of elements that can never join, so that their parents leave at once
    """

    arriving: Mapping[int, Bound] = field(default_factory=dict)
    clustered: Mapping[int, Bound] = field(default_factory=dict)
    ordered_parents: Mapping[int, Bound] = field(default_factory=dict)
    ordered_children: Mapping[int, Bound] = field(default_factory=dict)
    keeps_no: frozenset[int] = frozenset()


class Patience(NamedTuple):
    """Limits of the wait for a child.

    The child no longer arrives for a parent that saw at most `rows` elements of its stream, that starts before `time`,
    or whose key is below `low`. It no longer joins a parent that is not valid after `watermark`. That is set only if it
    is after the horizon at which the parent expires anyway.
    """

    rows: int
    time: int
    low: int
    watermark: int


@dataclass(frozen=True, slots=True, eq=False)
class Combinations:
    """Results: for each stream the row of its element, and when all of them are valid."""

    rows: tuple[Ints, ...]
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True, eq=False)
class SynopsisJoinResult:
    """New combinations, and rows of elements for each stream.

    repeated: have a key that another live or cold element has already; a child must be unique, so they are not joined
    cold: have become cold
    returned: were cold until now
    """

    combinations: Combinations
    repeated: tuple[Ints, ...]
    cold: tuple[Ints, ...]
    returned: tuple[Ints, ...]


@dataclass(frozen=True, slots=True)
class Size:
    """Number of kept elements of a stream, by component."""

    yes: int
    unknown: int
    no: int
    cold: int

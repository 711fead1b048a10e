"""What arrives, what is known of its order, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidegate.physical.common.arrays import Ints, Mask

Positions = npt.NDArray[np.int32]
Components = npt.NDArray[np.uint8]


UNKNOWN, YES, NO, GONE, COLD, COLD_YES, REPEATED = range(7)
"""The component that an element belongs to.

Unknown: children are missing. Yes: it is complete with all that is below it. No: it never can be. What is
gone waits for being removed; what is cold leaves because of a constraint alone, and may have to come back
as what it was. A repeated element has the key of another one.
"""

NOBODY: Positions = np.empty(0, np.int32)
"""No positions."""

NEVER = 2**62
"""A number that no stream comes to, and a time after all others."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Elements of one stream.

    `keys` has a column for each edge at the stream, by the edge's number: equal codes for equal keys, and in
    the order of the keys where the order of arrivals is made use of. An element with a missing key does not
    pass. `number` counts the arrivals of the stream, everywhere, from 1. `row` is how the caller finds it.
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
    """After a batch, for each stream: no later element starts before the watermark, and how many have arrived.

    `met` are those of them that came here, if it is not all. Equal keys that did not come must not count as others,
    so clusters are counted among these.

    Elements may be taken in later than they arrived, and in another order. Then all that arrived up to the number
    `settled` have been taken in, and `sure` are so many of those that came that the order does not matter.
    Where a stream has `ended`, its elements go when their own end is not after that, whatever the watermarks.
    """

    watermarks: Sequence[int]
    counters: Sequence[int]
    met: Sequence[int] | None = None
    settled: Sequence[int] | None = None
    sure: Sequence[int] | None = None
    ended: Sequence[int | None] | None = None

    def passed(self, horizons: Sequence[int]) -> list[int]:
        """For each stream, up to where ends are over."""
        own = self.ended or [None] * len(horizons)
        return [horizon if end is None else end for horizon, end in zip(horizons, own, strict=True)]


def horizons_of(watermarks: Sequence[int]) -> list[int]:
    """For each stream: whatever arrives later in any other one does not start before this."""
    if len(watermarks) == 1:
        return list(watermarks)
    least, second = sorted(watermarks)[:2]
    return [second if watermark == least else least for watermark in watermarks]


@dataclass(frozen=True, slots=True)
class Bound:
    """How far arrivals may deviate, in rows, in microseconds, or both: then each of them holds."""

    rows: int | None = None
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Constraints:
    """What holds, by number of edge.

    arriving: a child arrives at most so long after its parents (referential integrity)
    clustered: parents with equal keys arrive at most so far apart
    ordered_parents, ordered_children: elements out of the order of this key are at most so far apart
    keeps_no: streams which remember the keys of elements that can never join, so that parents go at once
    """

    arriving: Mapping[int, Bound] = field(default_factory=dict)
    clustered: Mapping[int, Bound] = field(default_factory=dict)
    ordered_parents: Mapping[int, Bound] = field(default_factory=dict)
    ordered_children: Mapping[int, Bound] = field(default_factory=dict)
    keeps_no: frozenset[int] = frozenset()


class Patience(NamedTuple):
    """How long to wait for a child: it does not come any more to a parent ….

    … that saw at most `rows` elements of its stream, that starts before `time`, whose key is below `low`;
    nor to one that is not valid after `watermark`, if that says more than that it is expired.
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
class Answer:
    """New combinations, and for each stream rows of elements ….

    repeated: whose key another live or cold element has already: a child must be unique, and it is not joined
    cold: that have got cold
    returned: that have been cold until now
    """

    combinations: Combinations
    repeated: tuple[Ints, ...]
    cold: tuple[Ints, ...]
    returned: tuple[Ints, ...]


@dataclass(frozen=True, slots=True)
class Size:
    """How many elements of a stream are kept, by component; the cold ones are not searched."""

    yes: int
    unknown: int
    no: int
    cold: int

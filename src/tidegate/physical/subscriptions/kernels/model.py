"""What is registered, what arrives, what is answered, and what every method of tracking can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from tidegate.physical.common.arrays import Columns, Floats, Ints, Mask

Values = Floats | Ints
"""Doubles, or integers which are places: a value is its own place.

Who gives integers keeps values and ends within [-2**63 + 1, 2**63 - 2], so that there is a place after
each of them; an end that is infinite is the last one there, closed. Elements and ranges of one tracker
are of one kind.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Registered queries: the total weight in a range that is waited for.

    Ids are unique among the live ones. Ends have a column for each dimension and may be infinite; none
    of them is NaN. An open end does not belong to the range.
    """

    id: Ints
    low: Values
    high: Values
    low_open: Mask
    high_open: Mask
    threshold: Ints

    def __len__(self) -> int:
        return len(self.id)

    @property
    def dimensions(self) -> int:
        return self.low.shape[1]

    def taken(self, rows: Ints | Mask | slice) -> Ranges:
        ends = (self.low[rows], self.high[rows], self.low_open[rows], self.high_open[rows])
        return Ranges(self.id[rows], *ends, self.threshold[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """Points with positive weights, in the order in which they count; a point with a NaN is in no range."""

    value: Values
    weight: Ints

    def __len__(self) -> int:
        return len(self.weight)

    def taken(self, rows: Ints | Mask | slice) -> Elements:
        return Elements(self.value[rows], self.weight[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Matured:
    """Queries that are complete, in order of the element that completed them, then of id.

    An element is given by its position in the batch; the total is exact, that element included. Queries
    that repeat may be there several times.
    """

    id: Ints
    element: Ints
    total: Ints

    def __len__(self) -> int:
        return len(self.id)


def in_order(ids: Ints, element: Ints, total: Ints) -> Matured:
    """The same in the order in which they are reported."""
    least, most = (int(ids.min()), int(ids.max())) if len(ids) else (0, 0)
    width = most - least + 1
    if width * (int(element.max(initial=0)) + 1) < 2**63:  # then both are one number
        order = np.argsort(element * width + (ids - least))
    else:
        order = np.lexsort((ids, element))
    return Matured(ids[order], element[order], total[order])


def joined_answers(answers: list[Matured]) -> Matured:
    """All of them in the order in which they are reported."""
    none = np.empty(0, np.int64)
    columns = ([m.id for m in answers], [m.element for m in answers], [m.total for m in answers])
    return in_order(*(np.concatenate([none, *column]) for column in columns))


class RangeTracker(Protocol):
    """Live queries and how far they have come.

    Those that change something answer the tracker to go on with. It may be this one, changed in place, so
    that many small changes cost little: who needs this one again makes a copy before.
    """

    def __len__(self) -> int:
        """How many queries are live."""
        ...

    def copy(self) -> Self:
        """One that can be changed while this one stays as it is; what never changes is shared."""
        ...

    def known(self, ids: Ints) -> Mask:
        """Which of the ids are live."""
        ...

    def register(self, ranges: Ranges) -> Self:
        """Count for these, too, from the next element on."""
        ...

    def resume(self, ranges: Ranges, missing: Ints) -> Self:
        """Register queries that lack no more than this."""
        ...

    def rest(self) -> tuple[Ranges, Ints]:
        """The live queries, with ends as places, and what they lack: what another tracker can resume."""
        ...

    def terminate(self, ids: Ints) -> tuple[Self, Mask]:
        """Forget these; the mask says which were known, of an id that is there twice the first one."""
        ...

    def absorb(self, elements: Elements) -> tuple[Self, Matured]:
        """Count the next elements.

        Queries that are complete are reported once, and forgotten; in a tracker that repeats they start
        anew behind the element that completed them.
        """
        ...

    def absorb_with(self, elements: Elements, ranges: Ranges, position: Ints) -> tuple[Self, Matured]:
        """Count the next elements, and register ranges among them: each before the element at its position.

        Positions are ascending. This is what cutting the batch at all positions would do.
        """
        ...

    def to_columns(self) -> Mapping[str, Columns]:
        """The state in named parts that never change; one that is as it was the last time is the same object."""
        ...

    @classmethod
    def from_columns(cls, parts: Mapping[str, Columns]) -> Self:
        """The tracker that had these parts."""
        ...

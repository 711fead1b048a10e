"""What is registered, what arrives, what is answered, and what every method of tracking can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

Columns = Mapping[str, npt.NDArray[Any]]
"""Arrays by name, all with the same number of rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Registered queries: the total weight in a range that is waited for.

    Ids are unique among the live ones. Ends have a column for each dimension and may be infinite; none
    of them is NaN. An open end does not belong to the range.
    """

    id: Ints
    low: Floats
    high: Floats
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

    value: Floats
    weight: Ints

    def __len__(self) -> int:
        return len(self.weight)

    def taken(self, rows: Ints | Mask | slice) -> Elements:
        return Elements(self.value[rows], self.weight[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Matured:
    """Queries that are complete, in order of the element that completed them, then of id.

    An element is given by its position in the batch; the total is exact, that element included.
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


class RangeTracker(Protocol):
    """Live queries and how far they have come.

    Those that change something answer the tracker to go on with. It may be this one, changed in place, so
    that many small changes cost little: who needs this one again makes a copy before.
    """

    def copy(self) -> Self:
        """One that can be changed while this one stays as it is; what never changes is shared."""
        ...

    def register(self, ranges: Ranges) -> Self:
        """Count for these, too, from the next element on."""
        ...

    def terminate(self, ids: Ints) -> tuple[Self, Mask]:
        """Forget these; the mask says which were known."""
        ...

    def absorb(self, elements: Elements) -> tuple[Self, Matured]:
        """Count the next elements; queries that are complete are reported once, and forgotten."""
        ...

    def to_columns(self) -> Mapping[str, Columns]:
        """The state in named parts; a part that has not changed has the same arrays as before."""
        ...

    @classmethod
    def from_columns(cls, parts: Mapping[str, Columns]) -> Self:
        """The tracker that had these parts."""
        ...

"""Data types of trackers: subscriptions, elements, completions; and the interface of all trackers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from tidegate.physical.common.arrays import Columns, Floats, Ints, Mask

Values = Floats | Ints
"""Doubles, or integers that are their own places.

The caller keeps integer values and ends within [-2**63 + 1, 2**63 - 2], so that there is a place after each of them; an
infinite end is the last place, closed. Elements and ranges of one tracker have the same type.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Subscriptions:
    """Registered subscriptions: each waits until the total weight in its range reaches the threshold.

    Ids are unique among live subscriptions. Ends have a column for each dimension and may be infinite, but not NaN. An
    open end does not belong to the range.
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

    def take(self, rows: Ints | Mask | slice) -> Subscriptions:
        ends = (self.low[rows], self.high[rows], self.low_open[rows], self.high_open[rows])
        return Subscriptions(self.id[rows], *ends, self.threshold[rows])


@dataclass(frozen=True, slots=True, eq=False)
class WeightedElements:
    """Points with positive weights, in the order in which they count; a point with a NaN is in no range."""

    value: Values
    weight: Ints

    def __len__(self) -> int:
        return len(self.weight)

    def take(self, rows: Ints | Mask | slice) -> WeightedElements:
        return WeightedElements(self.value[rows], self.weight[rows])


@dataclass(frozen=True, slots=True, eq=False)
class CompletedSubscriptions:
    """Completed subscriptions, in the order of the elements that completed them, then of id.

    An element is given by its position in the batch. The total is exact and includes that element. A repeating
    subscription may occur several times.
    """

    id: Ints
    element: Ints
    total: Ints

    def __len__(self) -> int:
        return len(self.id)


def sort_completions(ids: Ints, element: Ints, total: Ints) -> CompletedSubscriptions:
    """Sort completions into the order in which they are reported."""
    least, most = (int(ids.min()), int(ids.max())) if len(ids) else (0, 0)
    width = most - least + 1
    if width * (int(element.max(initial=0)) + 1) < 2**63:  # both fit into one number
        order = np.argsort(element * width + (ids - least))
    else:
        order = np.lexsort((ids, element))
    return CompletedSubscriptions(ids[order], element[order], total[order])


def merge_completions(answers: list[CompletedSubscriptions]) -> CompletedSubscriptions:
    """Join completions, in the order in which they are reported."""
    none = np.empty(0, np.int64)
    columns = ([m.id for m in answers], [m.element for m in answers], [m.total for m in answers])
    return sort_completions(*(np.concatenate([none, *column]) for column in columns))


class RangeTracker(Protocol):
    """Live subscriptions and their totals.

    Methods that change a tracker return the tracker to use from then on. It may be this one, changed in place, so that
    many small changes are cheap. A caller that needs this one again must copy it first.
    """

    def __len__(self) -> int:
        """Return the number of live subscriptions."""
        ...

    def copy(self) -> Self:
        """Return a tracker that can be changed while this one stays as it is; immutable data is shared."""
        ...

    def are_live(self, ids: Ints) -> Mask:
        """Return which of the ids are live."""
        ...

    def register(self, ranges: Subscriptions) -> Self:
        """Register subscriptions, which count from the next element on."""
        ...

    def resume(self, ranges: Subscriptions, missing: Ints) -> Self:
        """Register subscriptions that lack only the weight in `missing`."""
        ...

    def live_subscriptions(self) -> tuple[Subscriptions, Ints]:
        """Return the live subscriptions, with ends as places, and what they lack, for another tracker to resume."""
        ...

    def terminate(self, ids: Ints) -> tuple[Self, Mask]:
        """Drop the subscriptions with these ids; return which were live, only the first time for a repeated id."""
        ...

    def absorb(self, elements: WeightedElements) -> tuple[Self, CompletedSubscriptions]:
        """Count the next elements.

        A subscription that is complete is reported once and dropped. In a tracker that repeats, it starts again from
        zero after the element that completed it.
        """
        ...

    def absorb_with(
        self, elements: WeightedElements, ranges: Subscriptions, position: Ints
    ) -> tuple[Self, CompletedSubscriptions]:
        """Count the next elements, and register ranges among them, each before the element at its position.

        Positions are ascending. The result is the same as if the batch were cut at all positions.
        """
        ...

    def to_columns(self) -> Mapping[str, Columns]:
        """Return the state in named parts that never change; a part that is as it was last time is the same object."""
        ...

    @classmethod
    def from_columns(cls, parts: Mapping[str, Columns]) -> Self:
        """Return the tracker that had these parts."""
        ...

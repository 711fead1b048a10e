"""Definitions that the parts of the sliding method share: closed boxes of places, and numbered elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidegate.physical.common.arrays import Columns, Floats, Ints, Mask
from tidegate.physical.subscriptions.kernels.boxes import Points, places
from tidegate.physical.subscriptions.kernels.model import Subscriptions, WeightedElements

Axes = tuple[Ints, Ints]
"""Low and high ends of closed boxes, with a row for each dimension."""


FIRST, LAST = -(2**63), 2**63 - 1
"""Least and greatest place."""

_MOST_AT_ONCE = 2.0**61
"""Weight of elements that are counted at once: with the greatest total of a live subscription, it fits into 64 bits."""


@dataclass(frozen=True, slots=True)
class SlidingSettings:
    """Sizes that affect only the speed of the method."""

    cut: int = 10_000
    """Number of elements that are counted at once."""
    leaf: int = 160
    """Number of elements up to which they are checked one by one to find the one that completes a subscription."""
    share: int = 4
    """Ratio up to which a chunk of subscriptions is merged with the smaller ones that follow it."""
    most: int = 65_536
    """Largest number of elements of the window in one chunk; the elements of a chunk are dropped together."""
    patience: float = 0.25
    """Window lengths after which a chunk counts the elements that it has deferred."""


class NumberedElements(NamedTuple):
    """Elements in the order in which they count, with the number that each has among all."""

    points: Points
    number: Ints

    def part(self, begin: int, end: int) -> NumberedElements:
        place = np.ascontiguousarray(self.points.place[:, begin:end])
        return NumberedElements(Points(place, self.points.weight[begin:end]), self.number[begin:end])

    def take(self, rows: Ints) -> NumberedElements:
        place = np.ascontiguousarray(self.points.place[:, rows])
        return NumberedElements(Points(place, self.points.weight[rows]), self.number[rows])


class SubscriptionTotals(NamedTuple):
    """Subscriptions with their current totals, of the elements from number `since` on."""

    low: Ints
    high: Ints
    threshold: Ints
    total: Ints
    since: Ints

    def take(self, rows: Ints | Mask) -> SubscriptionTotals:
        ends = np.ascontiguousarray(self.low[:, rows]), np.ascontiguousarray(self.high[:, rows])
        return SubscriptionTotals(*ends, self.threshold[rows], self.total[rows], self.since[rows])


def places_of(value: npt.NDArray[np.generic]) -> Ints:
    """Return a row of places for each dimension; an integer is its own place."""
    if value.dtype.kind == "i":
        return np.require(value.T, np.int64, ["C", "W"])  # kernels are compiled for writable arrays
    doubles: Floats = np.asarray(value.T, np.float64)
    return places(doubles)


def closed_boxes_of(ranges: Subscriptions, *, keyed: bool) -> Axes:
    """Return the ranges as closed boxes of places; an empty range has high < low, in all dimensions but the key."""
    low, high = places_of(ranges.low), places_of(ranges.high)
    past, before = (low == LAST) & ranges.low_open.T, (high == FIRST) & ranges.high_open.T
    low, high = low + (ranges.low_open.T & ~past), high - (ranges.high_open.T & ~before)
    empty = (past | before | (low > high)).any(axis=0)
    low[int(keyed) :, empty], high[int(keyed) :, empty] = 0, -1
    return low, high


def points_of(elements: WeightedElements) -> Points:
    return Points(places_of(elements.value), np.require(elements.weight, np.int64, ["C", "W"]))


def cuts_of(weight: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Yield the first element of each cut, and the one after its last: at most `most` elements, of bounded weight.

    The total of a live subscription is always below its threshold. So totals and what expires may be computed modulo
    2**64; only the weight that a cut adds could exceed 64 bits, if it had no bound.
    """
    total = np.cumsum(weight, dtype=np.float64)
    begin = 0
    while begin < len(weight):
        before = total[begin - 1] if begin else 0.0
        heavy = int(np.searchsorted(total, before + _MOST_AT_ONCE))
        end = min(max(heavy, begin + 1), begin + most, len(weight))
        yield begin, end
        begin = end


def columns_by_axis(name: str, rows: Ints) -> Columns:
    return {f"{name}{axis}": row for axis, row in enumerate(rows)}


def axes_of(name: str, columns: Columns, dimensions: int) -> Ints:
    return np.stack([np.asarray(columns[f"{name}{axis}"], np.int64) for axis in range(dimensions)])

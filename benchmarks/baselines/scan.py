"""Range thresholds by a scan: every element is compared with every query. The baseline of all comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from benchmarks.baselines.tracking_columns import columns_of, no_ranges, ranges_of
from benchmarks.baselines.tracking_cuts import Cells, first_beyond, first_inside, places_among
from benchmarks.baselines.tracking_levels import absorbed_in_cuts
from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.subscriptions.kernels.boxes import places
from tidegate.physical.subscriptions.kernels.model import (
    CompletedSubscriptions,
    Subscriptions,
    WeightedElements,
    sort_completions,
)

_Side = tuple[int, Cells, Cells]
"""A point in one dimension, and where queries begin and end in it."""


@dataclass(slots=True, eq=False)
class ScanTracker:
    """Live queries as columns with room for more, changed in place.

    Ends are places among the distinct values of all ends, which fit into 32 bits: a scan is as fast as memory.
    """

    count: int = 0
    values: list[Ints] = field(default_factory=list)
    low: Cells = field(default_factory=lambda: np.empty((0, 0), np.int32))
    high: Cells = field(default_factory=lambda: np.empty((0, 0), np.int32))
    numbers: Ints = field(default_factory=lambda: np.empty((3, 0), np.int64))
    """Rows of ids, of thresholds, and of what is lacking."""

    def __len__(self) -> int:
        return self.count

    def copy(self) -> Self:
        columns = (self.low.copy(), self.high.copy(), self.numbers.copy())
        return type(self)(self.count, list(self.values), *columns)

    def register(self, ranges: Subscriptions) -> Self:
        return self.resume(ranges, ranges.threshold)

    def resume(self, ranges: Subscriptions, missing: Ints) -> Self:
        """Register queries that lack no more than this."""
        if not self.values:
            self.values = [np.empty(0, np.int64)] * ranges.dimensions
            self.low, self.high = np.empty((2, ranges.dimensions, 0), np.int32)
        self._make_room(len(ranges))
        new = slice(self.count, self.count + len(ranges))
        for dimension in range(ranges.dimensions):
            low, high = places(ranges.low[:, dimension]), places(ranges.high[:, dimension])
            self._know(dimension, np.concatenate((low, high)))
            values = self.values[dimension]
            self.low[dimension, new] = first_inside(values, low, ranges.low_open[:, dimension])
            self.high[dimension, new] = first_beyond(values, high, ranges.high_open[:, dimension])
        self.numbers[:, new] = ranges.id, ranges.threshold, missing
        self.count = new.stop
        return self

    def _make_room(self, wanted: int) -> None:
        room = self.numbers.shape[1]
        if self.count + wanted > room:
            more = ((0, 0), (0, max(wanted, room)))
            self.low, self.high = np.pad(self.low, more), np.pad(self.high, more)
            self.numbers = np.pad(self.numbers, more)

    def _know(self, dimension: int, ends: Ints) -> None:
        """Add ends to the values of a dimension; the places of others move."""
        before = self.values[dimension]
        values = np.union1d(before, ends[places_among(before, ends) % 2 == 0])
        if len(values) == len(before):
            return
        moved = 2 * (np.searchsorted(values, before) - np.arange(len(before)))
        for places_of in (self.low[dimension], self.high[dimension]):
            places_of[: self.count] += moved[(places_of[: self.count] - 1) >> 1]
        self.values[dimension] = values

    def are_live(self, ids: Ints) -> Mask:
        """Which of the ids are live."""
        return np.isin(ids, self.numbers[0, : self.count])

    def terminate(self, ids: Ints) -> tuple[Self, Mask]:
        """Forget queries; an id that is there twice is known once."""
        known = np.zeros(len(ids), np.bool_)
        distinct, first = np.unique(ids, return_index=True)
        if len(ids):
            live = self.numbers[0, : self.count]
            found = np.minimum(np.searchsorted(distinct, live), len(distinct) - 1)
            leaving = distinct[found] == live
            known[first[found[leaving]]] = True
            self._keep(np.flatnonzero(~leaving))
        return self, known

    def _keep(self, rows: Ints) -> None:
        for columns in (self.low, self.high, self.numbers):
            columns[:, : len(rows)] = columns[:, rows]
        self.count = len(rows)

    def absorb(self, elements: WeightedElements) -> tuple[Self, CompletedSubscriptions]:
        complete = np.empty((3, self.count), np.int64)
        points, value = np.empty(elements.value.shape[::-1], np.int32), places(elements.value)
        for dimension, values in enumerate(self.values):
            points[dimension] = places_among(values, value[:, dimension])
        before = self.count
        self.count = _scan(points, np.array(elements.weight), self.low, self.high, self.numbers, before, complete)
        return self, sort_completions(*complete[:, : before - self.count])

    def absorb_with(
        self, elements: WeightedElements, ranges: Subscriptions, position: Ints
    ) -> tuple[Self, CompletedSubscriptions]:
        """Count the next elements, and register ranges among them: each before the element at its position."""
        return self, absorbed_in_cuts(self, elements, ranges, position)

    def live_subscriptions(self) -> tuple[Subscriptions, Ints]:
        """The live queries, with ends as places, and what they lack: what another tracker can resume."""
        return (self._ranges() if self.values else no_ranges()), self.numbers[2, : self.count].copy()

    def to_columns(self) -> Mapping[str, Columns]:
        if not self.values:
            return {}
        return {"queries": columns_of(self._ranges()), "progress": {"left": self.numbers[2, : self.count].copy()}}

    def _ranges(self) -> Subscriptions:
        low_place, high_place = self.low[:, : self.count], self.high[:, : self.count]
        low, high = (
            np.stack([values[(place - 1) >> 1] for values, place in zip(self.values, places_of, strict=True)], axis=1)
            for places_of in (low_place, high_place)
        )
        ids, threshold, _ = self.numbers[:, : self.count].copy()
        return Subscriptions(ids, low, high, low_place.T % 2 == 0, high_place.T % 2 == 1, threshold)

    @classmethod
    def from_columns(cls, parts: Mapping[str, Columns]) -> Self:
        return cls().resume(ranges_of(parts["queries"]), parts["progress"]["left"]) if parts else cls()


@compiled
def _scan(points: Cells, weight: Ints, low: Cells, high: Cells, numbers: Ints, live: int, complete: Ints) -> int:
    """Count elements; what is complete is written, and the others close the gap. How many are left."""
    if not live:
        return 0
    found = 0
    left = numbers[2]
    for i in range(len(weight)):
        if len(points) == 1:
            any_complete = _subtract(points[0, i], weight[i], low[0, :live], high[0, :live], left[:live])
        elif len(points) == 2:
            x, y = (points[0, i], low[0, :live], high[0, :live]), (points[1, i], low[1, :live], high[1, :live])
            any_complete = _subtract_in_plane(x, y, weight[i], left[:live])
        else:
            any_complete = _subtract_in_space(points[:, i], weight[i], low[:, :live], high[:, :live], left[:live])
        q = 0
        while any_complete and q < live:
            if left[q] > 0:
                q += 1
                continue
            complete[0, found], complete[1, found], complete[2, found] = numbers[0, q], i, numbers[1, q] - left[q]
            found += 1
            live -= 1
            low[:, q], high[:, q], numbers[:, q] = low[:, live], high[:, live], numbers[:, live]
    return live


@compiled
def _subtract(point: int, weight: int, low: Cells, high: Cells, left: Ints) -> bool:
    """Count an element; whether something is complete."""
    any_complete = False
    for q in range(len(left)):
        rest = left[q] - (weight if (low[q] <= point) & (point < high[q]) else 0)
        left[q] = rest
        any_complete |= rest <= 0
    return any_complete


@compiled
def _subtract_in_plane(first: _Side, second: _Side, weight: int, left: Ints) -> bool:
    """The same in two dimensions, without a loop over them, so that the compiler makes one of vectors."""
    (x, x_low, x_high), (y, y_low, y_high) = first, second
    any_complete = False
    for q in range(len(left)):
        inside = (x_low[q] <= x) & (x < x_high[q]) & (y_low[q] <= y) & (y < y_high[q])
        rest = left[q] - (weight if inside else 0)
        left[q] = rest
        any_complete |= rest <= 0
    return any_complete


@compiled
def _subtract_in_space(point: Cells, weight: int, low: Cells, high: Cells, left: Ints) -> bool:
    """The same in any number of dimensions."""
    any_complete = False
    for q in range(len(left)):
        inside = True
        for k in range(len(point)):
            inside &= (low[k, q] <= point[k]) & (point[k] < high[k, q])
        if inside:
            left[q] -= weight
            any_complete |= left[q] <= 0
    return any_complete

"""Ranges of a group of alerts as boxes of places, and which of them contain an element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tidegate.algebra.subscriptions import ConstantRange, Dimension, RangedAlertGroup
from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.kernels.order_codes import presence
from tidegate.physical.subscriptions.kernels.coverage import (
    Coverage,
    add_new_pairs,
    are_covered,
    cells_of,
    coverage_of,
)
from tidegate.physical.subscriptions.places import FIRST, LAST, places, value_places
from tidegate.schema import Schema, Type


@dataclass(frozen=True, slots=True, eq=False)
class AlertBoxes:
    """Closed boxes of places, one for each alert, with a column for each value, and the thresholds."""

    low: Ints
    high: Ints
    threshold: Ints
    coverage: Coverage

    def __len__(self) -> int:
        return len(self.threshold)

    @property
    def words(self) -> int:
        """Number of 64-bit words with a bit for each alert."""
        return len(self.coverage.all)

    def are_covered(self, value: Ints) -> Mask:
        """Return which elements, given by the places of their values, are in the ranges of some alert."""
        return are_covered(self.coverage, cells_of(self.coverage, value))

    def add_new_pairs(self, value: Ints, group: Ints, known: Ints) -> tuple[Ints, Ints]:
        """Return the elements that are the first of their group in the ranges of an alert, and these alerts.

        The pairs are in the order of the elements, then of the alerts. Their bits are set in `known`.
        """
        return add_new_pairs(self.coverage, cells_of(self.coverage, value), group, known)


def boxes_of_alerts(group: RangedAlertGroup, schema: Schema, values: Sequence[str]) -> AlertBoxes:
    """Return the boxes of the alerts of a group; `values` are the columns that have ranges."""
    return _boxes_of_alerts(group, tuple(schema.type_of(name) for name in values))


@lru_cache(maxsize=64)
def _boxes_of_alerts(group: RangedAlertGroup, types: tuple[Type, ...]) -> AlertBoxes:
    low, high = np.full((len(group), len(types)), FIRST), np.full((len(group), len(types)), LAST)
    for axis, type_ in enumerate(types):
        ranges = [each.ranges[axis] for each in group.alerts]
        low[:, axis], high[:, axis] = _ends(ranges, type_)
    threshold = np.array([each.threshold for each in group.alerts], np.int64)
    return AlertBoxes(low, high, threshold, coverage_of(low, high))


def _ends(ranges: Sequence[ConstantRange], type_: Type) -> tuple[Ints, Ints]:
    """Return the first and the last place of each range."""
    low = pa.array([None if each.low is None else each.low.value for each in ranges], type_.arrow)
    high = pa.array([None if each.high is None else each.high.value for each in ranges], type_.arrow)
    first = places(low) + np.array([each.low_open for each in ranges])
    last = places(high) - np.array([each.high_open for each in ranges])
    has_low, has_high = presence(low).view(np.bool_), presence(high).view(np.bool_)
    return np.where(has_low, first, FIRST), np.where(has_high, last, LAST)


def places_of_values(batch: Batch, values: Sequence[str]) -> Ints:
    """Return one row of places for each element; places of NULL are arbitrary."""
    return value_places(batch, [Dimension(name, None, None) for name in values])

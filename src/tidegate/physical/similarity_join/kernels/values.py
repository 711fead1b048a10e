"""Columns that elements are compared by: numbers, sets, and weighted sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tidegate.physical.common.arrays import Columns, Floats, Ints
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.hashing import read_only


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """One number for each element: all integers, or all floats."""

    values: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Ints) -> Numbers:
        return Numbers(self.values[rows])

    def columns(self) -> Columns:
        """Return the columns to save, by element."""
        return {"values": self.values}

    def item_columns(self) -> Columns:
        """Return the columns to save by item: none."""
        return {}


@dataclass(frozen=True, slots=True, eq=False)
class Sets:
    """Set of items for each element.

    The items of element n are those from `bounds[n]` to `bounds[n + 1]`: codes of any values, ascending, without
    duplicates. Weighted sets have a weight for each item.
    """

    bounds: Ints
    items: Ints
    weights: Floats | None = None

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def take(self, rows: Ints) -> Sets:
        bounds, positions = _take_bounds(self.bounds, rows)
        return Sets(bounds, self.items[positions], None if self.weights is None else self.weights[positions])

    def columns(self) -> Columns:
        """Return the columns to save, by element."""
        return {"size": np.diff(self.bounds)}

    def item_columns(self) -> Columns:
        """Return the columns to save, by item."""
        return {"items": self.items, **({} if self.weights is None else {"weights": self.weights})}


Values: TypeAlias = Numbers | Sets


def values_of(columns: Columns, parts: Columns) -> Values:
    """Load values that were saved by element and by item."""
    if "size" in columns:
        weights = read_only(parts["weights"]) if "weights" in parts else None
        return Sets(read_only(_bounds(columns["size"])), read_only(parts["items"]), weights)
    return Numbers(read_only(columns["values"]))


def concatenate_values(parts: Sequence[Values]) -> Values:
    """Concatenate the values of parts, which are of one kind."""
    first = parts[0]
    if isinstance(first, Numbers):
        return Numbers(np.concatenate([part.values for part in parts if isinstance(part, Numbers)]))
    sets = [part for part in parts if isinstance(part, Sets)]
    sizes = np.concatenate([np.diff(part.bounds) for part in sets])
    weights = None if first.weights is None else np.concatenate([p.weights for p in sets if p.weights is not None])
    return Sets(_bounds(sizes), np.concatenate([part.items for part in sets]), weights)


def _bounds(sizes: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


@compiled
def _take_bounds(bounds: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return the bounds of some rows, and the positions of their items."""
    taken = np.zeros(len(rows) + 1, np.int64)
    for n in range(len(rows)):
        taken[n + 1] = taken[n] + bounds[rows[n] + 1] - bounds[rows[n]]
    positions = np.empty(taken[-1], np.int64)
    for n in range(len(rows)):
        for k in range(taken[n + 1] - taken[n]):
            positions[taken[n] + k] = bounds[rows[n]] + k
    return taken, positions

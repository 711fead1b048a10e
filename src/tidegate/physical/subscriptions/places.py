"""Integers that have the same order as values and ends of ranges, for every type."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.algebra.subscriptions import Dimension
from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.kernels.order_codes import order_codes, presence

FIRST, LAST = -(2**63) + 1, 2**63 - 2
"""Places used for a missing end of a range; one place lies beyond either."""


def value_places(batch: Batch, dimensions: Sequence[Dimension]) -> Ints:
    """Return one row of places for each element; all its values must be present."""
    return _stack_columns([places(batch.column(each.value)) for each in dimensions], len(batch))


def end_places(batch: Batch, dimensions: Sequence[Dimension]) -> tuple[Ints, Ints, Mask, Mask]:
    """Return the low and high ends of each subscription's range, and which of them are open; NULL means no end."""
    low = [_places_or_infinite(batch, each.low, FIRST) for each in dimensions]
    high = [_places_or_infinite(batch, each.high, LAST) for each in dimensions]
    # A missing end is never open.
    low_open = [(places_ > FIRST) & each.low_open for places_, each in zip(low, dimensions, strict=True)]
    high_open = [(places_ < LAST) & each.high_open for places_, each in zip(high, dimensions, strict=True)]
    return (
        _stack_columns(low, len(batch)),
        _stack_columns(high, len(batch)),
        _stack_columns(low_open, len(batch)).astype(np.bool_),
        _stack_columns(high_open, len(batch)).astype(np.bool_),
    )


def are_empty(low: Ints, high: Ints, low_open: Mask, high_open: Mask) -> Mask:
    """Return which ranges are empty in some dimension."""
    empty: Mask = np.any(low + low_open > high - high_open, axis=1)
    return empty


def places(column: pa.Array) -> Ints:
    """Return the place of each value; NaN comes after all numbers, and -0.0 equals 0.0."""
    return np.clip(order_codes([column]).codes[0], FIRST, LAST)


def _places_or_infinite(batch: Batch, name: str | None, infinite: int) -> Ints:
    if name is None:
        return np.full(len(batch), infinite)
    column = batch.column(name)
    return np.where(presence(column).view(np.bool_), places(column), infinite)


def _stack_columns(columns: Sequence[npt.NDArray[np.int64] | Mask], rows: int) -> Ints:
    return np.stack(columns, axis=1).astype(np.int64) if columns else np.empty((rows, 0), np.int64)

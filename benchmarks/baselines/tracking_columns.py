"""Queries by rows: as places, one after the other, and as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tidegate.physical.common.arrays import Columns
from tidegate.physical.subscriptions.kernels.boxes import places
from tidegate.physical.subscriptions.kernels.model import Subscriptions


def in_places(ranges: Subscriptions) -> Subscriptions:
    """The same with places as ends."""
    return replace(ranges, low=places(ranges.low), high=places(ranges.high))


def no_ranges() -> Subscriptions:
    none, no_ends, not_open = np.empty(0, np.int64), np.empty((0, 0), np.int64), np.empty((0, 0), np.bool_)
    return Subscriptions(none, no_ends, no_ends, not_open, not_open, none)


def joined(parts: Sequence[Subscriptions]) -> Subscriptions:
    """Queries one after the other."""
    return Subscriptions(
        np.concatenate([part.id for part in parts]),
        np.concatenate([part.low for part in parts]),
        np.concatenate([part.high for part in parts]),
        np.concatenate([part.low_open for part in parts]),
        np.concatenate([part.high_open for part in parts]),
        np.concatenate([part.threshold for part in parts]),
    )


_ENDS = ("low", "high", "low_open", "high_open")


def columns_of(ranges: Subscriptions) -> Columns:
    """Queries as columns: ends have one for each dimension, with its number."""
    ends = {f"{end}{k}": getattr(ranges, end)[:, k].copy() for k in range(ranges.dimensions) for end in _ENDS}
    return {"id": ranges.id, "threshold": ranges.threshold, **ends}


def ranges_of(columns: Columns) -> Subscriptions:
    """The queries that had these columns."""
    dimensions = (len(columns) - 2) // len(_ENDS)
    low, high, low_open, high_open = (
        np.stack([columns[f"{end}{k}"] for k in range(dimensions)], axis=1) for end in _ENDS
    )
    return Subscriptions(columns["id"], low, high, low_open, high_open, columns["threshold"])

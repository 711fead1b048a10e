"""Sample points of a box, the same each time."""

from __future__ import annotations

import numpy as np

from tidegate.expressions.shape.enclose import Box
from tidegate.expressions.shape.intervals import Interval, Numbers

_FAR = 1e6
_SEED = 20


def sample_points(box: Box, many: int) -> Box:
    """Return random points, alternately inside a box and at its corners; nothing is NULL there."""
    random = np.random.default_rng(_SEED)
    columns = {}
    for name, own in box.columns.items():
        inside, corner = random.choice(np.linspace(0.0, 1.0, many + 1), many), random.integers(0, 2, many)
        columns[name] = _as_points(points_at_shares(own, np.where(np.arange(many) % 2 == 0, inside, corner)))
    return Box(columns, frozenset(columns))


def _as_points(values: Numbers) -> Interval:
    return Interval(values, values)


def points_at_shares(own: Interval, share: Numbers) -> Numbers:
    """Return the points at given shares of the way through an interval; by order of magnitude if it is very long."""
    low, high = float(own.low[0]), float(own.high[0])
    if high - low <= _FAR:
        return np.clip(low + share * (high - low), low, high)
    left, right = max(low, min(-_FAR, high * 2 - _FAR)), min(high, max(_FAR, low * 2 + _FAR))
    first, last = np.arcsinh(left), np.arcsinh(right)
    return np.asarray(np.clip(np.sinh(first + share * (last - first)), left, right))

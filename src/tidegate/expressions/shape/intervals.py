"""Interval arithmetic on columns of intervals, rounded outwards.

An interval encloses finite real numbers: an infinite end means that there is no bound, so zero times an unbounded
number is zero. Callers must silence NumPy's warnings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tidegate.arrays import Floats, Mask
from tidegate.values import value

Numbers = Floats

_SLACK = 2.0**-48
"""Assumed relative error of NumPy's exp, log and the like: 16 units in the last place, four times the promised error.
"""

_TINY, _LARGE = 1e-320, 1e308
"""Greatest error of numbers that underflow, and a lower bound of numbers that overflow."""


@value
class Interval:
    """One interval per row, with both ends."""

    low: Numbers
    high: Numbers

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __add__(self, other: Interval) -> Interval:
        low, lost = _sum_with_error(self.low, other.low)
        high, left = _sum_with_error(self.high, other.high)
        return make_interval(np.where(lost >= 0, low, next_down(low)), np.where(left <= 0, high, next_up(high)))

    def __sub__(self, other: Interval) -> Interval:
        return self + (-other)

    def __mul__(self, other: Interval) -> Interval:
        a, b, c, d = self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high
        ends = np.stack(np.broadcast_arrays(a, b, c, d))
        ends[np.isnan(ends)] = 0.0  # zero times infinity
        low, high = next_down(ends.min(axis=0)), next_up(ends.max(axis=0))
        same = ((self.low >= 0) & (other.low >= 0)) | ((self.high <= 0) & (other.high <= 0))
        opposite = ((self.low >= 0) & (other.high <= 0)) | ((self.high <= 0) & (other.low >= 0))
        nothing = self.is_zero | other.is_zero
        low = np.where(nothing, 0.0, np.where(same, np.maximum(low, 0.0), low))
        high = np.where(nothing, 0.0, np.where(opposite, np.minimum(high, 0.0), high))
        return make_interval(low, high)

    def __truediv__(self, other: Interval) -> Interval:
        return self * other.reciprocal()

    @property
    def is_zero(self) -> Mask:
        return np.asarray((self.low == 0) & (self.high == 0))

    @property
    def has_zero(self) -> Mask:
        return np.asarray((self.low <= 0) & (self.high >= 0))

    def reciprocal(self) -> Interval:
        """Return 1 / x for the numbers other than 0."""
        least, most = next_down(1.0 / self.high), next_up(1.0 / self.low)
        positive, negative = self.low >= 0, self.high <= 0
        low = np.where(positive, np.where(np.isinf(self.high), 0.0, np.maximum(least, 0.0)), least)
        low = np.where(self.high == 0, -np.inf, low)
        high = np.where(negative, np.where(np.isinf(self.low), 0.0, np.minimum(most, 0.0)), most)
        high = np.where(self.low == 0, np.inf, high)
        both = ~positive & ~negative | self.is_zero
        return make_interval(np.where(both, -np.inf, low), np.where(both, np.inf, high))

    def square(self) -> Interval:
        small, large = np.abs(self.low), np.abs(self.high)
        least = np.where(self.has_zero, 0.0, np.minimum(small, large))
        most = np.maximum(small, large)
        low, high = least * least, most * most
        low = np.where(_is_whole(least, low), low, np.maximum(next_down(low), 0.0))
        return make_interval(low, np.where(_is_whole(most, high), high, next_up(high)))

    def magnitude(self) -> Interval:
        small, large = np.abs(self.low), np.abs(self.high)
        return make_interval(np.where(self.has_zero, 0.0, np.minimum(small, large)), np.maximum(small, large))

    def hull(self, other: Interval) -> Interval:
        return make_interval(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def intersect(self, other: Interval) -> Interval:
        """Return the intersection of two enclosures of the same numbers."""
        return make_interval(np.maximum(self.low, other.low), np.minimum(self.high, other.high))

    def where(self, mask: Mask, other: Interval) -> Interval:
        """Return this interval where the mask is true, the other one elsewhere."""
        return Interval(np.where(mask, self.low, other.low), np.where(mask, self.high, other.high))

    def clip(self, low: float, high: float = np.inf) -> Interval:
        """Clip to a range; an interval outside the range becomes the nearer end."""
        return Interval(np.clip(self.low, low, high), np.clip(self.high, low, high))


def next_down(value: Any) -> Numbers:
    return np.asarray(np.nextafter(value, -np.inf))


def next_up(value: Any) -> Numbers:
    return np.asarray(np.nextafter(value, np.inf))


def make_interval(low: Numbers, high: Numbers) -> Interval:
    """Return the interval between two ends; a NaN end is no bound."""
    return Interval(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high))


def between(low: float, high: float) -> Interval:
    return Interval(np.array([low], np.float64), np.array([high], np.float64))


def point(value: float) -> Interval:
    return between(value, value)


ZERO, ONE, WHOLE = point(0.0), point(1.0), between(-np.inf, np.inf)


def enclose_rising(
    function: Callable[[Numbers], Numbers], of: Interval, through: tuple[float, float] | None = None
) -> Interval:
    """Enclose the values of a rising NumPy function, with slack for its errors; one exact point may be given."""
    low, high = function(of.low), function(of.high)
    low = np.where(np.isposinf(low), _LARGE, low - np.abs(low) * _SLACK - _TINY)
    low, high = next_down(low), next_up(high + np.abs(high) * _SLACK + _TINY)
    if through is not None:
        at, value = through
        low = np.where(of.low >= at, np.maximum(low, value), low)
        high = np.where(of.high <= at, np.minimum(high, value), high)
    return make_interval(low, high)


def _is_whole(root: Numbers, square: Numbers) -> Mask:
    """Return whether a number is whole and small enough for its square to be exact."""
    return np.asarray((root == np.rint(root)) & (square < 2.0**53))


def _sum_with_error(a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rounded sum of two numbers, and its exact rounding error; NaN if that is unknown."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)

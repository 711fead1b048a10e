"""Functions of one number with their first and second derivatives, on intervals.

Numbers for which a function is undefined are left out. If the remaining numbers are no interval (around the poles of
the tangent or of 1/x), the results are the whole line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from tidegate.arrays import Mask
from tidegate.expressions.shape.intervals import (
    ONE,
    WHOLE,
    Interval,
    Numbers,
    between,
    enclose_rising,
    next_down,
    next_up,
    point,
)
from tidegate.values import value

Enclosure = Callable[[Interval], Interval]

_FARTHEST_ANGLE = 1e6  # beyond it, sine and cosine may be anything from -1 to 1
_NEAR = 1e-9  # an angle this near to an extreme or a pole counts as reaching it
_NOISE = 2.0**-50  # error of a sine due to the reduction of its angle
_ALMOST_HALF_TURN = 3.1415
_TWO = point(2.0)


@value
class Smooth:
    """A function that is continuous on its domain, and twice differentiable inside it."""

    value: Enclosure
    slope: Enclosure
    bend: Enclosure


def enclose_power(base: Interval, exponent: float) -> Interval:
    """Return the base to a constant exponent."""
    return _power_between(base, exponent, exponent)


def power_function(exponent: float) -> Smooth:
    """Return the function x to the power of a constant."""
    whole = float(exponent).is_integer()

    def slope(of: Interval) -> Interval:
        return point(exponent) * _lower_power(of, exponent, 1, whole=whole)

    def bend(of: Interval) -> Interval:
        factor = point(exponent) * (point(exponent) - ONE)
        return factor * _lower_power(of, exponent, 2, whole=whole)

    return Smooth(lambda of: enclose_power(of, exponent), slope, bend)


def _lower_power(base: Interval, exponent: float, less: int, *, whole: bool) -> Interval:
    """Return the base to the exponent minus 1 or 2, a difference that floats may round."""
    rest = exponent - less
    if whole and abs(exponent) < 2**53:
        return enclose_power(base, rest)
    return _power_between(base, float(next_down(rest)), float(next_up(rest)), fraction=True)


def _power_between(base: Interval, least: float, most: float, *, fraction: bool = False) -> Interval:
    """Return the base to an exponent between two numbers."""
    if least == most == 0:
        return ONE.where(np.ones(base.low.shape, np.bool_), ONE)
    if not fraction and least == most and float(least).is_integer():
        return _whole_power(base, least)
    positive = base.clip(0.0)
    corners = [_raise_to(end, exponent) for end in (positive.low, positive.high) for exponent in (least, most)]
    return reduce(Interval.hull, corners).clip(0.0)


def _raise_to(base: Numbers, exponent: float) -> Interval:
    return enclose_rising(lambda x: np.power(x, exponent), Interval(base, base))


def _whole_power(base: Interval, exponent: float) -> Interval:
    if exponent < 0:
        inverse = _whole_power(base, -exponent).reciprocal()
        return WHOLE.where(base.has_zero & (base.low < 0) & (base.high > 0), inverse)
    if exponent == 1:
        return base
    if exponent == 2:
        return base.square()
    if exponent % 2 == 0:
        return enclose_rising(lambda x: np.power(x, exponent), base.magnitude()).clip(0.0)
    return enclose_rising(lambda x: np.power(x, exponent), base, (0.0, 0.0))


def _exp(of: Interval) -> Interval:
    return enclose_rising(np.exp, of, (0.0, 1.0)).clip(0.0)


def _positive_reciprocal(of: Interval) -> Interval:
    return of.clip(0.0).reciprocal()


def _logarithm(function: Callable[[Numbers], Numbers], base: float) -> Smooth:
    natural = ONE if base == np.e else enclose_rising(np.log, point(base))
    return Smooth(
        lambda of: enclose_rising(function, of.clip(0.0), (1.0, 0.0)),
        lambda of: _positive_reciprocal(of) / natural,
        lambda of: -(_positive_reciprocal(of).square() / natural),
    )


def _may_contain_angle(of: Interval, angle: float, period: float) -> Mask:
    """Return whether an angle that recurs with a period may lie within."""
    first = np.ceil((of.low - angle) / period - _NEAR)
    return np.asarray((first <= (of.high - angle) / period + _NEAR) | _is_far(of))


def _is_far(of: Interval) -> Mask:
    return np.asarray((of.low < -_FARTHEST_ANGLE) | (of.high > _FARTHEST_ANGLE))


def _sine(of: Interval) -> Interval:
    found = _wave(np.sin, of, np.pi / 2)
    # Up to half a turn, a sine has the sign of its angle.
    low = np.where((of.low >= 0) & (of.high <= _ALMOST_HALF_TURN), np.maximum(found.low, 0.0), found.low)
    high = np.where((of.high <= 0) & (of.low >= -_ALMOST_HALF_TURN), np.minimum(found.high, 0.0), found.high)
    return Interval(low, high)


def _cosine(of: Interval) -> Interval:
    return _wave(np.cos, of, 0.0)


def _wave(function: Callable[[Numbers], Numbers], of: Interval, top: float) -> Interval:
    within = of.clip(-_FARTHEST_ANGLE, _FARTHEST_ANGLE)
    left, right = (
        enclose_rising(function, Interval(within.low, within.low)),
        enclose_rising(function, Interval(within.high, within.high)),
    )
    ends = left.hull(right) + between(-_NOISE, _NOISE)
    low = np.where(_may_contain_angle(of, top + np.pi, 2 * np.pi), -1.0, ends.low)
    high = np.where(_may_contain_angle(of, top, 2 * np.pi), 1.0, ends.high)
    return Interval(low, high).clip(-1.0, 1.0)


def _tangent(of: Interval) -> Interval:
    within = of.clip(-_FARTHEST_ANGLE, _FARTHEST_ANGLE)
    return WHOLE.where(_may_contain_angle(of, np.pi / 2, np.pi), enclose_rising(np.tan, within))


def _tangent_slope(of: Interval) -> Interval:
    return WHOLE.where(_may_contain_angle(of, np.pi / 2, np.pi), ONE + _tangent(of).square())


def _arctangent_slope(of: Interval) -> Interval:
    """Return the slope of the arc tangent."""
    return (ONE + of.square()).reciprocal()


SMOOTH: dict[str, Smooth] = {
    "exp": Smooth(_exp, _exp, _exp),
    "ln": _logarithm(np.log, np.e),
    "log10": _logarithm(np.log10, 10.0),
    "log2": _logarithm(np.log2, 2.0),
    "sqrt": power_function(0.5),
    "sin": Smooth(_sine, _cosine, lambda of: -_sine(of)),
    "cos": Smooth(_cosine, lambda of: -_sine(of), lambda of: -_cosine(of)),
    "tan": Smooth(_tangent, _tangent_slope, lambda of: _TWO * _tangent(of) * _tangent_slope(of)),
    "atan": Smooth(
        lambda of: enclose_rising(np.arctan, of, (0.0, 0.0)).intersect(
            between(-1.5707963267948968, 1.5707963267948968)
        ),
        _arctangent_slope,
        lambda of: -(_TWO * of * _arctangent_slope(of).square()),
    ),
}


def has_no_pole(of: Interval) -> Mask:
    """Return whether no pole lies within."""
    return ~_may_contain_angle(of, np.pi / 2, np.pi)

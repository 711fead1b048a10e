"""Interval arithmetic against exact arithmetic: rounding goes outwards, always."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from tidegate.expressions.shape.intervals import Interval, between, point
from tidegate.expressions.shape.smooth import SMOOTH, enclose_power

numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-10, 10),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 3.0, 5e-324, -5e-324, 1.7e308, -1.7e308, 2.0**53]),
)


@st.composite
def intervals(draw):
    """An interval, and a number of it."""
    low, inside, high = sorted(draw(st.tuples(numbers, numbers, numbers)))
    low, high = draw(st.sampled_from([(low, high), (inside, inside), (-math.inf, high), (low, math.inf)]))
    return between(low, high), Fraction(inside)


def has(interval: Interval, value: Fraction) -> bool:
    low, high = float(interval.low[0]), float(interval.high[0])
    return (low == -math.inf or Fraction(low) <= value) and (high == math.inf or value <= Fraction(high))


@settings(max_examples=examples(60))
@given(intervals(), intervals())
def test_sums_products_and_quotients_lie_within(a, b):
    (one, x), (other, y) = a, b
    with np.errstate(all="ignore"):
        assert has(one + other, x + y)
        assert has(one - other, x - y)
        assert has(one * other, x * y)
        assert has(one.hull(other), x)
        if y != 0:
            assert has(other.reciprocal(), 1 / y)
            assert has(one / other, x / y)


@settings(max_examples=examples(60))
@given(intervals())
def test_squares_magnitudes_and_whole_powers_lie_within(a):
    interval, x = a
    with np.errstate(all="ignore"):
        assert has(-interval, -x)
        assert has(interval.square(), x * x)
        assert has(interval.magnitude(), abs(x))
        for exponent in (0, 1, 2, 3, 4, 5):
            assert has(enclose_power(interval, float(exponent)), x**exponent)
        if x != 0:
            for exponent in (-1, -2, -3):
                assert has(enclose_power(interval, float(exponent)), x**exponent)


@settings(max_examples=examples(60))
@given(st.floats(-700, 700), st.floats(1e-300, 1e300))
def test_exponentials_logarithms_and_roots_lie_within(x, y):
    with localcontext() as context, np.errstate(all="ignore"):
        context.prec = 50
        assert has(SMOOTH["exp"].value(point(x)), Fraction(Decimal(x).exp()))
        assert has(SMOOTH["ln"].value(point(y)), Fraction(Decimal(y).ln()))
        assert has(SMOOTH["log10"].value(point(y)), Fraction(Decimal(y).log10()))
        assert has(SMOOTH["sqrt"].value(point(y)), Fraction(Decimal(y).sqrt()))
        for exponent in (0.16, 1.5, -0.5):
            assert has(enclose_power(point(y), exponent), Fraction(Decimal(y) ** Decimal(exponent)))


@settings(max_examples=examples(60))
@given(st.floats(-20, 20), st.floats(0, 10), st.floats(0, 1))
def test_waves_lie_within(low, width, share):
    with np.errstate(all="ignore"):
        angles, x = between(low, low + width), min(low + share * width, low + width)
        for name, function in (("sin", math.sin), ("cos", math.cos), ("atan", math.atan)):
            found = SMOOTH[name].value(angles)
            assert found.low[0] <= function(x) <= found.high[0]


def test_what_is_exact_is_not_widened():
    three, zero = point(3.0), point(0.0)
    for interval, value in [(three - three, 0.0), (three + three, 6.0), (three.square(), 9.0), (three * zero, 0.0)]:
        assert (interval.low[0], interval.high[0]) == (value, value)
    assert SMOOTH["ln"].value(between(1.0, 2.0)).low[0] == 0


def test_zero_times_an_unbounded_number_is_zero():
    with np.errstate(all="ignore"):
        product = point(0.0) * between(-math.inf, math.inf)
    assert (product.low[0], product.high[0]) == (0, 0)


def test_overflow_is_no_bound():
    with np.errstate(all="ignore"):
        found = SMOOTH["exp"].value(between(1000.0, 2000.0))
        assert found.low[0] >= 1e300
        assert found.high[0] == math.inf
        assert SMOOTH["ln"].value(between(0.0, 1.0)).low[0] == -math.inf

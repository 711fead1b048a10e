"""Variances and quantiles of any numbers, against exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.examples import examples

from tidegate.physical.aggregate.kernels.slot_order import quantiles
from tidegate.physical.aggregate.kernels.slot_sums import double_sums, integer_sums, variances
from tidegate.physical.aggregate.kernels.slots import Slots, Spans

FINITE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False, max_value=1e-150, min_value=-1e-150),
    st.sampled_from([0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e-162, 1.6e-162, 0.1]),
)
WHOLE = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3), st.sampled_from([2**63 - 1, -(2**63)]))
NUMBERS = st.one_of(st.lists(FINITE, min_size=1, max_size=6), st.lists(WHOLE, min_size=1, max_size=6))


def rounded(exact: Fraction) -> float:
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def stored(values: Sequence[float]) -> tuple[np.ndarray, bool]:
    is_double = isinstance(values[0], float)
    return np.array(values, np.float64 if is_double else np.int64).view(np.int64), is_double


def one_slot(count: int) -> tuple[Slots, Spans]:
    """All elements live in the first of two slots, and none in the second."""
    slots = Slots(np.array([0, 2]), np.zeros(2, np.int64), np.array([0, 1]))
    return slots, Spans(np.zeros(count, np.int64), np.ones(count, np.int64))


@given(NUMBERS, st.booleans())
@example([5e-324, 0.0], True)
@example([1.7976931348623157e308, -1.7976931348623157e308], False)
@settings(max_examples=examples(60), deadline=None)
def test_variances_are_rounded_once(values: list[float], sample: bool) -> None:
    numbers, is_double = stored(values)
    found, missing = variances(numbers, one_slot(len(values))[1], 2, is_double=is_double, sample=sample)
    assert missing.tolist() == [len(values) <= sample, True]
    if len(values) > sample:
        mean = sum(map(Fraction, values), Fraction()) / len(values)
        squares = sum(((Fraction(v) - mean) ** 2 for v in values), Fraction())
        assert found[0] == rounded(squares / (len(values) - sample))


@given(NUMBERS, st.integers(1, 10**9), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_quantiles_are_rounded_once(values: list[float], denominator: int, data: st.DataObject) -> None:
    share = Fraction(data.draw(st.integers(0, denominator)), denominator)
    numbers, is_double = stored(values)
    slots, spans = one_slot(len(values))
    order = np.array(sorted(range(len(values)), key=values.__getitem__))
    ratio = (share.numerator, share.denominator)
    found, missing = quantiles(numbers, order, slots, spans, is_double=is_double, share=ratio)
    place = share * (len(values) - 1)
    below, above = (Fraction(sorted(values)[end(place)]) for end in (math.floor, math.ceil))
    assert missing.tolist() == [False, True]
    assert found[0] == rounded(below + (above - below) * (place - math.floor(place)))


@given(NUMBERS)
@settings(max_examples=examples(60), deadline=None)
def test_sums_are_rounded_once(values: list[float]) -> None:
    numbers, is_double = stored(values)
    spans = one_slot(len(values))[1]
    exact = sum(map(Fraction, values), Fraction())
    assert double_sums(numbers, spans, 2, is_double=is_double).tolist() == [rounded(exact), 0.0]
    if not is_double:
        whole, fits = integer_sums(numbers, spans, 2)
        assert fits.tolist() == [-(2**63) <= exact < 2**63, True]
        assert not fits[0] or whole[0] == exact

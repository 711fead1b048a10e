"""Sums of doubles are what exact arithmetic, rounded once, gives; sums of integers are exact."""

from __future__ import annotations

import math
import random
from contextlib import suppress
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from tidegate.physical.aggregate.kernels import exact_sum
from tidegate.physical.aggregate.kernels.accumulators import AccumulatorLayout, move_to_layout, trim_sums
from tidegate.physical.aggregate.kernels.sweep import DOUBLE, INTEGER

SPECIALS, DIGITS = 0, exact_sum.SPECIALS
SMALLEST, LARGEST = 5e-324, 1.7976931348623157e308

awkward = st.sampled_from(
    [
        *(0.0, -0.0, 0.1, 0.2, 0.3, 1.0, -1.0, 1e16, -1e16, 1e-16, 2.0**53, 1.0 + 2.0**-52, 2.0**-53),
        *(SMALLEST, -SMALLEST, 2.2250738585072014e-308, 2.225073858507201e-308),
        *(1e308, -1e308, LARGEST, -LARGEST, 2.0**970, 2.0**969),
    ]
)
finite = st.one_of(awkward, st.floats(allow_nan=False, allow_infinity=False))
any_double = st.one_of(finite, st.sampled_from([math.nan, math.inf, -math.inf]))
near_limits = st.sampled_from([2**63 - 1, -(2**63), 2**62, -1, 0, 1, 2**32, -(2**32), 2**31])
any_integer = st.one_of(near_limits, st.integers(-(2**63), 2**63 - 1))


def bits(values: list[float]) -> np.ndarray:
    return np.array(values, np.float64).view(np.int64)


class Accumulator:
    """One row of digits, wide enough for the given doubles."""

    def __init__(self, values: list[float]) -> None:
        self.low, high = exact_sum.digits_needed(bits(values), np.ones(len(values), np.uint8))
        self.size = high - self.low + 1
        self.row = np.zeros((1, DIGITS + self.size), np.int64)

    def apply(self, value: float, sign: int) -> None:
        exact_sum.add_double(self.row, 0, DIGITS, self.low, SPECIALS, int(bits([value])[0]), sign)

    def normalise(self) -> None:
        exact_sum.normalise(self.row, DIGITS, self.size)

    @property
    def value(self) -> float:
        special = exact_sum.special_of(self.row, 0, SPECIALS)
        unit = 32 * self.low + exact_sum.LOWEST_EXPONENT
        scratch = np.empty(self.size + 2, np.int64)
        return exact_sum.double_of(self.row, 0, DIGITS, self.size, unit, scratch) if special == 0 else special


def total_of(values: list[float]) -> float:
    total = Accumulator(values)
    for value in values:
        total.apply(value, 1)
    return total.value


def rounded_once(values: list[float]) -> float:
    if any(map(math.isnan, values)) or {math.inf, -math.inf} <= set(values):
        return math.nan
    if infinite := [v for v in values if math.isinf(v)]:
        return infinite[0]
    exact = sum(map(Fraction, values), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


@given(st.lists(finite, max_size=12))
@settings(max_examples=examples(200))
def test_a_sum_is_what_fsum_gives(values: list[float]) -> None:
    total = total_of(values)
    assert total == rounded_once(values)
    with suppress(OverflowError):  # fsum gives up on intermediate overflow, exact digits do not
        assert total == math.fsum(values)


@given(st.lists(any_double, max_size=12), st.randoms(use_true_random=False), st.data())
@settings(max_examples=examples(200))
def test_what_is_taken_away_leaves_no_trace(values: list[float], rng: random.Random, data: st.DataObject) -> None:
    leaving = data.draw(st.sets(st.integers(0, len(values) - 1))) if values else set()
    changes = [(v, 1) for v in values] + [(values[i], -1) for i in leaving]
    rng.shuffle(changes)
    total = Accumulator(values)
    for value, sign in changes:
        total.apply(value, sign)
        if rng.random() < 0.3:
            total.normalise()
    assert same(total.value, rounded_once([v for i, v in enumerate(values) if i not in leaving]))


def test_digits_that_outgrow_32_bits_between_carries_are_summed_exactly() -> None:
    rng = np.random.default_rng(7)
    values = list(rng.standard_normal(2_000) * 10.0 ** rng.integers(-300, 300, 2_000))
    total = Accumulator(values)
    for value in values:
        total.apply(value, 1)
    total.row *= 500_000  # as if each had been added that often
    assert total.value == float(500_000 * sum(map(Fraction, values)))


@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3), st.integers(-60, 60), st.integers(54, 130))
def test_halves_are_rounded_to_even_and_more_than_half_upwards(values: list[float], power: int, gap: int) -> None:
    noise = [*values, *(-value for value in values)]
    even, half, bit = 2.0**power, 2.0 ** (power - 53), 2.0 ** (power - gap)
    assert total_of([*noise, even, half]) == even
    assert total_of([*noise, even, half, bit]) == even + 2 * half
    assert total_of([*noise, even, half, -bit]) == even
    assert total_of([*noise, -even, -half, -bit]) == -even - 2 * half
    assert total_of([*noise, even, 2 * half, half]) == even + 4 * half


@given(st.lists(finite, min_size=1, max_size=6), st.integers(1, 2**28))
def test_carrying_makes_digits_small_and_changes_no_sum(values: list[float], times: int) -> None:
    total = Accumulator(values)
    for value in values:
        total.apply(value, 1)
    total.row *= times
    before = total.value
    total.normalise()
    assert total.value == before
    assert all(-(2**31) <= digit < 2**31 for digit in total.row[0, DIGITS:-1])


@given(st.lists(any_integer, max_size=12), st.randoms(use_true_random=False), st.data())
@settings(max_examples=examples(150))
def test_sums_of_integers_are_exact_and_know_when_they_do_not_fit(
    values: list[int], rng: random.Random, data: st.DataObject
) -> None:
    leaving = data.draw(st.sets(st.integers(0, len(values) - 1))) if values else set()
    changes = [(v, 1) for v in values] + [(values[i], -1) for i in leaving]
    rng.shuffle(changes)
    row = np.zeros((1, exact_sum.INTEGER_DIGITS), np.int64)
    for value, sign in changes:
        exact_sum.add_integer(row, 0, 0, value, sign)
        if rng.random() < 0.3:
            exact_sum.normalise(row, 0, exact_sum.INTEGER_DIGITS)
    exact = sum(v for i, v in enumerate(values) if i not in leaving)
    number, fits = exact_sum.integer_of(row, 0, 0)
    assert fits == (-(2**63) <= exact < 2**63)
    assert not fits or number == exact
    assert exact_sum.double_of(row, 0, 0, exact_sum.INTEGER_DIGITS, 0, np.empty(4, np.int64)) == float(exact)


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=4))
@settings(max_examples=examples(120))
def test_rows_keep_their_sums_when_the_range_of_digits_grows_and_shrinks(pairs: list[tuple[float, float]]) -> None:
    layout, sums = AccumulatorLayout.smallest(2, (INTEGER, DOUBLE)), np.zeros((1, 1 + 2 + 3 + 2), np.int64)
    for step, pair in enumerate(pairs):
        need = exact_sum.digits_needed(bits(list(pair)), np.ones(2, np.uint8))
        wide = layout.with_room_for([(0, 0), need])
        sums = move_to_layout(sums, layout, wide, rows=1)
        for value in pair:
            place = int(bits([value])[0])
            exact_sum.add_double(sums, 0, wide.places[1], wide.lows[1], wide.special_places()[1], place, 1)
        exact_sum.add_integer(sums, 0, wide.places[0], -step, 1)
        sums, layout = trim_sums(sums, wide, np.zeros(1, np.int64))
    added = rounded_once([v for pair in pairs for v in pair])
    unit, scratch = 32 * layout.lows[1] + exact_sum.LOWEST_EXPONENT, np.empty(80, np.int64)
    assert exact_sum.double_of(sums, 0, layout.places[1], layout.sizes[1], unit, scratch) == added
    assert exact_sum.integer_of(sums, 0, layout.places[0])[0] == -sum(range(len(pairs)))
    assert sums.shape[1] == layout.places[-1]

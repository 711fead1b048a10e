"""The reference of aggregates, against expectations worked out by hand."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.aggregates import aggregate, called
from reference.letters import letters, row
from reference.semantics import relation_at
from reference.values import NAN

from tidegate.algebra.plan import Aggregate, AggregateCall, CountWindow, Granularity, Join, Map, Output, Window
from tidegate.expressions.nodes import TRUE, Column
from tidegate.schema import Type


def of(function: str, *values: object, type_: Type = Type.DOUBLE, options: tuple[float, ...] = ()) -> object:
    return aggregate(function, values, type_, options=options)


def called_on(function: str, *elements: tuple[int, object, object], distinct: bool = False) -> object:
    """The call over elements of (start, a, b)."""
    others = ("b",) if function.startswith("arg") else ()
    call = AggregateCall(function, "a", "n", Type.INT, others, distinct=distinct)
    return called(call, [(start, {"a": a, "b": b}) for start, a, b in elements])


def test_first_and_last_go_by_own_time_and_then_by_value() -> None:
    elements = [(3, 7, 0), (1, 5, 0), (1, 4, 0), (3, 6, 0), (0, None, 0), (9, None, 0)]
    assert called_on("first", *elements) == 4
    assert called_on("last", *elements) == 7
    assert called_on("first", (1, None, 0)) is called_on("last", (1, None, 0)) is None
    assert called_on("last", (1, math.inf, 0), (1, NAN, 0)) is NAN


def test_the_own_time_of_a_pair_is_the_later_one_and_no_window_or_granularity_moves_that_of_an_element() -> None:
    calls = (AggregateCall("first", "e", "f", Type.STRING), AggregateCall("last", "e", "l", Type.STRING))
    raw = {"s": [(0, row("c")), (1, row("b")), (2, row("a"))]}
    assert relation_at(Aggregate(Window(letters("s"), 5), (), calls), raw, 3) == Counter([("c", "a")])
    assert relation_at(Aggregate(Window(letters("s"), 4, 4), (), calls), raw, 3) == Counter([("c", "a")])
    coarse = Granularity(Window(letters("s"), 9), 4)
    assert relation_at(Aggregate(coarse, (), calls), raw, 4) == Counter([("c", "a")])
    assert relation_at(Aggregate(CountWindow(letters("s"), 3, 3), (), calls), raw, 4) == Counter([("c", "a")])
    right = Map(Window(letters("s"), 2), (Output("r", Column("e", Type.STRING)),))
    pairs = Join(Window(letters("s"), 5), right, TRUE)
    assert relation_at(Aggregate(pairs, (), calls), raw, 2) == Counter([("b", "c")])


def test_variance_is_that_of_a_sample_unless_it_says_otherwise() -> None:
    assert of("variance", 1, 2, 3, 4) == 5 / 3
    assert of("var_pop", 1, 2, 3, 4) == 1.25
    assert of("stddev", 1.0, None, 3.0) == math.sqrt(2.0)
    assert of("stddev_pop", 1.0, 3.0) == 1.0
    assert of("variance", 1.0) is of("stddev", 1.0) is of("var_pop", None) is of("stddev_pop") is None
    assert of("var_pop", 7.5) == of("stddev_pop", 7.5) == 0.0


def test_variance_is_exact_until_it_is_rounded() -> None:
    assert of("variance", 1e16, 1e16 + 2) == 2.0
    assert of("var_pop", 2**62, 2**62 + 1) == 0.25
    assert of("variance", 0.1, 0.1, 0.1) == 0.0
    assert of("variance", 1e300, -1e300) == of("stddev", 1e300, -1e300) == math.inf


@pytest.mark.parametrize("wild", [math.inf, -math.inf, NAN])
def test_the_spread_of_what_is_not_finite_is_nan(wild: float) -> None:
    assert of("variance", wild, 1.0) is of("stddev", wild, wild) is of("var_pop", wild) is NAN


def test_a_quantile_lies_between_two_values() -> None:
    assert of("median", 3, 1, 2) == 2.0
    assert of("median", 4, 1, None, 2, 3) == 2.5
    assert of("quantile", 10, 20, 30, options=(0.25,)) == 15.0
    assert of("quantile", *range(11), options=(0.9,)) == 9.0
    assert [of("quantile", 5.0, 1.0, options=(share,)) for share in (0.0, 0.5, 1.0)] == [1.0, 3.0, 5.0]
    assert of("quantile", None, options=(0.5,)) is None
    assert of("median", 2**62, 2**62 + 2) == float(2**62 + 1)
    assert of("median", -1e308, 1e308) == 0.0


def test_a_quantile_knows_infinities_and_nan() -> None:
    assert of("median", 1.0, math.inf) == math.inf
    assert of("median", -math.inf, 1.0) == -math.inf
    assert of("median", math.inf, math.inf) == math.inf
    assert of("median", -math.inf, math.inf) is of("median", 1.0, NAN) is NAN
    assert of("median", 1.0, 2.0, NAN) == 2.0


def test_arg_max_and_arg_min_take_the_smallest_of_ties() -> None:
    elements = [(0, 5, 2), (0, 3, 2), (0, None, 2), (0, 9, 1), (0, 8, 1), (0, 1, None)]
    assert called_on("arg_max", *elements) == 3
    assert called_on("arg_min", *elements) == 8
    assert called_on("arg_max", (0, None, 4), (0, 1, 3)) is None
    assert called_on("arg_max", (0, 1, None)) is None
    assert called_on("arg_max", (0, 1, math.inf), (0, 2, NAN)) == 2


def test_with_distinct_each_value_counts_once() -> None:
    elements = [(0, 1.0, 0), (1, 1.0, 0), (2, NAN, 0), (3, NAN, 0), (4, None, 0)]
    assert called_on("count", *elements, distinct=True) == 2
    assert called_on("count", *elements) == 4
    assert called_on("sum", (0, 2, 0), (0, 2, 0), (0, 3, 0), distinct=True) == 5
    assert called_on("avg", (0, 2, 0), (0, 2, 0), (0, 3, 0), distinct=True) == 2.5


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=8))
def test_the_variance_of_a_population_is_the_mean_of_squares_without_the_square_of_the_mean(values: list[int]) -> None:
    n = len(values)
    assert of("var_pop", *values) == (n * sum(v * v for v in values) - sum(values) ** 2) / n**2

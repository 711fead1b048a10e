"""Which windows and granularities may change while a query runs, and between which sizes."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.algebra.adaptable import granule_chain, has_range, is_adaptable, why_fixed, worst_sizes
from tidegate.algebra.plan import (
    Aggregate,
    Change,
    Changes,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Map,
    Output,
    Plan,
    Scan,
    Split,
    Stamp,
    Union,
    Validity,
    Window,
)
from tidegate.algebra.properties import ends_in_order, validity_bound
from tidegate.expressions.nodes import TRUE, Column
from tidegate.schema import Schema, Type

RAW = Scan("s", Schema.of(k=Type.INT))
LASTING = Scan("s", RAW.schema, validity=Validity.INTERVAL)
TABLE = Scan("s", RAW.schema, validity=Validity.RELATION)
RENAMED = Map(RAW, (Output("j", Column("k", Type.INT)),))


@pytest.mark.parametrize(
    "plan",
    [
        Window(RAW, 5, least=2),
        Window(RAW, 5, 3, least=2),
        Window(Filter(RENAMED, TRUE), 5, least=4),
        Window(Union((RAW, RAW)), 5, least=4),
        Window(Stamp(Split(RAW, 1), "t"), 5, least=4),
        CountWindow(RAW, 5, 1, ("k",), least=2),
        Granularity(RAW, 2, coarsest=4),
        Granularity(Window(RAW, 5, 2), 2, coarsest=4),
        Granularity(Window(RAW, 5, least=2), 2, coarsest=4),
        Granularity(Granularity(RAW, 2, coarsest=4), 4, coarsest=8),
        Granularity(LASTING, 2, coarsest=5),
    ],
)
def test_windows_over_elements_as_they_arrive_are_adaptable(plan: Plan) -> None:
    assert is_adaptable(plan)


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (CountWindow(RAW, 5, 2, least=2), "steps of rows"),
        (Window(Granularity(RAW, 2, coarsest=4), 6, least=2), "granules"),
        (Window(Granularity(RAW, 2), 6, least=2), "granules"),
        (CountWindow(Granularity(RAW, 2), 6, least=2), "granules"),
        (Window(LASTING, 5, least=2), "rows that last"),
        (CountWindow(LASTING, 5, least=2), "rows that last"),
        (Window(Window(RAW, 5), 5, least=2), "rows that last"),
        (Window(Distinct(Window(RAW, 5)), 5, least=2), "keeps rows"),
        (Window(Changes(RAW, Change.INSERTED), 5, least=2), "keeps rows"),
        (Granularity(Aggregate(RAW, (), ()), 2, coarsest=4), "keeps rows"),
        (Granularity(CountWindow(RAW, 5), 2, coarsest=4), "keeps rows"),
        (Granularity(Window(LASTING, 3), 2, coarsest=4), "keeps rows"),
        (Granularity(TABLE, 2, coarsest=4), "table"),
    ],
)
def test_others_are_not_and_it_is_known_why(plan: Plan, why: str) -> None:
    assert has_range(plan)
    assert not is_adaptable(plan)
    assert why in (why_fixed(plan) or "")


@pytest.mark.parametrize(
    "plan", [RAW, Window(RAW, 5), Window(RAW, 5, least=5), Window(RAW, None), Granularity(RAW, 4, coarsest=7)]
)
def test_without_a_second_size_nothing_can_change(plan: Plan) -> None:
    assert not has_range(plan)
    assert not is_adaptable(plan)


@given(st.integers(1, 40), st.integers(1, 400))
def test_granules_form_a_chain_in_which_each_divides_the_next(finest: int, coarsest: int) -> None:
    chain = granule_chain(Granularity(RAW, finest, coarsest=coarsest))
    steps = [b // a for a, b in pairwise(chain)]
    assert chain[0] == finest
    assert chain[-1] == max(coarsest // finest, 1) * finest
    assert all(b % a == 0 and b > a for a, b in pairwise(chain))
    assert all(step % other for step in steps for other in range(2, step)), "there is a size between"
    assert finest * prod(steps) == chain[-1]


def test_lengths_are_those_of_the_largest_size() -> None:
    assert validity_bound(Window(RAW, 9, least=2)) == 9
    assert validity_bound(Granularity(Window(RAW, 3), 2, coarsest=8)) == 8


def test_ends_are_not_in_order_where_sizes_may_shrink() -> None:
    """Erratum E-44."""
    assert ends_in_order(Window(RAW, 9))
    assert not ends_in_order(Window(RAW, 9, least=2))
    assert not ends_in_order(CountWindow(RAW, 9, least=2))
    assert not ends_in_order(Granularity(Window(RAW, 9), 2, coarsest=4))


def test_plans_with_the_same_key_can_differ_in_their_worst_sizes() -> None:
    plan = Granularity(Window(RAW, 9, least=2), 2, coarsest=8)
    assert worst_sizes(plan) == (8, 2)
    assert worst_sizes(Window(LASTING, 9, least=2)) == ()

"""Properties of plans, the plans refused for them, and plans as text."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from tidegate.algebra.explain import explain, in_words
from tidegate.algebra.plan import (
    Aggregate,
    AggregateCall,
    Distinct,
    Filter,
    Join,
    Map,
    Output,
    Plan,
    Scan,
    Union,
    Window,
)
from tidegate.algebra.properties import is_chronon, refuse_unsupported, validity_bound
from tidegate.errors import QueryError, Span
from tidegate.expressions.nodes import TRUE, Column
from tidegate.schema import Schema, Type

RAW = Scan("s", Schema.of(a=Type.INT))
HOUR = 3_600_000_000


def windowed(size: int | None, slide: int = 1) -> Plan:
    return Window(RAW, size, slide, Span(3, 7))


def renamed(plan: Plan, name: str) -> Plan:
    return Map(plan, (Output(name, Column("a", Type.INT)),))


def counted(plan: Plan) -> Plan:
    return Aggregate(plan, (), (AggregateCall("count", None, "n", Type.BIGINT),))


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (RAW, True),
        (Filter(RAW, TRUE), True),
        (renamed(RAW, "b"), True),
        (Union((RAW, RAW)), True),
        (Union((RAW, windowed(5))), False),
        (windowed(5), False),
        (windowed(None), False),
        (Filter(windowed(5), TRUE), False),
        (Join(RAW, windowed(5), TRUE), True),
        (Join(windowed(5), windowed(5), TRUE), False),
        (counted(RAW), False),
        (Distinct(RAW), False),
    ],
)
def test_elements_of_an_instant_are_known(plan: Plan, *, expected: bool) -> None:
    assert is_chronon(plan) is expected


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (RAW, 1),
        (windowed(5), 5),
        (windowed(None), None),
        (windowed(10, 5), 10),
        (windowed(10, 4), 12),
        (windowed(3, 10), 10),
        (renamed(Filter(windowed(5), TRUE), "b"), 5),
        (Union((windowed(5), windowed(7))), 7),
        (Union((windowed(5), windowed(None))), None),
        (Join(windowed(5), windowed(7), TRUE), 5),
        (Join(windowed(None), windowed(7), TRUE), 7),
        (Join(windowed(None), windowed(None), TRUE), None),
        (counted(windowed(5)), 5),
        (Distinct(windowed(5)), 5),
        (Window(windowed(5), 3), 7),
    ],
)
def test_the_longest_validity_is_known(plan: Plan, expected: int | None) -> None:
    assert validity_bound(plan) == expected


@pytest.mark.parametrize("size", range(1, 8))
@pytest.mark.parametrize("slide", range(1, 8))
def test_the_bound_of_a_window_is_what_its_definition_gives(size: int, slide: int) -> None:
    def is_valid(t: int, at: int) -> bool:
        k = (at + 1) // slide  # PIPES, formula 17.1
        return k * slide - size <= t <= k * slide - 1

    longest = max(sum(is_valid(t, at) for at in range(-40, 41)) for t in range(-10, 10))
    bound = validity_bound(windowed(size, slide))
    assert bound is not None
    assert longest <= bound < longest + slide


@pytest.mark.parametrize(
    "plan",
    [
        counted(windowed(None)),
        Distinct(windowed(None)),
        Join(RAW, windowed(None), TRUE),
        Join(windowed(None), RAW, TRUE),
        Distinct(Union((RAW, Filter(windowed(None), TRUE)))),
    ],
)
def test_state_without_bound_is_refused_at_the_window(plan: Plan) -> None:
    with pytest.raises(QueryError) as caught:
        refuse_unsupported(renamed(plan, "b"))
    assert (caught.value.code, caught.value.span) == ("Q201", Span(3, 7))


@pytest.mark.parametrize("below", [windowed(5), counted(RAW), Distinct(RAW)])
def test_a_window_over_longer_validities_is_refused(below: Plan) -> None:
    with pytest.raises(QueryError) as caught:
        refuse_unsupported(Window(below, 5, 1, Span(1, 2)))
    assert (caught.value.code, caught.value.span) == ("Q202", Span(1, 2))


@pytest.mark.parametrize("plan", [RAW, windowed(None), Filter(windowed(None), TRUE), Window(Join(RAW, RAW, TRUE), 5)])
def test_other_plans_are_accepted(plan: Plan) -> None:
    refuse_unsupported(plan)


def test_durations_are_in_the_largest_whole_unit() -> None:
    assert [in_words(n) for n in (1, 7, 1000, 90_000_000, HOUR, 5 * HOUR, 48 * HOUR)] == [
        "1 microsecond",
        "7 microseconds",
        "1 millisecond",
        "90 seconds",
        "1 hour",
        "5 hours",
        "2 days",
    ]


def test_a_plan_is_an_indented_tree() -> None:
    left, right = renamed(windowed(5 * HOUR, HOUR), "l.a"), renamed(windowed(None), "r.a")
    plan = Distinct(counted(Union((Join(left, right, TRUE), Filter(left, TRUE)))))
    assert explain(plan) == snapshot("""\
Distinct
  Aggregate count(*) AS n
    Union all
      Join all pairs
        Rename to l
          Window range 5 hours slide 1 hour
            Scan s
        Rename to r
          Window range unbounded
            Scan s
      Filter TRUE
        Rename to l
          Window range 5 hours slide 1 hour
            Scan s\
""")

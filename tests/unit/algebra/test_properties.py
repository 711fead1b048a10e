"""Properties of plans, the plans refused for them, and plans as text."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from tidegate.algebra.explain import describe, duration_text, explain
from tidegate.algebra.own_times import stamp_own_times
from tidegate.algebra.plan import (
    Aggregate,
    AggregateCall,
    Change,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Output,
    Plan,
    Scan,
    SemiJoin,
    SetOperation,
    SetRule,
    Split,
    Stamp,
    Union,
    Validity,
    Window,
)
from tidegate.algebra.properties import (
    ValidityExtent,
    ends_in_order,
    is_chronon,
    is_reducible,
    regions,
    unique_keys,
    validity_bound,
    validity_extent,
)
from tidegate.algebra.refusals import refuse_unsupported
from tidegate.errors import InternalError, QueryError, Span
from tidegate.expressions.nodes import TRUE, Call, Column
from tidegate.schema import Schema, Type

RAW = Scan("s", Schema.of(a=Type.INT))
LASTING = Scan("i", Schema.of(a=Type.INT), validity=Validity.INTERVAL)
TABLE = Scan("t", Schema.of(b=Type.INT), validity=Validity.RELATION)
PAIRS = Scan("s", Schema.of(a=Type.INT, b=Type.INT))
OTHERS = Scan("r", Schema.of(c=Type.INT, d=Type.INT))
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
        (LASTING, False),
        (TABLE, False),
        (Join(TABLE, RAW, TRUE), True),
        (Window(Distinct(RAW), 1), True),
        (Split(windowed(5), 1), True),
        (Split(windowed(5), 2), False),
        (Split(RAW, 2), True),
        (Coalesce(RAW, 1), True),
        (Coalesce(RAW, 2), False),
        (Granularity(RAW, 2), False),
        (CountWindow(RAW, 1), False),
        (SemiJoin(RAW, RAW, TRUE), False),
        (SetOperation(RAW, RAW, SetRule.EXCEPT), False),
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


@pytest.mark.parametrize(
    "plan",
    [
        Window(windowed(HOUR), 5, 1, Span(1, 2)),
        Window(counted(windowed(HOUR)), 5, 1, Span(1, 2)),
        Window(windowed(None), 5, 1, Span(1, 2)),
        Window(Distinct(CountWindow(RAW, 3)), 5, 1, Span(1, 2)),
        CountWindow(windowed(HOUR), 5, 1, (), Span(1, 2)),
        Split(windowed(HOUR), 1, Span(1, 2)),
        Split(TABLE, 1, Span(1, 2)),
    ],
)
def test_validities_that_would_fall_into_too_many_pieces_are_refused(plan: Plan) -> None:
    with pytest.raises(QueryError) as caught:
        refuse_unsupported(plan)
    assert (caught.value.code, caught.value.span) == ("Q202", Span(1, 2))


def test_the_refusal_of_too_many_pieces_says_what_to_write() -> None:
    with pytest.raises(QueryError) as caught:
        refuse_unsupported(Window(counted(windowed(HOUR)), 5))
    assert str(caught.value) == snapshot("""\
error[Q202]: a window over elements that are valid for up to 1 hour would make 3600000000 pieces of each
   = hint: read its rows as they appear, with ISTREAM(…), or in steps: FROM (SELECT * FROM … GRANULARITY(1 MINUTE))\
""")


@pytest.mark.parametrize(
    "plan",
    [
        Granularity(Granularity(windowed(60), 20), 50, Span(1, 2)),
        Window(Granularity(RAW, 20), 50, 1, Span(1, 2)),
        Window(Granularity(RAW, 20), 60, 30, Span(1, 2)),
    ],
)
def test_time_only_becomes_coarser(plan: Plan) -> None:
    with pytest.raises(QueryError) as caught:
        refuse_unsupported(plan)
    assert (caught.value.code, caught.value.span) == ("Q203", Span(1, 2))


@pytest.mark.parametrize(
    "plan",
    [
        RAW,
        windowed(None),
        Filter(windowed(None), TRUE),
        Window(Join(RAW, RAW, TRUE), 5),
        Window(windowed(5), 5),
        Window(counted(windowed(1000)), 5),
        Window(Distinct(LASTING), 5),
        Window(Changes(counted(windowed(HOUR)), Change.INSERTED), HOUR),
        Changes(windowed(None), Change.INSERTED),
        Split(windowed(HOUR), HOUR // 60),
        Join(windowed(5), TABLE, TRUE),
        Join(RAW, TABLE, TRUE),
        counted(CountWindow(RAW, 10)),
        counted(CountWindow(RAW, 10, 1, ("a",))),
        counted(TABLE),
        Granularity(Granularity(windowed(60), 20), 40),
        Window(Granularity(RAW, 20), 60, 40),
    ],
)
def test_other_plans_are_accepted(plan: Plan) -> None:
    refuse_unsupported(plan)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (RAW, ValidityExtent(1, ends=True, bounded=True)),
        (LASTING, ValidityExtent(None, ends=True, bounded=True)),
        (TABLE, ValidityExtent(None, ends=False, bounded=True)),
        (windowed(None), ValidityExtent(None, ends=False, bounded=False)),
        (CountWindow(RAW, 3), ValidityExtent(None, ends=False, bounded=True)),
        (CountWindow(RAW, None), ValidityExtent(None, ends=False, bounded=False)),
        (Granularity(windowed(5), 4), ValidityExtent(8, ends=True, bounded=True)),
        (Split(windowed(5), 2), ValidityExtent(2, ends=True, bounded=True)),
        (Split(LASTING, 2), ValidityExtent(2, ends=True, bounded=True)),
        (Changes(windowed(None), Change.DELETED), ValidityExtent(1, ends=True, bounded=True)),
        (Join(windowed(5), TABLE, TRUE), ValidityExtent(5, ends=True, bounded=True)),
        (Join(windowed(None), TABLE, TRUE), ValidityExtent(None, ends=False, bounded=False)),
        (SetOperation(windowed(5), windowed(7), SetRule.EXCEPT), ValidityExtent(5, ends=True, bounded=True)),
        (SetOperation(windowed(5), windowed(7), SetRule.INTERSECT), ValidityExtent(5, ends=True, bounded=True)),
        (SetOperation(windowed(5), windowed(7), SetRule.MAX_UNION), ValidityExtent(7, ends=True, bounded=True)),
        (SemiJoin(windowed(5), windowed(7), TRUE), ValidityExtent(5, ends=True, bounded=True)),
    ],
)
def test_it_is_known_how_long_elements_are_valid_and_whether_they_are_few(plan: Plan, expected: ValidityExtent) -> None:
    assert validity_extent(plan) == expected


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (RAW, True),
        (LASTING, False),
        (windowed(5), True),
        (windowed(None), False),
        (Filter(windowed(5), TRUE), True),
        (Union((RAW, RAW)), True),
        (Union((windowed(5), RAW)), False),
        (Join(windowed(5), windowed(5), TRUE), False),
        (Join(windowed(5), RAW, TRUE), True),
        (Split(windowed(5), 2), True),
        (Split(windowed(5), 3), False),  # erratum E-05
        (CountWindow(RAW, 3), True),
        (CountWindow(RAW, 3, 1, ("a",)), False),
        (counted(windowed(5)), True),
        (Aggregate(windowed(5), ("a",), ()), False),
        (Distinct(windowed(5)), False),
        (Coalesce(windowed(5), 9), False),
        (Granularity(windowed(5), 3), True),
    ],
)
def test_it_is_known_whether_elements_end_in_the_order_in_which_they_start(plan: Plan, *, expected: bool) -> None:
    assert ends_in_order(plan) is expected


GROUPED = Aggregate(PAIRS, ("a",), (AggregateCall("count", None, "n", Type.BIGINT),))
B_EQUALS_A = Call("=", (Column("c", Type.INT), Column("a", Type.INT)), Type.BOOLEAN)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (PAIRS, []),
        (GROUPED, ["a"]),
        (counted(PAIRS), [""]),
        (Distinct(PAIRS), ["ab"]),
        (Distinct(GROUPED), ["a"]),
        (Filter(GROUPED, TRUE), ["a"]),
        (Window(GROUPED, 5), []),
        (Window(GROUPED, 1), ["a"]),
        (Changes(GROUPED, Change.INSERTED), ["a"]),
        (CountWindow(PAIRS, 1, 1, ("a",)), ["a"]),
        (CountWindow(PAIRS, 2, 1, ("a",)), []),
        (Limit(PAIRS, (), 1, 0, ("b",)), ["b"]),
        (Limit(PAIRS, (), 1), [""]),
        (renamed(GROUPED, "x"), ["x"]),
        (Map(GROUPED, (Output("n", Column("n", Type.BIGINT)),)), []),
        (Union((GROUPED, GROUPED)), []),
        (Join(GROUPED, OTHERS, TRUE), []),
        (Join(OTHERS, GROUPED, B_EQUALS_A), []),
        (Join(Distinct(OTHERS), GROUPED, B_EQUALS_A), ["cd"]),
        (Join(Distinct(OTHERS), GROUPED, TRUE), ["acd"]),
        (SemiJoin(GROUPED, OTHERS, TRUE), ["a"]),
        (SetOperation(PAIRS, OTHERS, SetRule.EXCEPT), ["ab"]),
        (SetOperation(PAIRS, OTHERS, SetRule.EXCEPT_ALL), []),
        (SetOperation(PAIRS, Distinct(OTHERS), SetRule.INTERSECT_ALL), ["ab"]),
        (SetOperation(Distinct(PAIRS), Distinct(OTHERS), SetRule.MAX_UNION), ["ab"]),
    ],
)
def test_columns_that_are_unique_at_every_instant_are_known(plan: Plan, expected: list[str]) -> None:
    assert sorted("".join(sorted(key)) for key in unique_keys(plan)) == expected


def test_regions_grow_from_below_until_the_next_window() -> None:
    inner = Filter(windowed(5), TRUE)
    grouped = counted(Split(inner, 2))
    plan = renamed(Join(Window(grouped, 5), Distinct(windowed(7)), TRUE), "b")
    described = [[describe(o).split()[0] for o in region.operators] for region in regions(plan)]
    assert described == [["Map", "Join", "Distinct"], ["Aggregate", "Split", "Filter"]]


def test_an_aggregate_that_looks_at_own_times_is_in_no_region() -> None:
    first = Aggregate(windowed(5), (), (AggregateCall("first", "a", "x", Type.INT),))
    assert [is_reducible(p) for p in (counted(RAW), first, windowed(5), Granularity(RAW, 5), Split(RAW, 1))] == [
        True,
        False,
        False,
        False,
        True,
    ]


def first(plan: Plan) -> Plan:
    return Aggregate(plan, (), (AggregateCall("first", "a", "x", Type.INT),), Span(1, 2))


@pytest.mark.parametrize("below", [Distinct(windowed(5)), Limit(RAW, (), 3), Coalesce(windowed(5), 9)])
def test_first_and_last_are_refused_where_rows_have_no_time_of_their_own(below: Plan) -> None:
    with pytest.raises(QueryError) as caught:
        refuse_unsupported(first(Filter(below, TRUE)))
    assert (caught.value.code, caught.value.span) == ("Q206", Span(1, 2))
    refuse_unsupported(first(Window(Changes(below, Change.INSERTED), 5)))
    with pytest.raises(InternalError):
        stamp_own_times(first(Filter(below, TRUE)))


HOURLY = Aggregate(windowed(HOUR), (), (AggregateCall("max", "a", "a", Type.INT),))


@pytest.mark.parametrize(
    "plan",
    [
        Distinct(Window(HOURLY, HOUR)),
        Aggregate(Filter(Window(HOURLY, HOUR), TRUE), (), (AggregateCall("min", "a", "x", Type.INT),)),
        Aggregate(Window(HOURLY, HOUR), (), (AggregateCall("count", "a", "x", Type.BIGINT, distinct=True),)),
        SemiJoin(RAW, renamed(Window(HOURLY, HOUR), "b"), TRUE),
        Distinct(Window(CountWindow(RAW, 3), HOUR)),
        counted(Window(Granularity(HOURLY, HOUR // 60), HOUR)),
        CountWindow(Granularity(HOURLY, HOUR // 60), 5),
    ],
)
def test_windows_over_elements_that_last_are_accepted_for_sets_and_in_granules(plan: Plan) -> None:
    refuse_unsupported(plan)


@pytest.mark.parametrize(
    "plan",
    [
        counted(Window(HOURLY, HOUR)),
        Window(HOURLY, HOUR),
        Distinct(Window(HOURLY, HOUR, 2 * HOUR)),
        Distinct(counted(Window(HOURLY, HOUR))),
        SemiJoin(renamed(Window(HOURLY, HOUR), "b"), RAW, TRUE),
        first(Window(HOURLY, HOUR)),
        Distinct(CountWindow(HOURLY, 5)),
    ],
)
def test_windows_over_elements_that_last_are_refused_where_it_counts_how_often_a_row_is_there(plan: Plan) -> None:
    with pytest.raises(QueryError) as caught:
        refuse_unsupported(plan)
    assert caught.value.code == "Q202"


def test_a_stamp_takes_the_rows_of_a_source_as_they_are_and_those_of_others_instant_by_instant() -> None:
    row, rest = Stamp(Filter(LASTING, TRUE), "t"), Stamp(Distinct(windowed(5)), "t")
    assert (is_chronon(row), is_chronon(rest), validity_bound(rest)) == (False, True, 1)
    assert (is_chronon(Stamp(RAW, "t")), unique_keys(Stamp(GROUPED, "t"))) == (True, unique_keys(GROUPED))


def test_durations_are_in_the_largest_whole_unit() -> None:
    assert [duration_text(n) for n in (1, 7, 1000, 90_000_000, HOUR, 5 * HOUR, 48 * HOUR)] == [
        "1 microsecond",
        "7 microseconds",
        "1 millisecond",
        "1 minute 30 seconds",
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

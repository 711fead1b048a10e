"""The heart of the tests: whatever the plan, the data and its arrival, the output is the meaning."""

from __future__ import annotations

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from reference.changes import is_finite
from reference.instants import interesting_instants_of, snapshots
from reference.semantics import Elements, elements_of, relations_of
from strategies.plans import FUNCTIONS, KINDS, deliveries, plans, sources, streams
from support.examples import examples
from support.harness import rows_of, run, run_elements, run_sources

from tidegate.algebra.plan import Aggregate, AggregateCall, Distinct, Join, Plan, Scan, Window, walk
from tidegate.expressions.nodes import Call, Column
from tidegate.schema import Schema, Type

modes = pytest.mark.parametrize("optimized", [False, True], ids=["as_written", "optimised"])

TAKEN_FOR_GRANTED = frozenset(KINDS) - {"filter", "map", "window", "join", "aggregate", "union"}
"""What stands below an operator that is looked at by itself."""


def assert_rows_mean(rows, plan: Plan, given_elements: Elements) -> None:
    for node in walk(plan):
        event(type(node).__name__)
    assert all(start < end for start, end, _ in rows), "an empty validity"
    instants = interesting_instants_of(plan, given_elements, rows)
    assert snapshots(rows, instants) == relations_of(plan, given_elements, instants)


@st.composite
def raw_cases(draw, delay: int):
    source = draw(streams())
    return draw(plans(source)), source, draw(deliveries(source, delay))


@st.composite
def cases(draw: st.DrawFn, /, delay: int, *, crowded: bool = False, **limits):
    """With `crowded`, many elements within a few instants, where operators have most to do."""
    source = draw(sources(size=14, times=(0, 5)) if crowded else sources())
    return draw(plans(source, **limits)), source, draw(deliveries(source, delay))


@modes
@given(raw_cases(delay=0))
@settings(max_examples=examples(60))
def test_output_is_the_relation_at_every_instant_of_ordered_streams(optimized, case):
    plan, source, delivery = case
    rows = rows_of(run(plan, source, delivery, delay=0, optimized=optimized))
    assert_rows_mean(rows, plan, elements_of(source.elements))


@modes
@given(raw_cases(delay=3))
@settings(max_examples=examples(60))
def test_output_is_the_relation_at_every_instant_in_any_order_within_the_delay(optimized, case):
    plan, source, delivery = case
    rows = rows_of(run(plan, source, delivery, delay=3, optimized=optimized))
    assert_rows_mean(rows, plan, elements_of(source.elements))


@modes
@given(cases(delay=2))
@settings(max_examples=examples(60))
def test_output_is_the_relation_at_every_instant_of_validities_and_tables(optimized, case):
    plan, source, delivery = case
    rows = rows_of(run_sources(plan, source, delivery, optimized=optimized))
    assert_rows_mean(rows, plan, source.elements)


@modes
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=examples(15))
def test_an_operator_at_the_root_gives_its_relation_at_every_instant(kind, optimized, data):
    depth = data.draw(st.sampled_from([2, 3]))
    plan, source, delivery = data.draw(cases(2, crowded=True, depth=depth, root=kind, without=TAKEN_FOR_GRANTED))
    rows = rows_of(run_sources(plan, source, delivery, optimized=optimized))
    assert_rows_mean(rows, plan, source.elements)


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
@settings(max_examples=examples(15))
def test_an_aggregate_gives_its_relation_at_every_instant(function, data):
    others = (TAKEN_FOR_GRANTED | frozenset(FUNCTIONS) | {"aggregate"}) - {function}
    plan, source, delivery = data.draw(cases(2, crowded=True, depth=2, root="aggregate", without=others))
    assert_rows_mean(rows_of(run_sources(plan, source, delivery)), plan, source.elements)


@pytest.mark.parametrize("buckets", [1, 2, 5])
@given(case=cases(delay=0))
@settings(max_examples=examples(15))
def test_cuts_and_buckets_do_not_change_the_meaning(buckets, case):
    plan, source, delivery = case
    for arrivals in (delivery.arrivals, _at_once(delivery.arrivals)):
        rows = rows_of(run_sources(plan, source, type(delivery)(arrivals, buckets)))
        assert_rows_mean(rows, plan, source.elements)


@pytest.mark.parametrize(("buckets", "most_pairs"), [(1, 1), (2, 3)])
@given(data=st.data())
@settings(max_examples=examples(30))
def test_a_step_that_is_done_in_pieces_means_the_same(buckets, most_pairs, data):
    root = data.draw(st.sampled_from(["join", "aggregate", "semi_join"]))
    plan, source, delivery = data.draw(cases(2, crowded=True, depth=3, root=root))
    for arrivals in (delivery.arrivals, _at_once(delivery.arrivals)):
        rows = rows_of(run_sources(plan, source, type(delivery)(arrivals, buckets), most_pairs=most_pairs))
        assert_rows_mean(rows, plan, source.elements)


def _at_once(arrivals):
    """All elements in one arrival that finishes every stream."""
    end = arrivals[-1]
    merged = {name: [e for arrival in arrivals for e in arrival.elements[name]] for name in end.elements}
    return (type(end)(merged, end.watermarks),)


OWN_TIMES = frozenset(KINDS) | frozenset(FUNCTIONS)
MOVED = {"granularity", "count_window", "validity_window", "window"}
PAIRED = {"join", "semi_join", "union", "map", "window"}


@modes
@pytest.mark.parametrize("kinds", [MOVED, PAIRED], ids=["moved", "paired"])
@given(data=st.data())
@settings(max_examples=examples(30))
def test_first_and_last_go_by_own_time_whatever_moved_the_elements(kinds, optimized, data):
    without = OWN_TIMES - kinds - {"first", "last"}
    plan, source, delivery = data.draw(cases(2, crowded=True, depth=3, root="aggregate", without=without))
    rows = rows_of(run_sources(plan, source, delivery, optimized=optimized))
    assert_rows_mean(rows, plan, source.elements)


def test_the_own_time_of_a_pair_is_the_later_one():
    """Not that of one side: 1 with 8 begins after 2 with 7."""
    schemas = {"a": Schema.of(x=Type.INT), "b": Schema.of(y=Type.INT)}
    given_elements = {
        "a": [(1, 2, {"x": 1}), (2, 3, {"x": 2})],
        "b": [(7, 8, {"y": 2}), (8, 9, {"y": 1})],
    }
    both = Call("=", (Column("x", Type.INT), Column("y", Type.INT)), Type.BOOLEAN)
    left, right = (Window(Scan(name, schema), 10, 10) for name, schema in schemas.items())
    calls = tuple(AggregateCall(each, "x", each, Type.INT) for each in ("first", "last"))
    plan = Aggregate(Join(left, right, both), (), calls)
    rows = rows_of(run_elements(plan, given_elements, buckets=1, cuts=2))
    assert {values for _, _, values in rows} == {(2, 1)}
    assert snapshots(rows, range(25)) == relations_of(plan, given_elements, range(25))


@st.composite
def granular_cases(draw):
    """Windows over groups of time in granules; groups are cut at watermarks."""
    source = draw(sources(size=14, times=(0, 5)))
    coarse = draw(plans(source, depth=2, root="granularity", without=frozenset(KINDS) - {"window"}).filter(is_finite))
    calls = (AggregateCall("max", coarse.schema.names[0], "top", coarse.schema.fields[0].type),)
    grouped = draw(st.sampled_from([Distinct(coarse), Aggregate(coarse, (), calls)]))
    steps, slide = draw(st.integers(1, 3)), draw(st.sampled_from([1, coarse.size, 2 * coarse.size]))
    return Window(grouped, steps * coarse.size, slide), source, draw(deliveries(source, 2))


@modes
@given(granular_cases())
@settings(max_examples=examples(40))
def test_a_window_over_groups_in_granules_counts_each_granule_once(optimized, case):
    plan, source, delivery = case
    rows = rows_of(run_sources(plan, source, delivery, optimized=optimized))
    assert_rows_mean(rows, plan, source.elements)


@modes
@pytest.mark.parametrize("root", ["validity_window", "count_window", "distinct", "semi_join", "set_operation"])
@given(data=st.data())
@settings(max_examples=examples(15))
def test_windows_over_elements_that_last_take_each_granule_or_whole_elements(root, optimized, data):
    without = frozenset(KINDS) - {"validity_window", "granularity", "window", "union", "join", "aggregate"}
    plan, source, delivery = data.draw(cases(2, crowded=True, depth=4, root=root, without=without))
    rows = rows_of(run_sources(plan, source, delivery, optimized=optimized))
    assert_rows_mean(rows, plan, source.elements)

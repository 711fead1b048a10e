"""The heart of the tests: whatever the plan, the data and its arrival, the output is the meaning."""

from __future__ import annotations

import pytest
from harness import rows_of, run, run_sources
from hypothesis import event, given, settings
from hypothesis import strategies as st
from reference.instants import interesting_instants_of, snapshots
from reference.semantics import Elements, elements_of, relations_of
from strategies.plans import FUNCTIONS, KINDS, deliveries, plans, sources, streams

from tidegate.algebra.plan import Plan, walk

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
def cases(draw, delay: int, *, crowded: bool = False, **limits):
    """With `crowded`, many elements within a few instants, where operators have most to do."""
    source = draw(sources(size=14, times=(0, 5)) if crowded else sources())
    return draw(plans(source, **limits)), source, draw(deliveries(source, delay))


@modes
@given(raw_cases(delay=0))
@settings(max_examples=60)
def test_output_is_the_relation_at_every_instant_of_ordered_streams(optimized, case):
    plan, source, delivery = case
    rows = rows_of(run(plan, source, delivery, delay=0, optimized=optimized))
    assert_rows_mean(rows, plan, elements_of(source.elements))


@modes
@given(raw_cases(delay=3))
@settings(max_examples=60)
def test_output_is_the_relation_at_every_instant_in_any_order_within_the_delay(optimized, case):
    plan, source, delivery = case
    rows = rows_of(run(plan, source, delivery, delay=3, optimized=optimized))
    assert_rows_mean(rows, plan, elements_of(source.elements))


@modes
@given(cases(delay=2))
@settings(max_examples=60)
def test_output_is_the_relation_at_every_instant_of_validities_and_tables(optimized, case):
    plan, source, delivery = case
    rows = rows_of(run_sources(plan, source, delivery, optimized=optimized))
    assert_rows_mean(rows, plan, source.elements)


@modes
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=15)
def test_an_operator_at_the_root_gives_its_relation_at_every_instant(kind, optimized, data):
    depth = data.draw(st.sampled_from([2, 3]))
    plan, source, delivery = data.draw(cases(2, crowded=True, depth=depth, root=kind, without=TAKEN_FOR_GRANTED))
    rows = rows_of(run_sources(plan, source, delivery, optimized=optimized))
    assert_rows_mean(rows, plan, source.elements)


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
@settings(max_examples=15)
def test_an_aggregate_gives_its_relation_at_every_instant(function, data):
    others = (TAKEN_FOR_GRANTED | frozenset(FUNCTIONS) | {"aggregate"}) - {function}
    plan, source, delivery = data.draw(cases(2, crowded=True, depth=2, root="aggregate", without=others))
    assert_rows_mean(rows_of(run_sources(plan, source, delivery)), plan, source.elements)


@pytest.mark.parametrize("buckets", [1, 2, 5])
@given(case=cases(delay=0))
@settings(max_examples=15)
def test_cuts_and_buckets_do_not_change_the_meaning(buckets, case):
    plan, source, delivery = case
    for arrivals in (delivery.arrivals, _at_once(delivery.arrivals)):
        rows = rows_of(run_sources(plan, source, type(delivery)(arrivals, buckets)))
        assert_rows_mean(rows, plan, source.elements)


def _at_once(arrivals):
    """All elements in one arrival that finishes every stream."""
    end = arrivals[-1]
    merged = {name: [e for arrival in arrivals for e in arrival.elements[name]] for name in end.elements}
    return (type(end)(merged, end.watermarks),)

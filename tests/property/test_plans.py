"""The heart of the tests: whatever the plan, the data and its arrival, the output is the meaning."""

from __future__ import annotations

from harness import rows_of, run
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.instants import interesting_instants, snapshots
from reference.semantics import relations
from strategies.plans import deliveries, plans, streams


@st.composite
def cases(draw, delay: int):
    source = draw(streams())
    return draw(plans(source)), source, draw(deliveries(source, delay))


def assert_means_the_same(plan, source, delivery, *, delay: int, optimized: bool) -> None:
    rows = rows_of(run(plan, source, delivery, delay=delay, optimized=optimized))
    assert all(start < end for start, end, _ in rows), "an empty validity"
    instants = interesting_instants(plan, source.elements, rows)
    assert snapshots(rows, instants) == relations(plan, source.elements, instants)


@given(cases(delay=0))
def test_output_is_the_relation_at_every_instant_of_ordered_streams(case):
    assert_means_the_same(*case, delay=0, optimized=False)


@given(cases(delay=3))
def test_output_is_the_relation_at_every_instant_in_any_order_within_the_delay(case):
    assert_means_the_same(*case, delay=3, optimized=False)


@given(cases(delay=2))
@settings(max_examples=200)
def test_the_optimiser_does_not_change_the_meaning(case):
    assert_means_the_same(*case, delay=2, optimized=True)

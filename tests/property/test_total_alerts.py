"""Totals that reach a threshold, against their definition, however the stream is cut and spread."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from reference.semantics import Memory
from reference.totals import total_alarms
from reference.values import canonical_row
from support.examples import examples
from support.harness import rows_of, run_elements
from support.stepping import INSTANTS, Delivery, Timed, canonical, counted_told, deliveries, in_steps, named, run

from tidegate.algebra.alert_operators import TotalThreshold
from tidegate.algebra.plan import Scan
from tidegate.algebra.subscriptions import TotalCompletion
from tidegate.schema import Schema, Type

ELEMENTS = Schema.of(k=Type.STRING, x=Type.INT, w=Type.BIGINT)
ROWS = st.tuples(
    st.sampled_from(["a", "b", None]), st.sampled_from([0, 1, None]), st.sampled_from([1, 1, 2, 3, 0, None])
)


@st.composite
def plans(draw: st.DrawFn) -> TotalThreshold:
    waiting = TotalCompletion("watch", "w", draw(st.sampled_from([None, 1, 2, 5])), draw(st.booleans()))
    keys = draw(st.sampled_from([(), ("k",), ("k", "x")]))
    return TotalThreshold(Scan("left", ELEMENTS), keys, waiting, draw(st.sampled_from([1, 2, 3, 5, 9])))


def expected(plan: TotalThreshold, delivery: Delivery) -> tuple[Counter[Timed], Counter[tuple[int, str]]]:
    """Alarms and dead letters with their times."""
    history = Memory(named(delivery, left=ELEMENTS))
    return counted_told(lambda instant: total_alarms(plan, history, instant), INSTANTS[:-1])


def test_what_is_within_the_time_of_the_first_instant_to_come_still_counts() -> None:
    plan = TotalThreshold(Scan("left", ELEMENTS), (), TotalCompletion("watch", "w", within=5), 2)
    for first, alarms in ((1, 1), (0, 0)):
        delivery = in_steps([(first, first + 1, ("a", 0, 1)), (5, 6, ("a", 0, 1))], [5])
        assert len(run(plan, delivery).elements) == alarms


@given(plan=plans(), delivery=deliveries({"left": ROWS}, st.just(1), most=16))
@settings(max_examples=examples(120), deadline=None)
def test_alarms_and_dead_letters_are_those_of_the_definition(plan: TotalThreshold, delivery: Delivery) -> None:
    outcome = run(plan, delivery)
    alarms, dead = expected(plan, delivery)
    assert Counter((start, row) for start, _, row in outcome.elements) == alarms
    assert Counter((letter["time"], letter["reason"]) for letter in outcome.dead) == dead


@given(plan=plans(), delivery=deliveries({"left": ROWS}, st.just(1), most=16), buckets=st.sampled_from([1, 3]))
@settings(max_examples=examples(60), deadline=None)
def test_the_number_of_buckets_does_not_matter(plan: TotalThreshold, delivery: Delivery, buckets: int) -> None:
    if not delivery.streams["left"]:
        return
    outboxes = run_elements(plan, named(delivery, left=ELEMENTS), buckets=buckets, cuts=3)
    alarms, _ = expected(plan, delivery)
    found = Counter((start, tuple(map(canonical, row))) for start, _, row in rows_of(outboxes))
    assert found == Counter((start, tuple(map(canonical, canonical_row(row)))) for start, row in alarms.elements())


HEAVY = 2**60
"""The greatest weight and the greatest threshold."""
HEAVY_ROWS = st.tuples(st.sampled_from(["a", "b"]), st.just(0), st.sampled_from([1, HEAVY // 2, HEAVY - 1, HEAVY]))


@given(
    plan=plans(),
    threshold=st.sampled_from([HEAVY // 2, HEAVY - 1, HEAVY]),
    delivery=deliveries({"left": HEAVY_ROWS}, st.just(1), most=24),
)
@settings(max_examples=examples(40), deadline=None)
def test_weights_that_exceed_64_bits_together_are_counted_exactly(
    plan: TotalThreshold, threshold: int, delivery: Delivery
) -> None:
    plan = replace(plan, threshold=threshold)
    alarms, _ = expected(plan, delivery)
    assert Counter((start, row) for start, _, row in run(plan, delivery).elements) == alarms

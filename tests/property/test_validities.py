"""Split, coalesce, granularity and windows over validities against their definitions at every instant."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.stepping import INSTANTS, LAST, Bag, Delivery, bag_at, check, deliveries, intervals, lengths, run

from tidegate.algebra.plan import Coalesce, Granularity, Split, Window
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

LEFT = intervals("left", Schema.of(a=Type.STRING, n=Type.INT))
ROWS = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([1, None]))
BOUNDED = deliveries({"left": ROWS}, lengths(6), most=14)
ENDLESS = deliveries({"left": ROWS}, lengths(6, endless=True), most=14)


@given(delivery=BOUNDED, length=st.integers(1, 7))
@settings(max_examples=examples(60), deadline=None)
def test_split_changes_no_instant_and_leaves_nothing_longer(delivery: Delivery, length: int) -> None:
    outcome = run(Split(LEFT, length), delivery)
    check(outcome, {t: bag_at(delivery.streams["left"], t) for t in INSTANTS})
    assert all(end - start <= length for start, end, _ in outcome.elements)


@given(delivery=ENDLESS, length=st.integers(1, 12))
@settings(max_examples=examples(60), deadline=None)
def test_coalesce_changes_no_instant_and_makes_nothing_too_long(delivery: Delivery, length: int) -> None:
    outcome = run(Coalesce(LEFT, length), delivery)
    given_ = delivery.streams["left"]
    check(outcome, {t: bag_at(given_, t) for t in INSTANTS})
    assert len(outcome.elements) <= len(given_)
    assert all(end - start <= length or (start, end, row) in given_ for start, end, row in outcome.elements)
    marks = [step.watermarks["left"] for step in delivery.steps]
    assert all(promise > mark - length for (promise, _), mark in zip(outcome.promises, marks, strict=True))


@given(delivery=BOUNDED)
@settings(max_examples=examples(60), deadline=None)
def test_without_a_bound_nothing_is_left_that_could_be_coalesced(delivery: Delivery) -> None:
    elements = run(Coalesce(LEFT, 10 * LAST), delivery).elements
    starts = Counter((start, row) for start, _, row in elements)
    assert not any(starts[end, row] for _, end, row in elements)


@given(delivery=ENDLESS, size=st.integers(1, 5))
@settings(max_examples=examples(60), deadline=None)
def test_granularity_shows_what_is_valid_at_the_last_multiple(delivery: Delivery, size: int) -> None:
    expected = {t: bag_at(delivery.streams["left"], t // size * size) for t in INSTANTS}
    outcome = run(Granularity(LEFT, size), delivery)
    check(outcome, expected)
    assert all(t % size == 0 or t == FOREVER for start, end, _ in outcome.elements for t in (start, end))


@given(delivery=BOUNDED, size=st.integers(1, 6), slide=st.integers(1, 4))
@settings(max_examples=examples(60), deadline=None)
def test_a_window_extends_every_instant_of_a_validity(delivery: Delivery, size: int, slide: int) -> None:
    def expected(instant: int) -> Bag:
        last = (instant + 1) // slide * slide - 1
        return sum((bag_at(delivery.streams["left"], t) for t in range(last + 1 - size, last + 1)), Bag())

    check(run(Window(LEFT, size, slide), delivery), {t: expected(t) for t in range(-3, 40)})

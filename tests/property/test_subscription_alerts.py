"""Range thresholds as operators, against their definition: alarms and dead letters, however the streams are cut."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from reference.semantics import Memory
from reference.totals import range_alarms
from reference.values import canonical_row
from support.examples import examples
from support.harness import rows_of, run_elements
from support.stepping import INSTANTS, Delivery, Timed, canonical, counted_told, deliveries, named, run

from tidegate.algebra.alert_operators import RangeThreshold
from tidegate.algebra.plan import Scan
from tidegate.algebra.subscriptions import Dimension, SubscriptionColumns, TotalCompletion
from tidegate.physical.lower import lower
from tidegate.schema import Schema, Type

ELEMENTS = Schema.of(k=Type.STRING, x=Type.INT, y=Type.DOUBLE, w=Type.BIGINT)
ROWS = Schema.of(
    rk=Type.STRING, id=Type.INT, x0=Type.INT, x1=Type.INT, y0=Type.DOUBLE, y1=Type.DOUBLE, n=Type.BIGINT, e=Type.BOOLEAN
)
ENDS = st.sampled_from([0, 1, 2, 3, None])
DOUBLES = st.sampled_from([-math.inf, -0.0, 0.0, 1.0, 2.5, math.inf, math.nan, None])


def element_rows() -> st.SearchStrategy[tuple[object, ...]]:
    weights = st.sampled_from([1, 1, 2, 3, 0, None])
    return st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0, 1, 2, 3, None]), DOUBLES, weights)


def subscription_rows() -> st.SearchStrategy[tuple[object, ...]]:
    keys, ids = st.sampled_from(["a", "a", "b", None]), st.sampled_from([1, 2, 3, None])
    thresholds = st.sampled_from([1, 1, 2, 3, 5, 8, 0, None])
    return st.tuples(keys, ids, ENDS, ENDS, DOUBLES, DOUBLES, thresholds, st.sampled_from([False, False, True, None]))


@st.composite
def plans(draw: st.DrawFn) -> RangeThreshold:
    """Ranges in up to two dimensions, over a key or not, for ever or within a time, once or again and again."""
    x = Dimension("x", *draw(st.sampled_from([("x0", "x1"), ("x0", None), (None, "x1")])), draw(st.booleans()))
    y = Dimension("y", "y0", "y1", draw(st.booleans()), draw(st.booleans()))
    dimensions = draw(st.sampled_from([(), (x,), (y,), (x, y)]))
    keys = draw(st.sampled_from([((), ()), (("k",), ("rk",))]))
    within = draw(st.sampled_from([None, None, 1, 2, 5]))
    waiting = TotalCompletion("watch", "w", within, draw(st.booleans()))
    subscribed = SubscriptionColumns("id", "n", dimensions, draw(st.sampled_from(["e", None])))
    return RangeThreshold(Scan("left", ELEMENTS), Scan("right", ROWS), keys, waiting, subscribed)


def expected(plan: RangeThreshold, delivery: Delivery) -> tuple[Counter[Timed], Counter[tuple[int, str]]]:
    """Alarms and dead letters with their times."""
    history = Memory(named(delivery, left=ELEMENTS, right=ROWS))
    return counted_told(lambda instant: range_alarms(plan, history, instant), INSTANTS[:-1])


@given(plan=plans(), delivery=deliveries({"left": element_rows(), "right": subscription_rows()}, st.just(1), most=14))
@settings(max_examples=examples(240), deadline=None)
def test_alarms_and_dead_letters_are_those_of_the_definition(plan: RangeThreshold, delivery: Delivery) -> None:
    outcome = run(plan, delivery, lowered=lower(plan))
    alarms, dead = expected(plan, delivery)
    assert Counter((start, row) for start, _, row in outcome.elements) == alarms
    assert all(end == start + 1 for start, end, _ in outcome.elements)
    assert Counter((letter["time"], letter["reason"]) for letter in outcome.dead) == dead


@given(
    plan=plans(),
    delivery=deliveries({"left": element_rows(), "right": subscription_rows()}, st.just(1), most=14),
    buckets=st.sampled_from([1, 2, 3]),
    cuts=st.sampled_from([1, 2, 4]),
)
@settings(max_examples=examples(60), deadline=None)
def test_the_number_of_buckets_does_not_matter(
    plan: RangeThreshold, delivery: Delivery, buckets: int, cuts: int
) -> None:
    given_ = named(delivery, left=ELEMENTS, right=ROWS)
    if not any(given_.values()):
        return
    outboxes = run_elements(plan, given_, buckets=buckets, cuts=cuts)
    alarms, dead = expected(plan, delivery)
    found = Counter((start, tuple(map(canonical, row))) for start, _, row in rows_of(outboxes))
    assert found == Counter((start, tuple(map(canonical, canonical_row(row)))) for start, row in alarms.elements())
    letters = [letter for outbox in outboxes for part in outbox.dead for letter in part.to_pylist()]
    assert Counter((letter["time"], letter["reason"]) for letter in letters) == dead


HEAVY = 2**60
"""The greatest weight and the greatest threshold."""
HEAVY_ELEMENTS = st.tuples(
    st.sampled_from(["a", "b"]),
    st.sampled_from([0, 1, 2, 3]),
    st.just(0.0),
    st.sampled_from([1, HEAVY // 2, HEAVY - 1, HEAVY]),
)
HEAVY_THRESHOLDS = st.sampled_from([1, HEAVY // 2, HEAVY - 1, HEAVY])
HEAVY_ROWS = subscription_rows().flatmap(lambda row: HEAVY_THRESHOLDS.map(lambda n: (*row[:6], n, *row[7:])))


@given(plan=plans(), delivery=deliveries({"left": HEAVY_ELEMENTS, "right": HEAVY_ROWS}, st.just(1), most=24))
@settings(max_examples=examples(60), deadline=None)
def test_weights_that_exceed_64_bits_together_are_counted_exactly(plan: RangeThreshold, delivery: Delivery) -> None:
    alarms, _ = expected(plan, delivery)
    assert Counter((start, row) for start, _, row in run(plan, delivery, lowered=lower(plan)).elements) == alarms

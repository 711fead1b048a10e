"""Groups of alerts on totals, against their definition and against each alert alone, however the stream is cut."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from reference.semantics import Memory
from reference.totals import grouped_alarms
from reference.values import canonical_row
from support.examples import examples
from support.harness import rows_of, run_elements
from support.stepping import INSTANTS, Delivery, Timed, canonical, counted_told, deliveries, in_steps, named, run

from tidegate.algebra.alert_operators import GroupedTotals, TotalThreshold
from tidegate.algebra.plan import Filter, Map, Output, Plan, Scan, walk
from tidegate.algebra.subscriptions import ConstantRange, RangedAlert, RangedAlertGroup, TotalCompletion
from tidegate.expressions.nodes import Call, Column, Expression, Literal, conjunction
from tidegate.optimizer.total_grouping import group_totals
from tidegate.schema import Schema, Type

ELEMENTS = Schema.of(k=Type.STRING, x=Type.INT, y=Type.DOUBLE, w=Type.BIGINT)
ENDS = {"x": st.sampled_from([0, 1, 2, 3]), "y": st.sampled_from([-math.inf, -0.0, 0.0, 1.0, 2.5, math.nan])}
ROWS = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([0, 1, 2, 3, None]),
    st.sampled_from([-math.inf, -0.0, 0.0, 1.0, 2.5, math.inf, math.nan, None]),
    st.sampled_from([1, 1, 2, 3, 0, None]),
)
THRESHOLDS = st.sampled_from([1, 2, 3, 5, 9])
MANY = 65
"""Alerts of which some groups have copies, so that a second word of bits is needed."""


@st.composite
def ranges(draw: st.DrawFn, name: str) -> ConstantRange:
    low, high = (draw(st.none() | ENDS[name].map(lambda end: Literal(end, ELEMENTS.type_of(name)))) for _ in "lh")
    return ConstantRange(low, high, low is not None and draw(st.booleans()), high is not None and draw(st.booleans()))


def completions() -> st.SearchStrategy[TotalCompletion]:
    withins = st.sampled_from([None, None, 1, 2, 5])
    return st.builds(lambda within, repeats: TotalCompletion("watch", "w", within, repeats), withins, st.booleans())


Names = tuple[str, ...]
KEYS: st.SearchStrategy[Names] = st.sampled_from([(), ("k",), ("k", "x")])
VALUES: st.SearchStrategy[Names] = st.sampled_from([(), ("x",), ("y",), ("x", "y"), ("y", "x")])


@st.composite
def groups(draw: st.DrawFn) -> GroupedTotals:
    """Return groups of some alerts, some of them with more copies of an alert that never counts in front."""
    values = draw(VALUES)
    count, is_filled = draw(st.integers(1, 4)), draw(st.booleans())
    alerts = [
        RangedAlert(f"a{n}", tuple(draw(ranges(each)) for each in values), draw(THRESHOLDS)) for n in range(count)
    ]
    if values and is_filled:
        end = Literal(1 if values[0] == "x" else 1.0, ELEMENTS.type_of(values[0]))
        never = ConstantRange(end, end, low_open=True)
        filler = RangedAlert("filler", (never, *(ConstantRange() for _ in values[1:])), 1)
        alerts = [*[filler] * MANY, *alerts]
    return GroupedTotals(Scan("left", ELEMENTS), draw(KEYS), draw(completions()), values, RangedAlertGroup.of(alerts))


def expected(plan: GroupedTotals, delivery: Delivery) -> tuple[Counter[Timed], Counter[tuple[int, str]]]:
    """Alarms and dead letters with their times."""
    history = Memory(named(delivery, left=ELEMENTS))
    return counted_told(lambda instant: grouped_alarms(plan, history, instant), INSTANTS[:-1])


@given(plan=groups(), delivery=deliveries({"left": ROWS}, st.just(1), most=16))
@settings(max_examples=examples(120), deadline=None)
def test_alarms_and_dead_letters_are_those_of_the_definition(plan: GroupedTotals, delivery: Delivery) -> None:
    outcome = run(plan, delivery)
    alarms, dead = expected(plan, delivery)
    assert Counter((start, row) for start, _, row in outcome.elements) == alarms
    assert Counter((letter["time"], letter["reason"]) for letter in outcome.dead) == dead


@given(plan=groups(), delivery=deliveries({"left": ROWS}, st.just(1), most=16), buckets=st.sampled_from([1, 3]))
@settings(max_examples=examples(40), deadline=None)
def test_the_number_of_buckets_does_not_matter(plan: GroupedTotals, delivery: Delivery, buckets: int) -> None:
    if not delivery.streams["left"]:
        return
    outboxes = run_elements(plan, named(delivery, left=ELEMENTS), buckets=buckets, cuts=3)
    alarms, _ = expected(plan, delivery)
    found = Counter((start, tuple(map(canonical, row))) for start, _, row in rows_of(outboxes))
    assert found == Counter((start, tuple(map(canonical, canonical_row(row)))) for start, row in alarms.elements())


@st.composite
def terms(draw: st.DrawFn, names: tuple[str, ...]) -> Expression:
    name = draw(st.sampled_from(names))
    operator = draw(st.sampled_from(["<", "<=", ">", ">=", "="]))
    column, end = Column(name, ELEMENTS.type_of(name)), Literal(draw(ENDS[name]), ELEMENTS.type_of(name))
    return Call(operator, (column, end) if draw(st.booleans()) else (end, column), Type.BOOLEAN)


@st.composite
def alerts(draw: st.DrawFn) -> list[Plan]:
    """Return alerts with conditions of their own over one stream, most of which fit into one group."""
    waiting, keys, names = draw(completions()), draw(KEYS), draw(st.sampled_from([("x",), ("y",), ("x", "y")]))
    scan, counts, plans = Scan("left", ELEMENTS), draw(st.booleans()), list[Plan]()
    for number in range(draw(st.integers(2, 4))):
        found = [draw(terms(names)) for _ in range(draw(st.integers(0, 3)))]
        source: Plan = Filter(scan, conjunction(tuple(found))) if found else scan
        weight = "w"
        if counts:
            own = tuple(Output(f.name, Column(f.name, f.type)) for f in ELEMENTS)
            source, weight = Map(source, (*own, Output("range:weight", Literal(1, Type.BIGINT)))), "range:weight"
        own_waiting = TotalCompletion(f"a{number}", weight, waiting.within, waiting.repeats)
        plans.append(TotalThreshold(source, keys, own_waiting, draw(THRESHOLDS)))
    return plans


@given(plans=alerts(), delivery=deliveries({"left": ROWS}, st.just(1), most=12))
@settings(max_examples=examples(80), deadline=None)
def test_alerts_of_a_group_have_the_alarms_that_they_have_alone(plans: list[Plan], delivery: Delivery) -> None:
    for alone, grouped in zip(plans, group_totals(plans), strict=True):
        assert isinstance(alone, TotalThreshold)
        assert grouped.schema == alone.schema
        one, other = run(alone, delivery), run(grouped, delivery)
        assert Counter((start, row) for start, _, row in one.elements) == Counter(
            (start, row) for start, _, row in other.elements
        )
        mine = [letter for letter in other.dead if letter["origin"] == alone.waiting.name]
        found = [alone.waiting.name] if grouped is alone else [a.name for a in _group(grouped).alerts]
        assert alone.waiting.name in found
        assert _shown(one.dead) == _shown(mine)


def _group(plan: Plan) -> RangedAlertGroup:
    (grouped,) = [node for node in walk(plan) if isinstance(node, GroupedTotals)]
    return grouped.group


def _shown(letters: list[dict[str, object]]) -> Counter[tuple[object, ...]]:
    return Counter((letter["time"], letter["reason"], letter["row"]) for letter in letters)


def test_what_is_within_the_time_of_the_first_instant_to_come_still_counts() -> None:
    alert = RangedAlert("a", (ConstantRange(Literal(0, Type.INT)),), 2)
    waiting = TotalCompletion("watch", "w", within=5)
    plan = GroupedTotals(Scan("left", ELEMENTS), (), waiting, ("x",), RangedAlertGroup.of([alert]))
    for first, alarms in ((1, 1), (0, 0)):
        delivery = in_steps([(first, first + 1, ("a", 0, 0.0, 1)), (5, 6, ("a", 0, 0.0, 1))], [5])
        assert len(run(plan, delivery).elements) == alarms

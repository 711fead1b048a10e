"""Subscriptions that are the rows of a table, against the same subscriptions as rows of a stream."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from reference.semantics import Memory
from reference.totals import range_alarms
from support.examples import examples
from support.harness import batch_of
from support.states import through_files
from support.stepping import INSTANTS, Row, Timed, canonical, counted_told

from tidegate.algebra.alert_operators import RangeThreshold
from tidegate.algebra.plan import Scan
from tidegate.algebra.subscriptions import Dimension, SubscriptionColumns, TotalCompletion
from tidegate.physical.common.operator import NO_STATE
from tidegate.physical.subscriptions.operator import SubscriptionsOperator
from tidegate.schema import Schema, Type
from tidegate.time import BEGINNING, FOREVER

ELEMENTS = Schema.of(k=Type.STRING, x=Type.INT, w=Type.BIGINT)
ROWS = Schema.of(rk=Type.STRING, id=Type.INT, x0=Type.INT, x1=Type.INT, n=Type.BIGINT)
EVENTS = Schema.of(rk=Type.STRING, id=Type.INT, x0=Type.INT, x1=Type.INT, n=Type.BIGINT, e=Type.BOOLEAN)
LAST = 20


@dataclass(frozen=True)
class Arrival:
    """What a step gets: elements, the table if it is read, and the watermark after it."""

    elements: list[tuple[int, Row]]
    table: list[Row] | None
    watermark: int
    restarts: bool


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrival]:
    marks = sorted(draw(st.sets(st.integers(1, LAST), min_size=1, max_size=4)))
    bounds, element = [BEGINNING, *marks, FOREVER], st.tuples(*map(st.sampled_from, (["a", "b"], range(3), [1, 1, 2])))
    steps: list[Arrival] = []
    table: list[Row] = []
    for number, (_, mark) in enumerate(pairwise(bounds)):
        read = number == 0 or draw(st.booleans())
        table = draw(tables(table)) if read else table
        steps.append(Arrival([], table if read else None, mark, draw(st.booleans())))
    for _ in range(draw(st.integers(0, 14))):
        time = draw(st.integers(0, LAST))
        last = next(n for n, each in enumerate(steps) if time < each.watermark)
        steps[draw(st.integers(0, last))].elements.append((time, draw(element)))
    return steps


@st.composite
def tables(draw: st.DrawFn, before: list[Row]) -> list[Row]:
    """Return a table in which each id occurs at most once for each key, with most of the rows that it had before."""
    low, high, threshold = (st.sampled_from([0, 1, None]), st.sampled_from([1, 2, None]), st.sampled_from([1, 2, 3, 5]))
    names = draw(st.sets(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 2))))
    new = [(key, id_, draw(low), draw(high), draw(threshold)) for key, id_ in sorted(names)]
    kept = [row for row in before if draw(st.integers(0, 3))]
    return sorted({row[:2]: row for row in (*new, *kept)}.values(), key=str)


@st.composite
def operators(draw: st.DrawFn) -> SubscriptionsOperator:
    keys = draw(st.sampled_from([((), ()), (("k",), ("rk",))]))
    waiting = TotalCompletion("watch", "w", draw(st.sampled_from([None, None, 2, 5])), draw(st.booleans()))
    subscribed = SubscriptionColumns("id", "n", draw(st.sampled_from([(), (Dimension("x", "x0", "x1"),)])))
    return SubscriptionsOperator(ELEMENTS, ROWS, keys, waiting, subscribed, is_table=True)


def alarms_by_definition(operator: SubscriptionsOperator, steps: list[Arrival]) -> Counter[Timed]:
    """Return the alarms if a row that is in a table no longer ends its subscription just before the watermark."""
    events: list[tuple[int, int, dict[str, object]]] = []
    before: list[Row] = []
    for mark, step in zip([-1, *(each.watermark for each in steps)], steps, strict=False):
        if step.table is not None:
            now = unique(operator, step.table)
            changes = [(row, True) for row in before if row not in now] + [
                (row, False) for row in now if row not in before
            ]
            events += [(mark - 1, mark, dict(zip(EVENTS.names, (*row, e), strict=True))) for row, e in changes]
            before = now
    elements = [(t, t + 1, dict(zip(ELEMENTS.names, row, strict=True))) for step in steps for t, row in step.elements]
    plan = RangeThreshold(
        Scan("left", ELEMENTS),
        Scan("right", EVENTS),
        operator.keys,
        operator.waiting,
        replace(operator.subscribed, ended="e"),
    )
    history = Memory({"left": elements, "right": events})
    alarms, _ = counted_told(lambda instant: range_alarms(plan, history, instant), INSTANTS[:-1])
    width = len(ELEMENTS.names) + len(ROWS.names)
    return Counter({(time, (*row[:width], row[-1])): count for (time, row), count in alarms.items()})


def unique(operator: SubscriptionsOperator, table: list[Row]) -> list[Row]:
    """Return the rows of a table without those whose id, and key if there are keys, an earlier row has."""
    return list({row[:2] if operator.keys[0] else row[1]: row for row in sorted(table, key=str, reverse=True)}.values())


@given(operator=operators(), steps=arrivals())
@settings(max_examples=examples(120), deadline=None)
def test_rows_of_a_table_register_and_end_when_it_is_read(
    operator: SubscriptionsOperator, steps: list[Arrival]
) -> None:
    state, found = NO_STATE, Counter[Timed]()
    for step in steps:
        if step.table is not None:
            state = operator.forget(state, 1)
        elements = batch_of(
            ELEMENTS, [(t, t + 1, dict(zip(ELEMENTS.names, row, strict=True))) for t, row in step.elements]
        )
        rows = [(BEGINNING, FOREVER, dict(zip(ROWS.names, row, strict=True))) for row in step.table or []]
        done = operator.step(state, [elements, batch_of(ROWS, rows)], [step.watermark, FOREVER])
        state = through_files(done.state) if step.restarts else done.state
        for start, row in zip(done.output.start.tolist(), done.output.columns.to_pylist(), strict=True):
            found[start, tuple(map(canonical, row.values()))] += 1
        repeated = len(step.table or []) - len(unique(operator, step.table or []))
        assert [letter["reason"] for letter in done.dead.to_pylist()] == ["registered_twice"] * repeated
    assert found == alarms_by_definition(operator, steps)

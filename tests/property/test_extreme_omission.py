"""Elements omitted below MAX and MIN change no result, and an alert over them raises the same alarms."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference.instants import interesting_instants_of, snapshots
from reference.semantics import elements_of, relations_of
from strategies.streams import Delivery, Streams, deliveries
from support.examples import examples
from support.harness import rows_of, run

from tidegate.algebra.extreme_demands import extreme_demand
from tidegate.algebra.plan import Aggregate, Plan, rewrite, walk
from tidegate.algebra.threshold_alert import Demand, KeepAll
from tidegate.language.bind.program import bind
from tidegate.optimizer.optimize import optimize
from tidegate.physical.common.batch import Batch
from tidegate.physical.lower import lower
from tidegate.physical.threshold_alert.omission import needed_rows
from tidegate.runtime.explain import explain_physical
from tidegate.schema import Schema, Type

DELAY = 2
SCHEMA = Schema.of(k=Type.INT, v=Type.DOUBLE, w=Type.INT, t=Type.BIGINT)
DECLARED = "".join(
    f"CREATE STREAM {name} (k INT, v DOUBLE, w INT, t BIGINT) FROM 'dataframe://{name}' TIMESTAMP BY t "
    f"DELAY {DELAY} MICROSECONDS;\n"
    for name in "rs"
)
WINDOWS = ["RANGE 2", "RANGE 3", "RANGE 4 SLIDE 4", "RANGE 4 SLIDE 2", "RANGE 2 SLIDE 2"]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Streams, Delivery]:
    values = st.sampled_from([0.0, -0.0, 1.0, 2.0, float("inf"), float("nan"), None])
    row = st.tuples(st.integers(0, 9), st.sampled_from([0, 1, None]), values, st.sampled_from([0, 1, 2, None]))
    source = Streams(
        dict.fromkeys("rs", SCHEMA),
        {
            name: [
                (t, {"k": k, "v": v, "w": w, "t": t})
                for t, k, v, w in sorted(draw(st.lists(row, max_size=9)), key=lambda each: each[0])
            ]
            for name in "rs"
        },
    )
    return source, draw(deliveries(source, DELAY))


def plan_of(text: str) -> Plan:
    return bind(DECLARED + text).queries[-1].plan


def omitting(plan: Plan) -> Plan:
    """The plan with omission below each aggregate, wherever it is."""
    return rewrite(plan, lambda node: replace(node, omits=True) if isinstance(node, Aggregate) else node)


@given(
    cases(),
    st.sampled_from(WINDOWS),
    st.sampled_from(["MAX(v)", "MIN(v)", "MAX(w)", "MIN(w)"]),
    st.sampled_from(["", " WHERE w > 0"]),
)
@settings(max_examples=examples(120), deadline=None)
def test_what_is_omitted_changes_no_extreme(case, window, call, where):
    source, delivery = case
    plan = omitting(plan_of(f"SELECT k, {call} AS m FROM r WINDOW({window} MICROSECONDS){where} GROUP BY k"))
    assert "omit elements that lie between two" in explain_physical([lower(optimize(plan)[0])])[0]
    rows = rows_of(run(plan, source, delivery, delay=DELAY))
    instants = interesting_instants_of(plan, elements_of(source.elements), rows)
    assert snapshots(rows, instants) == relations_of(plan, elements_of(source.elements), instants)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([-1.0, -0.0, 0.0, 1.0, 2.0])), max_size=10),
    st.sampled_from(["MAX", "MIN"]),
    st.integers(2, 4),
)
@example([(0, 1.0), (1, 0.0), (3, 1.0)], "MAX", 2)
@settings(max_examples=examples(200), deadline=None)
def test_what_the_plan_omits_is_extreme_at_no_instant(elements, function, length):
    plan = plan_of(f"SELECT {function}(v) AS m FROM r WINDOW(RANGE {length} MICROSECONDS)")
    (aggregate,) = [node for node in walk(plan) if isinstance(node, Aggregate)]
    demand = extreme_demand(aggregate)
    assert isinstance(demand, Demand)
    elements.sort(key=lambda element: element[0])
    kept = _kept(elements, demand)
    pick = max if function == "MAX" else min
    for instant in range(14):
        valid, left = (
            [v for t, v in some if t <= instant < t + length] for some in (elements, [elements[i] for i in kept])
        )
        # 0.0 and -0.0 are equal, but distinct values: which of them is the result must not change.
        assert str(pick(valid, key=_order, default=None)) == str(pick(left, key=_order, default=None))


def _order(value: float) -> tuple[float, float]:
    return value, math.copysign(1.0, value)


def _kept(elements: list[tuple[int, float]], demand: Demand) -> list[int]:
    time = np.array([t for t, _ in elements], np.int64)
    columns = pa.RecordBatch.from_pydict({demand.value: pa.array([v for _, v in elements], pa.float64())})
    return needed_rows(Batch(time, time + 1, columns), np.zeros(len(time), np.int64), [demand]).tolist()


@given(cases(), st.sampled_from(WINDOWS), st.sampled_from(["m.top + s.w > 1", "m.top - s.w < 1"]))
@settings(max_examples=examples(40), deadline=None)
def test_an_alert_over_extremes_raises_the_same_alarms(case, window, when):
    source, delivery = case
    top = f"ISTREAM(SELECT k, MAX(v) AS top FROM r WINDOW({window} MICROSECONDS) GROUP BY k)"
    plan = plan_of(f"CREATE ALERT a FROM {top} m, s WITHIN 3 MICROSECONDS MATCHING k WHEN {when} EMIT ALL")
    optimized, applied = optimize(plan)
    assert "omit_below_extremes" in applied
    assert any(isinstance(node, Aggregate) and node.omits for node in walk(optimized))
    found = [rows_of(run(each, source, delivery, delay=DELAY, optimized=False)) for each in (plan, optimized)]
    assert _alarms(found[0]) == _alarms(found[1])


def _alarms(rows) -> Counter:
    # The numbers of alarms of one incident depend on their order; NaN differs from itself.
    return Counter(str((start, end, values[:-2])) for start, end, values in rows)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT k, SUM(v) AS m FROM r WINDOW(RANGE 4) GROUP BY k", "each element changes the result"),
        ("SELECT k, MAX(v) AS m, COUNT(*) AS n FROM r WINDOW(RANGE 4) GROUP BY k", "each element changes the result"),
        (
            "SELECT k, MAX(v) AS m, MIN(v) AS n FROM r WINDOW(RANGE 4) GROUP BY k",
            "an element may be extreme in one column and not in another",
        ),
        (
            "SELECT k, MAX(v) AS m FROM r WINDOW(RANGE 4 SLIDE 3) GROUP BY k",
            "its elements are not known to be valid for the same time",
        ),
        (
            "SELECT k, MAX(v) AS m FROM r WINDOW(ROWS 4) GROUP BY k",
            "its elements are not known to be valid for the same time",
        ),
        (
            "SELECT v, MAX(w) AS m FROM r WINDOW(RANGE 4) GROUP BY v",
            "omission compares numbers, of groups whose keys are not floating-point numbers",
        ),
    ],
)
def test_where_nothing_can_be_omitted_it_is_said_why(text, why):
    (aggregate,) = [node for node in walk(plan_of(text)) if isinstance(node, Aggregate)]
    found = extreme_demand(aggregate)
    assert isinstance(found, KeepAll)
    assert found.why == why


def test_the_window_of_the_demand_is_that_of_the_aggregate():
    text = "SELECT k, MIN(v) AS m FROM r WINDOW(RANGE 4 SECONDS SLIDE 2 SECONDS) GROUP BY k"
    (aggregate,) = [node for node in walk(plan_of(text)) if isinstance(node, Aggregate)]
    found = extreme_demand(aggregate)
    assert isinstance(found, Demand)
    assert (found.window, found.strict, found.above, found.below) == (4_000_000, False, False, True)

"""Alerts that shed: what they learn, how much they may judge, and what is told of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.algebra.alert_operators import ThresholdJoin
from tidegate.algebra.explain_threshold_alert import certificates
from tidegate.algebra.plan import Plan, rewrite, walk
from tidegate.algebra.similarity_join import NO_SHEDDING, Policy, Shedding
from tidegate.algebra.threshold_alert import Alert, KeepAll, Link
from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.expressions.nodes import Call, Cast, Column, Literal
from tidegate.language.bind.program import bind
from tidegate.optimizer.alert_grouping import group_alerts
from tidegate.optimizer.optimize import optimize
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import NO_STATE, BucketAware, Steered
from tidegate.physical.threshold_alert.control import (
    ThresholdAlertDirective,
    ThresholdAlertRecord,
    ThresholdAlertReport,
)
from tidegate.physical.threshold_alert.operator import ThresholdAlertOperator
from tidegate.physical.threshold_alert.shedding import CELLS, AlertReport
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.job import Job
from tidegate.schema import Schema, Type

LEFT, RIGHT = Schema.of(l=Type.BIGINT), Schema.of(r=Type.BIGINT)
SPAN, LENGTH, ROWS = 1000, 2000, 200
APART = Call("abs", (Call("-", (Column("l", Type.BIGINT), Column("r", Type.BIGINT)), Type.BIGINT),), Type.BIGINT)


def alert(shedding: Shedding, low: int = 700, high: int = 745) -> Alert:
    """Alarms are at one distance in time only."""
    bounds = (Literal(low, Type.BIGINT), Literal(high, Type.BIGINT))
    sides = tuple(Call(sign, (APART, bound), Type.BOOLEAN) for sign, bound in zip((">=", "<="), bounds, strict=True))
    condition = Call("and", sides, Type.BOOLEAN)
    return Alert("far", (0, 1), (Link(0, 1, SPAN, SPAN),), Cast(APART, Type.DOUBLE), condition, shedding=shedding)


def join(*alerts: Alert) -> ThresholdAlertOperator:
    return ThresholdAlertOperator((LEFT, RIGHT), ((), ()), alerts)


def elements(schema: Schema, times: np.ndarray) -> Batch:
    return Batch(times, times + 1, pa.RecordBatch.from_arrays([pa.array(times)], schema=schema.arrow))


def alarms_of(operator: ThresholdAlertOperator, steps: int) -> tuple[list[int], ThresholdAlertRecord | None]:
    """Alarms by step, each of which has some hundred elements of either stream, and the last record."""
    state, record, found, random = NO_STATE, None, list[int](), np.random.default_rng(7)
    for step in range(steps):
        times = [np.sort(random.integers(step * LENGTH, (step + 1) * LENGTH, ROWS)) for _ in range(2)]
        inputs = [elements(schema, own) for schema, own in zip((LEFT, RIGHT), times, strict=True)]
        directed = operator.with_directive(None if record is None else record.directive, {})
        done = directed.step(state, inputs, [(step + 1) * LENGTH] * 2)
        reports: list[Any] = [done.report] if done.report else []
        state, record = done.state, operator.decide(record, reports, 0.1)
        found.append(len(done.output))
    return found, record


def test_the_best_spreads_are_found_and_judged():
    every, _ = alarms_of(join(alert(NO_SHEDDING)), 25)
    budget = 4_000  # of about 40,000
    best, record = alarms_of(join(alert(Shedding(Policy.ON, budget=budget))), 25)
    some, dropped = alarms_of(join(alert(Shedding(Policy.DROP, budget=budget))), 25)
    late = slice(10, None)
    of_best, of_some = (sum(found[late]) / sum(every[late]) for found in (best, some))
    assert of_some < 0.15
    assert of_best > 0.7
    (told,), (random,) = record.shed, dropped.shed
    assert (
        told.in_step.compared_share
        == pytest.approx(random.in_step.compared_share, abs=0.01)
        == pytest.approx(0.1, abs=0.02)
    )
    # What is told of alarms that were not found is an estimate.
    assert told.in_step.results_share == pytest.approx(of_best, abs=0.15)
    assert told.overall.results_share == pytest.approx(sum(best) / sum(every), abs=0.1)
    assert random.in_step.results_share == pytest.approx(0.1, abs=0.03)


def test_what_is_told_of_a_step():
    _, record = alarms_of(join(alert(Shedding(Policy.ON, budget=4_000))), 3)
    (told,) = record.shed
    assert (told.join, told.policy, told.step, told.budget, told.in_step.dropped) == ("far", "on", 3, 4000, 0)
    assert told.in_step.comparisons == pytest.approx(4_000, abs=CELLS)
    assert told.in_step.compared_share == told.in_step.comparisons / told.in_step.volume
    assert told.in_step.utility_share is None
    assert told.overall.comparisons == pytest.approx(12_000, abs=3 * CELLS)
    assert [step for step, _ in told.history][:1] == [1]


@pytest.mark.parametrize("policy", [Policy.ON, Policy.DROP])
def test_a_budget_is_for_all_buckets(policy):
    keyed = ThresholdAlertOperator((LEFT, RIGHT), (("l",), ("r",)), (alert(Shedding(policy, budget=4_000), 0, SPAN),))
    times = np.zeros(100, np.int64)
    inputs = [elements(LEFT, times), elements(RIGHT, times)]
    done = keyed.for_bucket(1, 4).with_directive(None, {}).step(NO_STATE, inputs, [1, 1])
    assert sum(done.report.alerts[0].volume) == 10_000
    assert sum(done.report.alerts[0].made) == len(done.output) == pytest.approx(1_000, abs=CELLS)
    alone = join(alert(Shedding(policy, budget=4_000))).for_bucket(0, 4).with_directive(None, {})
    assert sum(alone.step(NO_STATE, inputs, [1, 1]).report.alerts[0].made) == pytest.approx(4_000, abs=CELLS)


# ---- budgets that are found from time


ROOM = 0.9
"""Of the target."""


def report(volume: int, made: int, seconds: float) -> AlertReport:
    volumes, judged, alarms = ((many,) + (0,) * (CELLS - 1) for many in (volume, made, 0))
    return AlertReport(volumes, judged, alarms, seconds=seconds, rows=100, budget=made)


def reports(*of_alerts: AlertReport) -> ThresholdAlertReport:
    return ThresholdAlertReport(dict(enumerate(of_alerts)))


def budgets(operator: ThresholdAlertOperator, record: ThresholdAlertRecord | None) -> list[float]:
    """What each alert may judge in the next step, which has as many rows as those before."""
    inputs = [elements(LEFT, np.arange(50)), elements(RIGHT, np.arange(50))]
    told = (
        operator.with_directive(None if record is None else record.directive, {})
        .step(NO_STATE, inputs, [50, 50])
        .report
    )
    return [told.alerts[number].budget for number in sorted(told.alerts)]


def after(
    operator: ThresholdAlertOperator,
    reports: Sequence[ThresholdAlertReport],
    seconds: float,
    record: ThresholdAlertRecord | None = None,
) -> ThresholdAlertRecord | None:
    """The record after many steps that are all alike."""
    for _ in range(40):
        record = operator.decide(record, reports, seconds)
    return record


def test_a_budget_is_what_fits_into_the_target():
    operator = join(alert(Shedding(Policy.ON, target=2_000_000)))
    record = after(operator, [reports(report(1_000_000, 1_000_000, 0.5))], 0.7)
    assert budgets(operator, record) == [pytest.approx((ROOM * 2.0 - 0.2) / 5e-7, rel=0.05)]
    # Judging gets twice as slow, everything else takes longer.
    record = after(operator, [reports(report(1_000_000, 1_000_000, 1.0))], 1.5, record)
    assert budgets(operator, record) == [pytest.approx((ROOM * 2.0 - 0.5) / 1e-6, rel=0.05)]
    # There is no time left, but something is always learnt.
    record = after(operator, [reports(report(1_000_000, 10_000, 0.01))], 9.0, record)
    assert 0 < budgets(operator, record)[0] < 0.2 / 1e-6


def test_buckets_that_take_turns_share_the_target():
    operator = join(alert(Shedding(Policy.ON)))
    record, of_each = None, 100_000
    for _ in range(80):
        seen = reports(report(10**8, of_each, of_each * 5e-7))
        record = operator.decide(record, [seen, seen], 0.2 + 2 * of_each * 5e-7)
        of_each = int(budgets(operator, record)[0])
    assert 2 * of_each == pytest.approx((ROOM - 0.2) / 5e-7, rel=0.05)


def test_alerts_of_a_join_share_the_target():
    shedding = Shedding(Policy.ON)
    operator = join(alert(shedding), replace(alert(shedding), name="near"))
    light, heavy = report(100_000, 100_000, 0.1), report(10_000_000, 500_000, 0.5)
    _, of_heavy = budgets(operator, after(operator, [reports(light, heavy)], 0.8))
    assert of_heavy == pytest.approx((ROOM - 0.2 - 0.1) / 1e-6, rel=0.05)
    both = budgets(operator, after(operator, [reports(heavy, heavy)], 1.2))
    assert both == [pytest.approx((ROOM - 0.2) / 2 / 1e-6, rel=0.05)] * 2


# ---- alerts that shed beside others that do not


def test_only_those_shed_that_may():
    exact, shedding = alert(NO_SHEDDING, 0, 100), alert(Shedding(Policy.ON, budget=100))
    operator = join(exact, shedding)
    both, record = alarms_of(operator, 4)
    every, _ = alarms_of(join(exact), 4)
    assert all(of_both >= of_exact for of_both, of_exact in zip(both, every, strict=True))
    assert sum(both) <= sum(every) + 4 * (100 + CELLS)
    assert set(record.directive.alerts) == {1}
    assert len(record.shed) == 1


def test_who_cannot_shed_is_not_steered():
    operator = join(alert(NO_SHEDDING))
    assert isinstance(operator, Steered)
    assert isinstance(operator, BucketAware)
    assert operator.for_bucket(1, 2).with_directive(ThresholdAlertDirective(3, {}), {}) is operator
    assert operator.decide(None, [], 1.0) is None
    assert alarms_of(operator, 2)[1] is None


# ---- from the plan to EXPLAIN

STREAMS = "".join(
    f"CREATE STREAM {name} (k INT, v DOUBLE, t BIGINT) FROM 'x.csv' TIMESTAMP BY t;\n" for name in ("r", "s")
)
ALERTS = "".join(
    f"CREATE ALERT {name} FROM r, s WITHIN 5 SECONDS MATCHING k WHEN r.v * s.v > {limit} EMIT ALL;\n"
    for name, limit in (("first", 1), ("second", 2))
)


def plans(*sheddings: Shedding) -> tuple[Plan, ...]:
    """Both alerts, grouped and optimised."""
    made = [query.plan for query in bind(STREAMS + ALERTS).queries]
    told = [rewrite(plan, partial(_with, shedding=own)) for plan, own in zip(made, sheddings, strict=True)]
    return tuple(optimize(plan)[0] for plan in group_alerts(told))


def _with(node: Plan, shedding: Shedding) -> Plan:
    if not isinstance(node, ThresholdJoin):
        return node
    return replace(node, alerts=tuple(replace(each, shedding=shedding) for each in node.alerts))


def test_grouped_alerts_keep_what_they_may_shed():
    one, other = Shedding(Policy.ON, budget=10), NO_SHEDDING
    (joined,) = {node for plan in plans(one, other) for node in walk(plan) if isinstance(node, ThresholdJoin)}
    assert [each.shedding for each in joined.alerts] == [one, other]
    assert all(isinstance(demand, KeepAll) for each in joined.alerts for demand in each.demands)


def test_what_is_shed_is_explained():
    first, second = Shedding(Policy.ON, budget=1000), Shedding(Policy.DROP, target=500_000)
    lines = certificates(plans(first, second)[0])
    said = [line.partition(": ")[2] for line in lines if line.startswith("  sheds when omission is not enough")]
    some, others = (
        "with more than 1000 combinations in a step",
        "with more combinations than can be judged in 500 milliseconds a step",
    )
    assert said == [
        f"{some}, only those of the most productive spreads are judged",
        f"{others}, only some at random are judged",
    ]
    assert not any("sheds" in line for line in certificates(plans(NO_SHEDDING, NO_SHEDDING)[0]))


def test_a_run_can_go_on_with_another_budget_but_not_with_another_policy():
    texts = [
        certificates(plans(shedding, NO_SHEDDING)[0], limits=False)
        for shedding in (
            Shedding(Policy.ON, budget=1000),
            Shedding(Policy.ON, target=1),
            Shedding(Policy.DROP),
            NO_SHEDDING,
        )
    ]
    assert texts[0] == texts[1]
    assert len({tuple(text) for text in texts}) == 3


# ---- in a run


@pytest.mark.parametrize("buckets", [1, 3])
def test_a_run_tells_what_it_shed(buckets):
    every, _ = alarms_of_run("", buckets)
    found, record = alarms_of_run(" WITH (shedding = on, budget = 90)", buckets)
    assert not found - every
    assert 0 < found.total() < every.total()
    (told,) = record.shed
    assert (told.query, told.step) == ("first", 2)
    assert told.in_step.volume == 3 * 20 * 20  # of each key; those of the step before are too far away
    assert told.in_step.comparisons <= 90 + buckets * CELLS
    assert told.overall.found == found.total()


def alarms_of_run(options: str, buckets: int) -> tuple[Counter[tuple[object, ...]], ThresholdAlertRecord | None]:
    text = "CREATE ALERT first FROM r, s WITHIN 50 MICROSECONDS MATCHING k WHEN r.v + s.v > 20 EMIT ALL"
    program = bind(f"{STREAMS}{text}{options};")
    _, graph = compile_queries(program)
    rows = [{"k": k, "v": float(t % 20), "t": t} for k in range(3) for t in range(20)]
    streams = [stream for stream in program.catalog if isinstance(stream, SourceStream)]
    sources = {stream.name: MemorySource(stream, pa.Table.from_pylist(rows)) for stream in streams}
    engine, found = Engine(Job(graph, sources, {}, buckets)), Counter[tuple[object, ...]]()
    for moment in (0, 1000):
        batches = pa.Table.from_pylist([{**row, "t": row["t"] + moment} for row in rows]).to_batches()
        out, _ = engine.step(dict.fromkeys("rs", batches))
        found.update(
            (row["k"], row["r_t"], row["s_t"]) for _, batch in out.results for row in batch.columns.to_pylist()
        )
    record: Any = next(iter(engine.control.values()), None)
    return found, record

"""Alerts that shed against those that do not: nothing is false, nothing is missed if the budget is enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.alerts import Combination, Element, Near, alarms
from support.examples import examples
from support.recorded import recorded
from support.states import through_files

from tidegate.algebra.similarity_join import NO_SHEDDING, Policy, Shedding
from tidegate.algebra.threshold_alert import Alert, Demand, KeepAll, Link
from tidegate.expressions.nodes import Call, Cast, Column, Expression, Literal
from tidegate.optimizer.omission import omission_window
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import NO_STATE, Chunks, Step
from tidegate.physical.threshold_alert.control import ThresholdAlertRecord
from tidegate.physical.threshold_alert.operator import ThresholdAlertOperator
from tidegate.physical.threshold_alert.shedding import CELLS
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

KEYS = "ab"
POLICIES = st.sampled_from([Policy.ON, Policy.DROP])
Inputs = tuple[tuple[Element, ...], ...]


@dataclass(frozen=True)
class Run:
    """An alert over streams that come in steps, each with the watermark after it, in one bucket or one for each key."""

    alert: Alert
    threshold: int
    steps: tuple[tuple[Inputs, int], ...]
    buckets: int

    @property
    def many(self) -> int:
        return len(self.alert.members)

    def operator(self, shedding: Shedding) -> ThresholdAlertOperator:
        keys = tuple((f"{i}.k",) for i in range(self.many))
        schemas = tuple(schema(i) for i in range(self.many))
        return ThresholdAlertOperator(schemas, keys, (replace(self.alert, shedding=shedding),))

    def reference(self, threshold: int) -> set[Combination]:
        near = Near(tuple((x.left, x.right, x.before, x.after, False, False) for x in self.alert.links))
        streams = [[e for inputs, _ in self.steps for e in inputs[i]] for i in range(self.many)]
        return alarms(streams, near, lambda values: sum(values) > threshold)


@dataclass
class Outcome:
    """What came out of each step in each bucket, and what was decided after it."""

    steps: list[list[Step]]
    records: list[ThresholdAlertRecord | None]

    def raised(self, run: Run) -> Counter[Combination]:
        return Counter(c for steps in self.steps for step in steps for c in combinations_of(step, run))


def outcome(
    run: Run, shedding: Shedding, *, backwards: bool = False, after: Sequence[ThresholdAlertRecord | None] = ()
) -> Outcome:
    """Run all steps; `backwards` elements of a step arrive in the opposite order. `after`: records to replay."""
    operator, record, found = run.operator(shedding), None, Outcome([], [])
    states: list[Chunks] = [NO_STATE] * run.buckets
    for number, (inputs, watermark) in enumerate(run.steps):
        steps = []
        for bucket in range(run.buckets):
            batches = [batch_of(i, own(e, bucket, run.buckets, backwards)) for i, e in enumerate(inputs)]
            directed = operator.for_bucket(bucket, run.buckets).with_directive(
                None if record is None else record.directive, {}
            )
            steps.append(directed.step(states[bucket], batches, [watermark] * run.many))
        states = [through_files(step.state) for step in steps]
        reports: list[Any] = [recorded(step.report) for step in steps if step.report is not None]
        record = recorded(after[number] if after else operator.decide(record, reports, 0.1))
        found.steps.append(steps)
        found.records.append(record)
    return found


def schema(which: int) -> Schema:
    return Schema.of(**{f"{which}.k": Type.STRING, f"{which}.t": Type.BIGINT, f"{which}.v": Type.INT})


def own(elements: Sequence[Element], bucket: int, buckets: int, backwards: bool) -> list[Element]:
    mine = [e for e in elements if buckets == 1 or KEYS.index(str(e[0])) == bucket]
    return mine[::-1] if backwards else mine


def batch_of(which: int, elements: Sequence[Element]) -> Batch:
    columns = [pa.array([e[i] for e in elements], f.type.arrow) for i, f in enumerate(schema(which))]
    times = np.array([t for _, t, _ in elements], np.int64)
    return Batch(times, times + 1, pa.RecordBatch.from_arrays(columns, schema=schema(which).arrow))


def combinations_of(step: Step, run: Run) -> list[Combination]:
    return [
        tuple((row[f"{m}.k"], row[f"{m}.t"], row[f"{m}.v"]) for m in range(run.many))
        for row in step.output.columns.to_pylist()
    ]


# ---- random alerts


def total(members: int) -> Expression:
    added: Expression = Column("0.v", Type.INT)
    for which in range(1, members):
        added = Call("+", (added, Column(f"{which}.v", Type.INT)), Type.INT)
    return added


@st.composite
def runs(draw: st.DrawFn, *, everything: bool) -> Run:
    members, threshold = draw(st.sampled_from([2, 2, 3])), draw(st.integers(-1, 6))
    links = tuple(
        Link(i, j, draw(st.integers(0, 5)), draw(st.integers(0, 5)))
        for i in range(members)
        for j in range(i + 1, members)
    )
    value = total(members)
    condition = Call(">", (value, Literal(threshold, Type.INT)), Type.BOOLEAN)
    alert = Alert("a", tuple(range(members)), links, Cast(value, Type.DOUBLE), condition, everything=everything)
    demands = tuple(KeepAll() if everything else demand_of(alert, i) for i in range(members))
    element = st.tuples(st.sampled_from(KEYS), st.integers(0, 9), st.integers(0, 4))
    marks = [*sorted(draw(st.lists(st.integers(0, 10), max_size=3))), FOREVER]
    parts = tuple(
        tuple(tuple(e for e in draw(st.lists(element, max_size=8)) if e[1] >= before) for _ in range(members))
        for before, _ in pairwise([0, *marks])
    )
    steps = tuple(zip(parts, marks, strict=True))
    return Run(replace(alert, demands=demands), threshold, steps, draw(st.integers(1, 2)))


def demand_of(alert: Alert, position: int) -> Demand | KeepAll:
    window = omission_window(alert, position)
    return window if isinstance(window, KeepAll) else Demand(f"{position}.v", *window, above=True, below=False)


# ---- what must hold


@given(runs(everything=True), POLICIES)
@settings(max_examples=examples(60), deadline=None)
def test_with_a_budget_that_is_enough_alarms_are_those_without_shedding(run: Run, policy: Policy) -> None:
    exact, shed = outcome(run, NO_SHEDDING), outcome(run, Shedding(policy, budget=10**9))
    for plain, own_steps in zip(exact.steps, shed.steps, strict=True):
        for one, other in zip(plain, own_steps, strict=True):
            assert other.output.to_arrow().equals(one.output.to_arrow())
            assert other.watermark == one.watermark
            assert set(other.state) == set(one.state)
            assert one.report is None
    assert all(
        each.shed[0].in_step.compared_share == each.shed[0].in_step.results_share == 1.0 for each in shed.records
    )
    assert not any(exact.records)


@given(runs(everything=False), POLICIES)
@settings(max_examples=examples(40), deadline=None)
def test_with_a_budget_that_is_enough_pruned_alarms_are_the_same(run: Run, policy: Policy) -> None:
    shed = outcome(run, Shedding(policy, budget=10**9))
    assert shed.raised(run) == outcome(run, NO_SHEDDING).raised(run)


@given(runs(everything=True), POLICIES, st.integers(0, 12))
@settings(max_examples=examples(80), deadline=None)
def test_alarms_are_some_of_all_and_no_more_is_judged_than_allowed(run: Run, policy: Policy, budget: int) -> None:
    exact, shed = outcome(run, NO_SHEDDING), outcome(run, Shedding(policy, budget=budget))
    cells = CELLS if policy is Policy.ON else 1
    volume = judged = found = 0
    for plain, own_steps, record in zip(exact.steps, shed.steps, shed.records, strict=True):
        for one, other in zip(plain, own_steps, strict=True):
            assert not Counter(combinations_of(other, run)) - Counter(combinations_of(one, run))
            seen = other.report.alerts[0]
            assert sum(seen.made) <= budget / run.buckets + cells
            assert sum(seen.found) == len(other.output)
            assert all(f <= m <= v for f, m, v in zip(seen.found, seen.made, seen.volume, strict=True))
            volume, judged = volume + sum(seen.volume), judged + sum(seen.made)
            found += len(other.output)
        overall = record.shed[0].overall
        assert (overall.volume, overall.comparisons, overall.found) == (volume, judged, found)


@given(runs(everything=False), POLICIES, st.integers(0, 12))
@settings(max_examples=examples(40), deadline=None)
def test_no_alarm_is_false_however_little_is_judged(run: Run, policy: Policy, budget: int) -> None:
    assert set(outcome(run, Shedding(policy, budget=budget)).raised(run)) <= run.reference(run.threshold)


@given(runs(everything=True), POLICIES, st.integers(0, 12))
@settings(max_examples=examples(60), deadline=None)
def test_replayed_steps_choose_the_same_however_elements_arrive(run: Run, policy: Policy, budget: int) -> None:
    shedding = Shedding(policy, budget=budget)
    first = outcome(run, shedding)
    again = outcome(run, shedding, backwards=True, after=first.records)
    for steps, replayed in zip(first.steps, again.steps, strict=True):
        for step, other in zip(steps, replayed, strict=True):
            assert Counter(combinations_of(step, run)) == Counter(combinations_of(other, run))

"""Emit alarms: combinations of elements near each other in time whose function crosses a threshold.

Each input has one store for all alerts, with the elements that some alert needs. A step adds the new elements there and
omits what it can; the remaining new elements are combined with the remaining elements of the other inputs. If that is
still too much, an alert that may shed judges only part of its combinations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate.algebra.threshold_alert import (
    ALARM,
    INCIDENT,
    NUMBER,
    VALUE,
    Alert,
    Demand,
    demands_on,
)
from tidegate.expressions.evaluate import Evaluation, evaluate
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch, concat, concat_columns, take
from tidegate.physical.common.dead_letters import NO_DEAD_LETTERS
from tidegate.physical.common.failures import dead_letters_of_failures
from tidegate.physical.common.operator import Chunks, ControlTypes, PartitionKeys, Step
from tidegate.physical.threshold_alert import control
from tidegate.physical.threshold_alert.control import (
    ThresholdAlertDirective,
    ThresholdAlertRecord,
    ThresholdAlertReport,
)
from tidegate.physical.threshold_alert.kernels.combinations import (
    Members,
    count_combinations,
    find_combinations,
)
from tidegate.physical.threshold_alert.kernels.incidents import Incidents
from tidegate.physical.threshold_alert.omission import alias_of
from tidegate.physical.threshold_alert.plan import AlertPlan
from tidegate.physical.threshold_alert.shedding import Judging
from tidegate.physical.threshold_alert.state import Side, ThresholdAlertState, load_with_inputs
from tidegate.schema import Schema
from tidegate.time import CHRONON, FOREVER

if TYPE_CHECKING:
    from tidegate.physical.common.condition_columns import Condition

MOST_COMBINATIONS = 1_000_000
"""Number of combinations that are judged together."""


@dataclass(frozen=True, slots=True)
class ThresholdAlertOperator:
    """Evaluate one or several alerts over inputs whose elements meet by their keys."""

    inputs: tuple[Schema, ...]
    keys: tuple[tuple[str, ...], ...]
    alerts: tuple[Alert, ...]
    directive: ThresholdAlertDirective | None = field(default=None, compare=False)
    bucket: int = field(default=0, compare=False)
    buckets: int = field(default=1, compare=False)
    schema: Schema = field(init=False, repr=False, compare=False)
    demands: tuple[tuple[Demand, ...], ...] = field(init=False, repr=False, compare=False)
    """What alerts demand of the elements of each input that are kept."""
    plans: tuple[AlertPlan, ...] = field(init=False, repr=False, compare=False)
    shedding: Mapping[int, Alert] = field(init=False, repr=False, compare=False)
    """The alerts that may shed, by number."""

    def __post_init__(self) -> None:
        columns = (NUMBER, *(f for each in self.inputs for f in each.fields), VALUE, INCIDENT, ALARM)
        object.__setattr__(self, "schema", Schema(columns))
        object.__setattr__(self, "demands", tuple(demands_on(i, self.alerts) for i in range(len(self.inputs))))
        object.__setattr__(self, "plans", tuple(AlertPlan.of(alert, self.inputs) for alert in self.alerts))
        object.__setattr__(self, "shedding", control.alerts_that_shed(self.alerts))

    @property
    def partition_keys(self) -> PartitionKeys:
        return self.keys

    @property
    def looks_back(self) -> int | None:
        return 2 * max(plan.span for plan in self.plans) + CHRONON

    def emits_at_once(self) -> bool:
        return True

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(map(alias_of, self.inputs))

    @property
    def is_first(self) -> bool:
        return False

    def describe(self) -> str:
        names = ", ".join(alert.name for alert in self.alerts)
        by = f" by {', '.join(self.keys[0])}" if self.keys[0] else ""
        return f"threshold join for {names}{by}"

    def for_bucket(self, bucket: int, buckets: int) -> ThresholdAlertOperator:
        # Without keys, all elements meet in one bucket.
        return replace(self, bucket=bucket, buckets=buckets) if self.shedding and self.keys[0] else self

    @staticmethod
    def control_types() -> ControlTypes:
        return ControlTypes(ThresholdAlertDirective, ThresholdAlertReport, ThresholdAlertRecord)

    def with_directive(
        self, directive: ThresholdAlertDirective | None, arrived: Mapping[str, int]
    ) -> ThresholdAlertOperator:
        return replace(self, directive=directive) if self.shedding else self

    def decide(
        self, record: ThresholdAlertRecord | None, reports: Sequence[ThresholdAlertReport], seconds: float
    ) -> ThresholdAlertRecord | None:
        return control.decide(self.shedding, record, reports, seconds)

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        """Process the new elements, emit alarms at once, and drop elements that no later element can meet."""
        scene = load_with_inputs(state, inputs, self.inputs, self.keys, self.demands)
        promise = min(min(watermarks) - max(plan.lag for plan in self.plans), FOREVER)
        outputs, dead, incidents = [Batch.empty(self.schema)], list[pa.RecordBatch](), dict[int, Incidents]()
        rows = sum(map(len, inputs))
        judging = {number: self._start_judging(number, alert, rows) for number, alert in self.shedding.items()}
        for number, plan in enumerate(self.plans):
            incidents[number] = scene.incidents_of_alert(number)
            for alarms in _find_alarms(plan, scene, judging.get(number)):
                dead += [alarms.dead] if alarms.dead.num_rows else []
                if len(alarms.start):
                    output, incidents[number] = self._rows_of_alarms(number, alarms, scene, incidents[number])
                    outputs.append(output)
        horizons = [self._horizon(which, watermarks) for which in range(len(self.inputs))]
        pauses = {number: promise - plan.span for number, plan in enumerate(self.plans)}
        after = scene.save(state, horizons, incidents, pauses)
        reports = {number: each.report for number, each in judging.items()}
        report = ThresholdAlertReport(reports) if reports else None
        letters = concat_columns(dead) if dead else NO_DEAD_LETTERS
        omitted = tuple(side.omitted for side in scene.sides)
        return Step(after, concat(outputs), promise, letters, report, omitted=omitted)

    def _start_judging(self, number: int, alert: Alert, rows: int) -> Judging:
        return Judging(control.plan_judging(number, alert, self.directive, (self.bucket, self.buckets), rows))

    def _horizon(self, which: int, watermarks: Sequence[int]) -> int:
        """Return the time before which elements of an input cannot meet any later element."""
        horizon = FOREVER
        for members, most in ((p.alert.members, p.nearness.most) for p in self.plans if which in p.alert.members):
            own = members.index(which)
            for other, member in enumerate(members):
                if other != own:
                    horizon = min(horizon, watermarks[member] - int(most[other, own]))
        return horizon

    def _rows_of_alarms(
        self, number: int, alarms: _Alarms, scene: ThresholdAlertState, incidents: Incidents
    ) -> tuple[Batch, Incidents]:  # fmt: skip
        """Return alarms as rows, numbered within their incidents, and the incidents after them."""
        alert, many = self.alerts[number], len(alarms.start)
        known, incident, place = incidents.add_alarms(
            alarms.group, alarms.start, alarms.end - CHRONON, self.plans[number].span
        )
        columns: list[pa.Array] = [pa.array(np.full(many, number), NUMBER.type.arrow)]
        for which, schema in enumerate(self.inputs):
            if which in alert.members:
                rows = alarms.rows[:, alert.members.index(which)]
                columns += take(scene.sides[which].batch.columns, rows).columns
            else:
                columns += self._columns_of_absent_input(which, alert, alarms, scene, schema)
        columns += [alarms.value, pa.array(incident).cast(INCIDENT.type.arrow), pa.array(place)]
        rows_out = pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)
        return Batch(alarms.start, alarms.end, rows_out), known

    def _columns_of_absent_input(
        self, which: int, alert: Alert, alarms: _Alarms, scene: ThresholdAlertState, schema: Schema
    ) -> Iterator[pa.Array]:
        """Yield the columns of an input that is not a member: NULL, except for the keys, which all inputs share."""
        first = alert.members[0]
        same = dict(zip(self.keys[which], self.keys[first], strict=True))
        for each in schema.fields:
            if each.name in same:
                yield scene.sides[first].batch.column(same[each.name]).take(pa.array(alarms.rows[:, 0]))
            else:
                yield pa.nulls(len(alarms.start), each.type.arrow)


@dataclass(frozen=True, slots=True, eq=False)
class _Alarms:
    """Combinations that raise an alarm: positions and times of their elements by member, group, validity and value."""

    rows: Ints
    times: Ints
    group: Ints
    start: Ints
    end: Ints
    value: pa.Array
    dead: pa.RecordBatch


def _find_alarms(plan: AlertPlan, scene: ThresholdAlertState, judging: Judging | None) -> Iterator[_Alarms]:
    """Yield the alarms with a new element, in portions; with `judging`, only from the combinations it chooses."""
    sides = [scene.sides[member] for member in plan.alert.members]
    offsets = np.cumsum([0, *(len(side.batch) for side in sides)])
    bounds = np.stack([offset + side.group_bounds(scene.groups) for offset, side in zip(offsets, sides, strict=False)])
    time, is_new = (np.concatenate(parts) for parts in zip(*((s.batch.start, s.is_new) for s in sides), strict=True))
    members = Members(time, is_new, bounds)
    if judging is None and plan.condition is not None:
        yield from _search_alarms(plan, plan.condition, sides, members)
        return
    choice = order = None
    if judging is not None:
        choice = judging.choose_combinations(count_combinations(members, plan.nearness, judging.plan.cells))
    if choice is not None:
        members, order = _arrival_independent_order(scene, sides, offsets)
    start = 0
    while start < len(time):
        found, start = find_combinations(members, plan.nearness, start=start, enough=MOST_COMBINATIONS, choice=choice)
        if len(found):
            began = perf_counter()
            rows = found if order is None else order[found]
            alarms = _judge_combinations(plan, sides, rows - offsets[:-1], time[rows])
            if judging is not None:
                judging.record_alarms(np.ptp(alarms.times, axis=1), perf_counter() - began)
            yield alarms


def _search_alarms(plan: AlertPlan, condition: Condition, sides: Sequence[Side], members: Members) -> Iterator[_Alarms]:
    """Yield the alarms with a new element, in portions; the condition is decided while they are searched."""
    from tidegate.physical.common.kernels.condition_search import ConditionInputs
    from tidegate.physical.threshold_alert.kernels.alarm_search import find_alarms

    columns, start = condition.columns([side.batch.columns for side in sides]), 0
    bounds = condition.bounds(columns)
    inputs = ConditionInputs(condition.program, columns.addresses, bounds.addresses)
    while start < len(members.time):
        found, failures, start = find_alarms(members, plan.nearness, inputs, start=start, enough=MOST_COMBINATIONS)
        if len(found):
            rows, times, fails = found - members.bounds[:, 0], members.time[found], failures != 0
            dead = NO_DEAD_LETTERS
            if fails.any():
                combined = _combine_elements(plan, sides, rows[fails], times[fails])
                verdict = Evaluation(pa.nulls(len(combined)), failures[fails].astype(np.int8))
                dead = dead_letters_of_failures(combined, verdict, plan.alert.condition, origin=plan.alert.name)
            yield _raise_alarms(plan, sides, rows[~fails], times[~fails], dead)


def _arrival_independent_order(
    scene: ThresholdAlertState, sides: Sequence[Side], offsets: Ints
) -> tuple[Members, Ints]:
    """Return the elements in an order that does not depend on their order of arrival, and their places.

    A step that chooses among combinations then makes the same choice when it is replayed.
    """
    ranks = scene.group_ranks
    orders = [side.canonical_order(ranks) for side in sides]
    bounds = [
        offset + np.searchsorted(ranks[side.group[order]], np.arange(scene.groups + 1))
        for offset, side, order in zip(offsets, sides, orders, strict=False)
    ]
    time, is_new = (
        np.concatenate(parts)
        for parts in zip(*((s.batch.start[o], s.is_new[o]) for s, o in zip(sides, orders, strict=True)), strict=True)
    )
    places = np.concatenate([offset + order for offset, order in zip(offsets, orders, strict=False)])
    return Members(time, is_new, np.stack(bounds)), places


def _judge_combinations(plan: AlertPlan, sides: Sequence[Side], rows: Ints, times: Ints) -> _Alarms:
    """Return the combinations for which the condition is true, and dead letters of those for which it fails."""
    alert, combined = plan.alert, _combine_elements(plan, sides, rows, times)
    verdict = evaluate(alert.condition, combined.columns, len(rows))
    true = verdict.values.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - Arrow's API
    dead = NO_DEAD_LETTERS
    if verdict.errors is not None:
        true = true & (verdict.errors == 0)
        dead = dead_letters_of_failures(combined, verdict, alert.condition, origin=alert.name)
    return _raise_alarms(plan, sides, rows[true], times[true], dead)


def _raise_alarms(plan: AlertPlan, sides: Sequence[Side], rows: Ints, times: Ints, dead: pa.RecordBatch) -> _Alarms:
    """Return combinations for which the condition is true as alarms."""
    alert, combined = plan.alert, _combine_elements(plan, sides, rows, times)
    # The comparison may succeed where computing the value fails; such an alarm has no value.
    value = evaluate(alert.value, combined.columns, len(rows)).values
    start, end = combined.start, combined.end
    if alert.lasting:
        start, end = times.max(axis=1), (times + np.array(alert.lasting)).min(axis=1)
    return _Alarms(rows, times, sides[0].group[rows[:, 0]], start, end, value, dead)


def _combine_elements(plan: AlertPlan, sides: Sequence[Side], rows: Ints, times: Ints) -> Batch:
    """Return combinations as elements, from their first to their last time, with the columns that the alert reads."""
    arrays, names = list[pa.Array](), list[str]()
    for side, places in zip(sides, rows.T, strict=True):
        own = [name for name in side.batch.columns.schema.names if name in plan.read]
        arrays += [side.batch.columns.column(name).take(pa.array(places)) for name in own]
        names += own
    columns = pa.RecordBatch.from_arrays(arrays, names)
    return Batch(times.min(axis=1), times.max(axis=1) + CHRONON, columns)

"""Emit alarms: combinations of elements near each other in time whose function crosses a threshold.

Each input has one store for all alerts, with the elements that some alert needs. A step adds the new elements there and
omits what it can; the remaining new elements are combined with the remaining elements of the other inputs. If that is
still too much, an alert that may shed judges only part of its combinations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
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
    alarm_span,
    demands_on,
    time_distances,
)
from tidegate.expressions.evaluate import Evaluation, evaluate
from tidegate.expressions.nodes import columns_of
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
    Nearness,
    count_combinations,
    find_combinations,
)
from tidegate.physical.threshold_alert.kernels.incidents import Incidents
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

    @property
    def schema(self) -> Schema:
        return Schema((NUMBER, *(f for each in self.inputs for f in each), VALUE, INCIDENT, ALARM))

    @property
    def partition_keys(self) -> PartitionKeys:
        return self.keys

    @property
    def looks_back(self) -> int | None:
        return 2 * max(alarm_span(alert) for alert in self.alerts) + CHRONON

    def describe(self) -> str:
        names = ", ".join(alert.name for alert in self.alerts)
        by = f" by {', '.join(self.keys[0])}" if self.keys[0] else ""
        return f"threshold join for {names}{by}"

    def for_bucket(self, bucket: int, buckets: int) -> ThresholdAlertOperator:
        # Without keys, all elements meet in one bucket.
        return replace(self, bucket=bucket, buckets=buckets) if self._shedding_alerts and self.keys[0] else self

    @staticmethod
    def control_types() -> ControlTypes:
        return ControlTypes(ThresholdAlertDirective, ThresholdAlertReport, ThresholdAlertRecord)

    def with_directive(
        self, directive: ThresholdAlertDirective | None, arrived: Mapping[str, int]
    ) -> ThresholdAlertOperator:
        return replace(self, directive=directive) if self._shedding_alerts else self

    def decide(
        self, record: ThresholdAlertRecord | None, reports: Sequence[ThresholdAlertReport], seconds: float
    ) -> ThresholdAlertRecord | None:
        return control.decide(self._shedding_alerts, record, reports, seconds)

    @property
    def _shedding_alerts(self) -> Mapping[int, Alert]:
        return control.alerts_that_shed(self.alerts)

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        """Process the new elements, emit alarms at once, and drop elements that no later element can meet."""
        demands = [demands_on(which, self.alerts) for which in range(len(self.inputs))]
        scene = load_with_inputs(state, inputs, self.inputs, self.keys, demands)
        promise = min(min(watermarks) - max(_lag(alert) for alert in self.alerts), FOREVER)
        outputs, dead, incidents = [Batch.empty(self.schema)], list[pa.RecordBatch](), dict[int, Incidents]()
        rows = sum(map(len, inputs))
        judging = {number: self._start_judging(number, alert, rows) for number, alert in self._shedding_alerts.items()}
        for number, alert in enumerate(self.alerts):
            incidents[number] = scene.incidents_of_alert(number)
            for alarms in _find_alarms(alert, scene, judging.get(number)):
                dead += [alarms.dead] if alarms.dead.num_rows else []
                if len(alarms.start):
                    output, incidents[number] = self._rows_of_alarms(number, alarms, scene, incidents[number])
                    outputs.append(output)
        horizons = [self._horizon(which, watermarks) for which in range(len(self.inputs))]
        pauses = {number: promise - alarm_span(alert) for number, alert in enumerate(self.alerts)}
        after = scene.save(state, horizons, incidents, pauses)
        reports = {number: each.report for number, each in judging.items()}
        report = ThresholdAlertReport(reports) if reports else None
        letters = concat_columns(dead) if dead else NO_DEAD_LETTERS
        omitted = sum(side.omitted for side in scene.sides)
        return Step(after, concat(outputs), promise, letters, report, omitted=omitted)

    def _start_judging(self, number: int, alert: Alert, rows: int) -> Judging:
        return Judging(control.plan_judging(number, alert, self.directive, (self.bucket, self.buckets), rows))

    def _horizon(self, which: int, watermarks: Sequence[int]) -> int:
        """Return the time before which elements of an input cannot meet any later element."""
        horizon = FOREVER
        for alert in (a for a in self.alerts if which in a.members):
            own, most = alert.members.index(which), _nearness(alert).most
            for other, member in enumerate(alert.members):
                if other != own:
                    horizon = min(horizon, watermarks[member] - int(most[other, own]))
        return horizon

    def _rows_of_alarms(
        self, number: int, alarms: _Alarms, scene: ThresholdAlertState, incidents: Incidents
    ) -> tuple[Batch, Incidents]:  # fmt: skip
        """Return alarms as rows, numbered within their incidents, and the incidents after them."""
        alert, many = self.alerts[number], len(alarms.start)
        known, incident, place = incidents.add_alarms(
            alarms.group, alarms.start, alarms.end - CHRONON, alarm_span(alert)
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
        for each in schema:
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


def _find_alarms(alert: Alert, scene: ThresholdAlertState, judging: Judging | None) -> Iterator[_Alarms]:
    """Yield the alarms with a new element, in portions; with `judging`, only from the combinations it chooses."""
    from tidegate.physical.common.conditions import compile_condition

    sides = [scene.sides[member] for member in alert.members]
    names = tuple(frozenset(side.batch.columns.schema.names) for side in sides)
    condition = compile_condition(alert.condition, names, computes_loads=True) if judging is None else None
    offsets = np.cumsum([0, *(len(side.batch) for side in sides)])
    bounds = np.stack([offset + side.group_bounds(scene.groups) for offset, side in zip(offsets, sides, strict=False)])
    time, is_new = (np.concatenate(parts) for parts in zip(*((s.batch.start, s.is_new) for s in sides), strict=True))
    members, nearness = Members(time, is_new, bounds), _nearness(alert)
    if condition is not None:
        yield from _search_alarms(alert, condition, sides, members)
        return
    choice = order = None
    if judging is not None:
        choice = judging.choose_combinations(count_combinations(members, nearness, judging.plan.cells))
    if choice is not None:
        members, order = _arrival_independent_order(scene, sides, offsets)
    start = 0
    while start < len(time):
        found, start = find_combinations(members, nearness, start=start, enough=MOST_COMBINATIONS, choice=choice)
        if len(found):
            began = perf_counter()
            rows = found if order is None else order[found]
            alarms = _judge_combinations(alert, sides, rows - offsets[:-1], time[rows])
            if judging is not None:
                judging.record_alarms(np.ptp(alarms.times, axis=1), perf_counter() - began)
            yield alarms


def _search_alarms(alert: Alert, condition: Condition, sides: Sequence[Side], members: Members) -> Iterator[_Alarms]:
    """Yield the alarms with a new element, in portions; the condition is decided while they are searched."""
    from tidegate.physical.common.kernels.condition_search import ConditionInputs
    from tidegate.physical.threshold_alert.kernels.alarm_search import find_alarms

    columns, start = condition.columns([side.batch.columns for side in sides]), 0
    bounds = condition.bounds(columns)
    inputs = ConditionInputs(condition.program, columns.addresses, bounds.addresses)
    while start < len(members.time):
        found, failures, start = find_alarms(members, _nearness(alert), inputs, start=start, enough=MOST_COMBINATIONS)
        if len(found):
            rows, times, fails = found - members.bounds[:, 0], members.time[found], failures != 0
            dead = NO_DEAD_LETTERS
            if fails.any():
                combined = _combine_elements(alert, sides, rows[fails], times[fails])
                verdict = Evaluation(pa.nulls(len(combined)), failures[fails].astype(np.int8))
                dead = dead_letters_of_failures(combined, verdict, alert.condition, origin=alert.name)
            yield _raise_alarms(alert, sides, rows[~fails], times[~fails], dead)


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


def _judge_combinations(alert: Alert, sides: Sequence[Side], rows: Ints, times: Ints) -> _Alarms:
    """Return the combinations for which the condition is true, and dead letters of those for which it fails."""
    combined = _combine_elements(alert, sides, rows, times)
    verdict = evaluate(alert.condition, combined.columns, len(rows))
    true = verdict.values.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - Arrow's API
    dead = NO_DEAD_LETTERS
    if verdict.errors is not None:
        true = true & (verdict.errors == 0)
        dead = dead_letters_of_failures(combined, verdict, alert.condition, origin=alert.name)
    return _raise_alarms(alert, sides, rows[true], times[true], dead)


def _raise_alarms(alert: Alert, sides: Sequence[Side], rows: Ints, times: Ints, dead: pa.RecordBatch) -> _Alarms:
    """Return combinations for which the condition is true as alarms."""
    combined = _combine_elements(alert, sides, rows, times)
    # The comparison may succeed where computing the value fails; such an alarm has no value.
    value = evaluate(alert.value, combined.columns, len(rows)).values
    start, end = combined.start, combined.end
    if alert.lasting:
        start, end = times.max(axis=1), (times + np.array(alert.lasting)).min(axis=1)
    return _Alarms(rows, times, sides[0].group[rows[:, 0]], start, end, value, dead)


def _combine_elements(alert: Alert, sides: Sequence[Side], rows: Ints, times: Ints) -> Batch:
    """Return combinations as elements, from their first to their last time, with the columns that the alert reads."""
    return Batch(times.min(axis=1), times.max(axis=1) + CHRONON, _combine_columns(alert, sides, rows))


def _combine_columns(alert: Alert, sides: Sequence[Side], rows: Ints) -> pa.RecordBatch:
    """Return the columns that the condition and the value read, one row for each combination."""
    read = columns_of(alert.condition) | columns_of(alert.value)
    arrays, names = list[pa.Array](), list[str]()
    for side, places in zip(sides, rows.T, strict=True):
        own = [name for name in side.batch.columns.schema.names if name in read]
        arrays += [side.batch.column(name).take(pa.array(places)) for name in own]
        names += own
    return pa.RecordBatch.from_arrays(arrays, names)


def _lag(alert: Alert) -> int:
    """Return how long before its last element the validity of an alarm can begin."""
    return 0 if alert.lasting else alarm_span(alert)


@lru_cache(maxsize=256)
def _nearness(alert: Alert) -> Nearness:
    return Nearness(np.array(time_distances(alert), np.int64), alert.step, alert.links[0].before)

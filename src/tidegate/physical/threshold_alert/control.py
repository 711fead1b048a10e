"""Decide what alerts may judge in the next step, from what all buckets judged in this one.

If budgets are given, steps depend on nothing that is measured with a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate.algebra.similarity_join import SECOND, Policy
from tidegate.algebra.threshold_alert import Alert
from tidegate.physical.common.arrays import Floats
from tidegate.physical.common.control import ControlRecord, Directive, Report, ShedRecord, ShedWork
from tidegate.physical.shedding.kernels.evidence import Tally
from tidegate.physical.shedding.kernels.random_choice import key_of
from tidegate.physical.shedding.pace import StepPace
from tidegate.physical.shedding.report import record_shedding
from tidegate.physical.threshold_alert.shedding import (
    LEARNING,
    AlertReport,
    JudgingPlan,
    by_cell,
    cells_of,
    estimate_alarms,
    tally_of,
)

_COST = 1e-7
"""Seconds for judging one combination, before any are measured."""


@dataclass(frozen=True, slots=True)
class AlertDirective:
    """Evidence on the cells of an alert, and its pace if it has no budget."""

    found: tuple[float, ...]
    """Alarms by cell, decayed."""
    made: tuple[float, ...]
    """Judged combinations by cell, decayed."""
    found_late: tuple[float, ...]
    """Alarms by cell in recent steps."""
    made_late: tuple[float, ...]
    """Judged combinations by cell in recent steps."""
    pace: StepPace = field(default_factory=lambda: StepPace(_COST))
    sharing: int = 1
    """Number of alerts that share the time."""
    left: float = 0.0
    """Seconds that must be left to the other alerts."""

    @classmethod
    def of(cls, evidence: Tally, many: int) -> AlertDirective:
        """Return the directive of an alert with a budget, from the evidence on `many` cells."""
        counts = (evidence.matches, evidence.comparisons_by_lag, *evidence.recent)
        found, made, found_late, made_late = (tuple(by_cell(each, many).tolist()) for each in counts)
        return cls(found, made, found_late, made_late)

    @classmethod
    def beginning(cls, many: int) -> AlertDirective:
        """Return the directive of an alert with `many` cells before the first decision."""
        zeros = (0.0,) * many
        return cls(zeros, zeros, zeros, zeros)

    def evidence(self) -> Tally:
        """Return the evidence on the cells."""
        tally = tally_of(np.array(self.found), np.array(self.made))
        tally.recent[:, -len(self.made) :] = self.found_late, self.made_late
        return tally


@dataclass(frozen=True, slots=True)
class ThresholdAlertDirective(Directive):
    """Directives of the alerts that may shed, by number."""

    step: int
    """Number of steps so far."""
    alerts: Mapping[int, AlertDirective]


@dataclass(frozen=True, slots=True)
class ThresholdAlertReport(Report):
    """Reports on the alerts that may shed, by number."""

    alerts: Mapping[int, AlertReport]


@dataclass(frozen=True, slots=True)
class ThresholdAlertRecord(ControlRecord):
    """Record of alerts that may shed; `shed` has one entry for each of them."""

    directive: ThresholdAlertDirective


def alerts_that_shed(alerts: Sequence[Alert]) -> dict[int, Alert]:
    """Return the alerts that may shed, by number."""
    return {number: alert for number, alert in enumerate(alerts) if alert.shedding.policy is not Policy.OFF}


def plan_judging(
    number: int, alert: Alert, directive: ThresholdAlertDirective | None, place: tuple[int, int], rows: int
) -> JudgingPlan:
    """Return what an alert may judge in a step with `rows` new rows; `place` is the bucket and the bucket count."""
    cells, step, (bucket, buckets) = cells_of(alert), directive.step if directive else 0, place
    known = _directive_for_alert(directive, number, cells.many)
    key = key_of(LEARNING.seed, step, number, bucket)
    return JudgingPlan(cells, _budget(alert, known, rows, buckets), rows, known.evidence(), step, key)


def decide(
    alerts: Mapping[int, Alert],
    record: ThresholdAlertRecord | None,
    reports: Sequence[ThresholdAlertReport],
    seconds: float,
) -> ThresholdAlertRecord | None:
    """Return the record after a step that took `seconds`."""
    if not reports:
        return record
    directive = record.directive if record else None
    step = directive.step + 1 if directive else 1
    seen = [_AlertSummary(number, alert, directive, reports) for number, alert in alerts.items()]
    paced = _pace_alerts([each for each in seen if each.alert.shedding.budget is None], seconds)
    before = record.shed if record else (None,) * len(seen)
    return ThresholdAlertRecord(
        ThresholdAlertDirective(step, {each.number: each.directive for each in seen} | paced),
        shed=tuple(each.shed_record(step, shed) for each, shed in zip(seen, before, strict=True)),
    )


class _AlertSummary:
    """Summary of the reports of all buckets about an alert in a step."""

    def __init__(
        self,
        number: int,
        alert: Alert,
        directive: ThresholdAlertDirective | None,
        reports: Sequence[ThresholdAlertReport],
    ) -> None:
        self.number, self.alert = number, alert
        self.reports = [report.alerts[number] for report in reports]
        self.volume = _sum_by_cell([report.volume for report in self.reports])
        self.made = _sum_by_cell([report.made for report in self.reports])
        self.found = _sum_by_cell([report.found for report in self.reports])
        self.known = _directive_for_alert(directive, number, len(self.made))
        self.tally = self.known.evidence().with_newer(tally_of(self.found, self.made))

    @property
    def directive(self) -> AlertDirective:
        """Return the directive without a pace. Its evidence decays only if combinations were judged."""
        kept = self.tally.with_decay(LEARNING.decay) if self.made.any() else self.tally
        return AlertDirective.of(kept, len(self.made))

    @property
    def rows(self) -> int:
        return max(report.rows for report in self.reports)

    @property
    def seconds_by_bucket(self) -> list[float]:
        """Return the seconds for judging, by bucket."""
        return [report.seconds for report in self.reports]

    def shed_record(self, step: int, before: ShedRecord | None) -> ShedRecord:
        missed = (self.volume - self.made) * by_cell(estimate_alarms(self.tally).measured, len(self.made))
        work = ShedWork(
            comparisons=int(self.made.sum()),
            volume=int(self.volume.sum()),
            found=int(self.found.sum()),
            missed=float(missed.sum()),
        )
        budget = float(sum(report.budget for report in self.reports))
        return record_shedding(self.alert.name, self.alert.shedding.policy.value, work, budget, step, before)

    def pace_after(self, slowest: float, seconds: float) -> StepPace:
        judged, comparing = int(self.made.sum()), sum(self.seconds_by_bucket)
        return self.known.pace.after_step(_target_seconds(self.alert), self.rows, judged, comparing, slowest, seconds)


def _pace_alerts(seen: Sequence[_AlertSummary], seconds: float) -> dict[int, AlertDirective]:
    """Return the directives of alerts without a budget, with the seconds that each must leave to the others.

    Alerts of a join share the time. Each gets the time that the others do not need, and at least its equal share.
    """
    slowest = max((sum(each) for each in zip(*(s.seconds_by_bucket for s in seen), strict=True)), default=0.0)
    paces = {each.number: each.pace_after(slowest, seconds) for each in seen}
    needs = {each.number: float(each.volume.sum()) / len(each.reports) * paces[each.number].cost for each in seen}
    paced: dict[int, AlertDirective] = {}
    for each in seen:
        pace = paces[each.number]
        part = pace.budget(_target_seconds(each.alert), each.rows) * pace.cost / len(seen)
        left = sum(min(need, part) for number, need in needs.items() if number != each.number)
        paced[each.number] = replace(each.directive, pace=pace, sharing=len(seen), left=left)
    return paced


def _budget(alert: Alert, known: AlertDirective, rows: int, buckets: int) -> float:
    """Return the number of combinations that may be judged in each bucket."""
    if alert.shedding.budget is not None:
        return alert.shedding.budget / buckets
    alone = known.pace.budget(_target_seconds(alert), rows)
    return max(alone / known.sharing, alone - known.left / known.pace.cost)


def _directive_for_alert(directive: ThresholdAlertDirective | None, number: int, many: int) -> AlertDirective:
    known = directive.alerts.get(number) if directive else None
    return known or AlertDirective.beginning(many)


def _sum_by_cell(counts: Sequence[tuple[int, ...]]) -> Floats:
    total: Floats = np.array(counts, np.float64).sum(axis=0)
    return total


def _target_seconds(alert: Alert) -> float:
    return alert.shedding.target / SECOND

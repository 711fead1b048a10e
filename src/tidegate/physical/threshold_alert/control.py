"""Decide what alerts may judge in the next step, from what all buckets judged in this one.

An order has

    step     the number of steps so far
    alerts   by number, for alerts that may shed: alarms `found` and combinations `made` (judged) by cell, both decayed,
             and the same counts of recent steps; without a budget, also its `pace`, the number of alerts `sharing` the
             time, and the seconds that must be `left` to the others
    shed     the report on this step and all before it, one row for each of these alerts

If budgets are given, steps depend on nothing that is measured with a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tidegate.algebra.similarity_join import SECOND, Policy
from tidegate.algebra.threshold_alert import Alert
from tidegate.physical.common.arrays import Floats
from tidegate.physical.common.operator import NO_FACTS, Facts
from tidegate.physical.shedding.kernels.evidence import Tally
from tidegate.physical.shedding.kernels.random_choice import key_of
from tidegate.physical.shedding.pace import StepPace
from tidegate.physical.shedding.report import SheddingCounts, report_shedding
from tidegate.physical.threshold_alert.shedding import (
    LEARNING,
    AlertDirective,
    by_cell,
    cells_of,
    estimate_alarms,
    tally_of,
)

_COST = 1e-7
"""Seconds for judging one combination, before any are measured."""

_COUNTS = ("found", "made", "found_late", "made_late")
"""Names of the counts that are recorded for the cells of an alert, in this order."""


def alerts_that_shed(alerts: Sequence[Alert]) -> dict[int, Alert]:
    """Return the alerts that may shed, by number."""
    return {number: alert for number, alert in enumerate(alerts) if alert.shedding.policy is not Policy.OFF}


def directive_for_alert(number: int, alert: Alert, order: Facts, place: tuple[int, int], rows: int) -> AlertDirective:
    """Return what an alert may judge in a step with `rows` new rows; `place` is the bucket and the bucket count."""
    known, cells, step, (bucket, buckets) = (
        _record_of_alert(order, number),
        cells_of(alert),
        order.get("step", 0),
        place,
    )
    key = key_of(LEARNING.seed, step, number, bucket)
    return AlertDirective(
        cells, _budget(alert, known, rows, buckets), rows, _restore_evidence(known, cells.many), step, key
    )


def decide(alerts: Mapping[int, Alert], order: Facts, reports: Sequence[Facts], seconds: float) -> Facts:
    """Return the order after a step that took `seconds`; alerts, and what is reported of them, are by number."""
    told_of = [report for report in reports if report]
    if not told_of:
        return order
    step = order.get("step", 0) + 1
    seen = [_AlertSummary(number, alert, order, told_of) for number, alert in alerts.items()]
    paced = _pace_alerts([each for each in seen if each.alert.shedding.budget is None], seconds)
    before = order.get("shed", [None] * len(seen))
    return {
        "step": step,
        "alerts": {str(each.number): {**each.evidence, **paced.get(each.number, NO_FACTS)} for each in seen},
        "shed": [
            report_shedding(each.shedding_counts(), step, facts) for each, facts in zip(seen, before, strict=True)
        ],
    }


class _AlertSummary:
    """Summary of the reports of all buckets about an alert in a step."""

    def __init__(self, number: int, alert: Alert, order: Facts, reports: Sequence[Facts]) -> None:
        self.number, self.alert, self.known = number, alert, _record_of_alert(order, number)
        self.reports = [report[str(number)] for report in reports]
        self.volume, self.made, self.found = (_sum_by_cell(self.reports, name) for name in ("volume", "made", "found"))
        before = _restore_evidence(self.known, len(self.made))
        self.tally = before.with_newer(tally_of(self.found, self.made))

    @property
    def evidence(self) -> dict[str, Any]:
        """Return the evidence after the step; it decays only if combinations were judged."""
        kept = self.tally.with_decay(LEARNING.decay) if self.made.any() else self.tally
        many = len(self.made)
        counts = (kept.matches, kept.comparisons_by_lag, *kept.recent)
        return {name: by_cell(each, many).tolist() for name, each in zip(_COUNTS, counts, strict=True)}

    @property
    def rows(self) -> int:
        return max(int(report["rows"]) for report in self.reports)

    @property
    def seconds_by_bucket(self) -> list[float]:
        """Return the seconds for judging, by bucket."""
        return [report["seconds"] for report in self.reports]

    def shedding_counts(self) -> SheddingCounts:
        missed = (self.volume - self.made) * by_cell(estimate_alarms(self.tally).measured, len(self.made))
        return SheddingCounts(
            self.alert.name,
            self.alert.shedding.policy.value,
            comparisons=int(self.made.sum()),
            volume=int(self.volume.sum()),
            found=int(self.found.sum()),
            missed=float(missed.sum()),
            budget=float(sum(report["budget"] for report in self.reports)),
        )

    def pace_after(self, slowest: float, seconds: float) -> StepPace:
        judged, comparing = int(self.made.sum()), sum(self.seconds_by_bucket)
        return _restore_pace(self.known).after_step(
            _target_seconds(self.alert), self.rows, judged, comparing, slowest, seconds
        )


def _pace_alerts(seen: Sequence[_AlertSummary], seconds: float) -> dict[int, dict[str, Any]]:
    """Return the pace of alerts without a budget, and the seconds that each must leave to the others.

    Alerts of a join share the time. Each gets the time that the others do not need, and at least its equal share.
    """
    slowest = max((sum(each) for each in zip(*(s.seconds_by_bucket for s in seen), strict=True)), default=0.0)
    paces = {each.number: each.pace_after(slowest, seconds) for each in seen}
    needs = {each.number: float(each.volume.sum()) / len(each.reports) * paces[each.number].cost for each in seen}
    found: dict[int, dict[str, Any]] = {}
    for each in seen:
        pace = paces[each.number]
        part = pace.budget(_target_seconds(each.alert), each.rows) * pace.cost / len(seen)
        left = sum(min(need, part) for number, need in needs.items() if number != each.number)
        found[each.number] = {"pace": pace.to_json(), "left": left, "sharing": len(seen)}
    return found


def _budget(alert: Alert, known: Facts, rows: int, buckets: int) -> float:
    """Return the number of combinations that may be judged in each bucket."""
    if alert.shedding.budget is not None:
        return alert.shedding.budget / buckets
    pace = _restore_pace(known)
    alone = pace.budget(_target_seconds(alert), rows)
    sharing, left = int(known.get("sharing", 1)), float(known.get("left", 0.0))
    return max(alone / sharing, alone - left / pace.cost)


def _restore_pace(known: Facts) -> StepPace:
    return StepPace.from_json(known.get("pace"), _COST)


def _record_of_alert(order: Facts, number: int) -> Facts:
    known: Facts = order.get("alerts", NO_FACTS).get(str(number), NO_FACTS)
    return known


def _restore_evidence(known: Facts, many: int) -> Tally:
    found, made, *recent = (np.array(known.get(name, np.zeros(many))) for name in _COUNTS)
    tally = tally_of(found, made)
    tally.recent[:, -many:] = recent
    return tally


def _sum_by_cell(reports: Sequence[Facts], name: str) -> Floats:
    total: Floats = np.array([report[name] for report in reports], np.float64).sum(axis=0)
    return total


def _target_seconds(alert: Alert) -> float:
    return alert.shedding.target / SECOND

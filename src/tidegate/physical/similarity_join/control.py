"""Decide how much a similarity join may compare in the next step, from the reports of all buckets.

An order has

    step     number of steps so far
    tally    results of comparisons in all buckets, decayed
    pace     duration of a step, see `pace`
    shed     report of this step and of all before it, see `reported`

If a budget is given, no value that a step depends on is measured with a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate.algebra.similarity_join import SECOND, Shedding
from tidegate.physical.common.operator import Facts
from tidegate.physical.shedding.kernels.evidence import Tally
from tidegate.physical.shedding.pace import StepPace
from tidegate.physical.shedding.report import SheddingCounts, report_shedding
from tidegate.physical.similarity_join.kernels.matching import Method
from tidegate.physical.similarity_join.kernels.model import SimilarityJoinSettings, SimilarityStepResult

_COSTS = {Method.FILTERED: 1e-8, Method.INDEXED: 1e-8, Method.NESTED: 3e-7}
"""Assumed seconds per unit of comparing, before any measurement. NESTED evaluates a predicate."""


@dataclass(frozen=True, slots=True)
class SheddingParameters:
    """Parameters of a decision: the text of the join condition, and how the join sheds."""

    join: str
    shedding: Shedding
    settings: SimilarityJoinSettings

    @property
    def target(self) -> float:
        """Return the target in seconds."""
        return self.shedding.target / SECOND


def tally_of(order: Facts, settings: SimilarityJoinSettings) -> Tally:
    """Return the tally of an order."""
    return _tally_from_json(order["tally"]) if order else Tally.empty(settings.reach, settings.kinds)


def budget_of(choice: SheddingParameters, order: Facts, rows: int, buckets: int) -> float:
    """Return the units that each bucket may compare in a step with `rows` new rows."""
    if choice.shedding.budget is not None:
        return choice.shedding.budget / buckets
    return _restore_pace(choice, order).budget(choice.target, rows)


def report_of(answer: SimilarityStepResult, budget: float, rows: int, volume: int, dropped: int) -> dict[str, Any]:
    """Return the report of a bucket on a step.

    If rows were dropped, `volume` is the number of comparisons that all rows would have needed.
    """
    lost = max(0.0, volume / answer.compared - 1.0) if answer.compared and volume > answer.volume else 0.0
    worth = answer.found_utility
    return {
        "tally": _tally_to_json(answer.tally),
        "comparisons": answer.compared,
        "volume": max(volume, answer.volume),
        "units": answer.units,
        "found": len(answer.left),
        "missed": answer.missed + lost * len(answer.left),
        "worth": worth,
        "worth_missed": answer.missed_utility + lost * worth,
        "dropped": dropped,
        "rows": rows,
        "comparing": answer.seconds,
        "budget": budget,
    }


def decide(choice: SheddingParameters, order: Facts, reports: Sequence[Facts], seconds: float) -> Facts:
    """Return the order for the next step, from the current order, the buckets' reports and the seconds of the step."""
    told = [report for report in reports if report]
    if not told:
        return order
    step = order.get("step", 0) + 1
    before = order.get("shed", [None])[0]
    return {
        "step": step,
        "tally": _tally_to_json(_learn_from_reports(choice.settings, order, told)),
        "pace": _update_pace(choice, order, told, seconds).to_json(),
        "shed": [report_shedding(_shedding_counts(choice, told), step, before)],
    }


def _learn_from_reports(settings: SimilarityJoinSettings, order: Facts, reports: Sequence[Facts]) -> Tally:
    """Return the tally with the counts of all buckets. It decays only if anything was compared."""
    before, counted = tally_of(order, settings), Tally.total(_tally_from_json(report["tally"]) for report in reports)
    known = before.with_newer(counted)
    return known.with_decay(settings.decay) if counted.made.any() else known


def _update_pace(choice: SheddingParameters, order: Facts, reports: Sequence[Facts], seconds: float) -> StepPace:
    comparing = [float(report["comparing"]) for report in reports]
    rows, units = max(report["rows"] for report in reports), int(_sum(reports, "units"))
    return _restore_pace(choice, order).after_step(choice.target, rows, units, sum(comparing), max(comparing), seconds)


def _shedding_counts(choice: SheddingParameters, reports: Sequence[Facts]) -> SheddingCounts:
    has_utility = choice.shedding.utility is not None
    return SheddingCounts(
        choice.join,
        choice.shedding.policy.value,
        comparisons=int(_sum(reports, "comparisons")),
        volume=int(_sum(reports, "volume")),
        found=int(_sum(reports, "found")),
        missed=_sum(reports, "missed"),
        budget=_sum(reports, "budget"),
        dropped=int(_sum(reports, "dropped")),
        worth=_sum(reports, "worth") if has_utility else None,
        worth_missed=_sum(reports, "worth_missed") if has_utility else 0.0,
    )


def _restore_pace(choice: SheddingParameters, order: Facts) -> StepPace:
    return StepPace.from_json(order.get("pace"), _COSTS[choice.settings.method])


def _sum(reports: Sequence[Facts], name: str) -> float:
    return float(sum(report[name] for report in reports))


def _tally_to_json(tally: Tally) -> dict[str, list[float]]:
    return {name: column.tolist() for part in tally.columns().values() for name, column in part.items()}


def _tally_from_json(told: Facts) -> Tally:
    columns = {name: np.array(counts, np.float64) for name, counts in told.items()}
    return Tally.from_columns({"lags": columns, "kinds": columns})

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
from tidegate.physical.shedding.report import Shed, reported
from tidegate.physical.similarity_join.kernels.matching import Method
from tidegate.physical.similarity_join.kernels.model import Answer, Settings

_COSTS = {Method.FILTERED: 1e-8, Method.INDEXED: 1e-8, Method.NESTED: 3e-7}
"""Assumed seconds per unit of comparing, before any measurement. NESTED evaluates a predicate."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Parameters of a decision: the text of the join condition, and how the join sheds."""

    join: str
    shedding: Shedding
    settings: Settings

    @property
    def target(self) -> float:
        """Return the target in seconds."""
        return self.shedding.target / SECOND


def tally_of(order: Facts, settings: Settings) -> Tally:
    """Return the tally of an order."""
    return _tally(order["tally"]) if order else Tally.empty(settings.reach, settings.kinds)


def budget_of(choice: Choice, order: Facts, rows: int, buckets: int) -> float:
    """Return the units that each bucket may compare in a step with `rows` new rows."""
    if choice.shedding.budget is not None:
        return choice.shedding.budget / buckets
    return _pace(choice, order).budget(choice.target, rows)


def report_of(answer: Answer, budget: float, rows: int, volume: int, dropped: int) -> dict[str, Any]:
    """Return the report of a bucket on a step.

    If rows were dropped, `volume` is the number of comparisons that all rows would have needed.
    """
    lost = max(0.0, volume / answer.compared - 1.0) if answer.compared and volume > answer.volume else 0.0
    worth = answer.found_utility
    return {
        "tally": _recorded(answer.tally),
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


def decide(choice: Choice, order: Facts, reports: Sequence[Facts], seconds: float) -> Facts:
    """Return the order for the next step, from the current order, the buckets' reports and the seconds of the step."""
    told = [report for report in reports if report]
    if not told:
        return order
    step = order.get("step", 0) + 1
    before = order.get("shed", [None])[0]
    return {
        "step": step,
        "tally": _recorded(_learnt(choice.settings, order, told)),
        "pace": _followed(choice, order, told, seconds).to_json(),
        "shed": [reported(_shed(choice, told), step, before)],
    }


def _learnt(settings: Settings, order: Facts, reports: Sequence[Facts]) -> Tally:
    """Return the tally with the counts of all buckets. It decays only if anything was compared."""
    before, counted = tally_of(order, settings), Tally.total(_tally(report["tally"]) for report in reports)
    known = before.followed_by(counted)
    return known.decayed(settings.decay) if counted.made.any() else known


def _followed(choice: Choice, order: Facts, reports: Sequence[Facts], seconds: float) -> StepPace:
    comparing = [float(report["comparing"]) for report in reports]
    rows, units = max(report["rows"] for report in reports), int(_sum(reports, "units"))
    return _pace(choice, order).after(choice.target, rows, units, sum(comparing), max(comparing), seconds)


def _shed(choice: Choice, reports: Sequence[Facts]) -> Shed:
    has_utility = choice.shedding.utility is not None
    return Shed(
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


def _pace(choice: Choice, order: Facts) -> StepPace:
    return StepPace.from_json(order.get("pace"), _COSTS[choice.settings.method])


def _sum(reports: Sequence[Facts], name: str) -> float:
    return float(sum(report[name] for report in reports))


def _recorded(tally: Tally) -> dict[str, list[float]]:
    return {name: column.tolist() for part in tally.columns().values() for name, column in part.items()}


def _tally(told: Facts) -> Tally:
    columns = {name: np.array(counts, np.float64) for name, counts in told.items()}
    return Tally.from_columns({"lags": columns, "kinds": columns})

"""What a join by likeness may compare in the next step, decided from what all buckets saw in this one.

An order has

    step     how many there have been
    tally    what comparisons have shown, in all buckets, decayed
    pace     what a step takes, see `pace`
    shed     what is told of the step and of all before it, see `reported`

Nothing of it that a step depends on is measured with a clock if a budget is given.
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
"""Seconds that a unit of comparing takes, as long as nothing is known; without a likeness a predicate is evaluated."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is decided for: a join, in words, and how it sheds."""

    join: str
    shedding: Shedding
    settings: Settings

    @property
    def target(self) -> float:
        """In seconds."""
        return self.shedding.target / SECOND


def tally_of(order: Facts, settings: Settings) -> Tally:
    """What is known by an order."""
    return _tally(order["tally"]) if order else Tally.empty(settings.reach, settings.kinds)


def budget_of(choice: Choice, order: Facts, rows: int, buckets: int) -> float:
    """The units that each of so many buckets may compare in a step with so many new rows."""
    if choice.shedding.budget is not None:
        return choice.shedding.budget / buckets
    return _pace(choice, order).budget(choice.target, rows)


def report_of(answer: Answer, budget: float, rows: int, volume: int, dropped: int) -> dict[str, Any]:
    """What a bucket reports of a step; if rows were dropped, the volume is what there would have been else."""
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
    """The order after a step of so many seconds, from the one that it had and what was reported in each bucket."""
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
    """What is known with what was counted in all buckets; where nothing was compared, nothing is forgotten."""
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

"""Choose the combinations of an alert that are judged in a step, if all would be too many.

Combinations are divided into cells by their *spread*, the time from the first to the last element. The combinations of
each cell are counted; the alarms per judged combination are known from earlier steps. The cells with the most alarms
per combination come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tidegate.algebra.similarity_join import Policy
from tidegate.algebra.threshold_alert import Alert, alarm_span
from tidegate.physical.common.arrays import Floats, Ints
from tidegate.physical.shedding.kernels.budget import divide_budget
from tidegate.physical.shedding.kernels.evidence import Estimate, Tally, estimate
from tidegate.physical.shedding.kernels.learning import Learning
from tidegate.physical.shedding.kernels.random_choice import key_of, round_randomly
from tidegate.physical.threshold_alert.kernels.combinations import CombinationSample, SpreadCells

CELLS = 20

LEARNING = Learning()
"""Parameters of exploration and of the decay of evidence, the same as in similarity joins."""


@dataclass(frozen=True, slots=True)
class AlertReport:
    """Combinations of an alert that a bucket counted, judged and found to raise an alarm, by cell."""

    volume: tuple[int, ...]
    made: tuple[int, ...]
    """Combinations that were judged."""
    found: tuple[int, ...]
    seconds: float
    """Seconds spent on judging."""
    rows: int
    """New elements of all inputs."""
    budget: float


@dataclass(frozen=True, slots=True, eq=False)
class JudgingPlan:
    """Plan of an alert for one step and bucket: what it may judge, and the evidence on its cells."""

    cells: SpreadCells
    budget: float
    rows: int
    """Number of new elements of all inputs."""
    evidence: Tally
    step: int
    key: int


class Judging:
    """Judging of an alert in one step: the choice of combinations, and the counts to report."""

    def __init__(self, plan: JudgingPlan) -> None:
        self.plan = plan
        self.volume, self.made, self.found = (np.zeros(plan.cells.many, np.int64) for _ in range(3))
        self.seconds = 0.0

    def choose_combinations(self, volume: Ints) -> CombinationSample | None:
        """Choose combinations, given their number in each cell; None: judge all."""
        self.volume = self.made = volume
        if int(volume.sum()) <= self.plan.budget:
            return None
        self.made = self._amounts_to_judge(volume)
        # The kernel decrements these arrays.
        return CombinationSample(self.plan.cells, volume.copy(), self.made.copy(), self.plan.key)

    def record_alarms(self, spread: Ints, seconds: float) -> None:
        """Record alarms with these spreads, and the seconds it took to find them."""
        self.found += np.bincount(self.plan.cells.of(spread), minlength=self.plan.cells.many)
        self.seconds += seconds

    @property
    def report(self) -> AlertReport:
        volume, made, found = (tuple(of_cells.tolist()) for of_cells in (self.volume, self.made, self.found))
        return AlertReport(volume, made, found, self.seconds, self.plan.rows, self.plan.budget)

    def _amounts_to_judge(self, volume: Ints) -> Ints:
        """Return how many combinations of each cell to judge."""
        plan, many = self.plan, self.plan.cells.many
        value = by_cell(estimate_alarms(plan.evidence).density, many)
        explore = LEARNING.explore_at_first if plan.step < CELLS else LEARNING.explore
        planned = divide_budget(value, volume.astype(np.float64), np.arange(1, many + 1), plan.budget, explore)
        amounts = (planned.total * volume).tolist()
        wanted = [round_randomly(amount, key_of(plan.key, cell)) for cell, amount in enumerate(amounts)]
        return np.minimum(np.array(wanted, np.int64), volume)


@lru_cache(maxsize=256)
def cells_of(alert: Alert) -> SpreadCells:
    """Return the cells of an alert's combinations; one cell if it drops at random."""
    return SpreadCells(1 if alert.shedding.policy is Policy.DROP else CELLS, alarm_span(alert))


def tally_of(found: Floats, made: Floats) -> Tally:
    """Return a tally of alarms and judged combinations by cell.

    Cells become lags from 1 on, so they all have one direction.
    """
    many = len(made)
    tally = Tally.empty(many, kinds=1)
    for counts, of_each in ((found, tally.matches), (found, tally.utility), (made, tally.units), (made, tally.made)):
        of_each.reshape(len(of_each), -1)[-many:, 0] = counts
    return tally


def estimate_alarms(evidence: Tally) -> Estimate:
    """Estimate the alarms per combination from the evidence."""
    return estimate(evidence, np.ones((2, 1)), prior=LEARNING.prior, pool=LEARNING.pool)


def by_cell(by_lag: Floats, many: int) -> Floats:
    return by_lag[-many:]

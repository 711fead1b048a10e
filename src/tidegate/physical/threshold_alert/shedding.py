"""Which combinations of an alert are judged in a step if all would be too many.

Combinations are told apart by their *spread*, the time from the first to the last element, in cells. How many there
are in each is counted; alarms per judged combination are known from the steps before. The best cells come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tidegate.algebra.similarity_join import Policy
from tidegate.algebra.threshold_alert import Alert, span
from tidegate.physical.common.arrays import Floats, Ints
from tidegate.physical.common.operator import Facts
from tidegate.physical.shedding.kernels.budget import shares
from tidegate.physical.shedding.kernels.evidence import Estimate, Tally, estimate
from tidegate.physical.shedding.kernels.learning import Learning
from tidegate.physical.shedding.kernels.random_choice import key_of, rounded
from tidegate.physical.threshold_alert.kernels.combinations import Cells, Choice

CELLS = 20

LEARNING = Learning()
"""How much is explored, and how fast evidence gets old: as in joins by likeness."""


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What an alert may judge in a step, in one bucket, and what is known of its cells."""

    cells: Cells
    budget: float
    rows: int
    """New elements of all inputs."""
    evidence: Tally
    step: int
    key: int


class Judging:
    """What is judged of an alert in one step, and what that shows."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.volume, self.made, self.found = (np.zeros(told.cells.many, np.int64) for _ in range(3))
        self.seconds = 0.0

    def choice(self, volume: Ints) -> Choice | None:
        """What is judged of so many combinations of each cell; None: everything."""
        self.volume = self.made = volume
        if int(volume.sum()) <= self.told.budget:
            return None
        self.made = self._wanted(volume)
        # The kernel counts down.
        return Choice(self.told.cells, volume.copy(), self.made.copy(), self.told.key)

    def saw(self, spread: Ints, seconds: float) -> None:
        """Take note of alarms of these spreads, and of how long it took to find them."""
        self.found += np.bincount(self.told.cells.of(spread), minlength=self.told.cells.many)
        self.seconds += seconds

    @property
    def report(self) -> Facts:
        counts = {"volume": self.volume, "made": self.made, "found": self.found}
        lists = {name: of_cells.tolist() for name, of_cells in counts.items()}
        return {**lists, "seconds": self.seconds, "rows": self.told.rows, "budget": self.told.budget}

    def _wanted(self, volume: Ints) -> Ints:
        """How many combinations of each cell are judged."""
        told, many = self.told, self.told.cells.many
        value = by_cell(expected(told.evidence).density, many)
        explore = LEARNING.explore_at_first if told.step < CELLS else LEARNING.explore
        planned = shares(value, volume.astype(np.float64), np.arange(1, many + 1), told.budget, explore)
        amounts = (planned.made * volume).tolist()
        wanted = [rounded(amount, key_of(told.key, cell)) for cell, amount in enumerate(amounts)]
        return np.minimum(np.array(wanted, np.int64), volume)


@lru_cache(maxsize=256)
def cells_of(alert: Alert) -> Cells:
    """The cells of an alert's combinations; one if it does not matter which are judged."""
    return Cells(1 if alert.shedding.policy is Policy.DROP else CELLS, span(alert))


def tally_of(found: Floats, made: Floats) -> Tally:
    """Alarms and judged combinations by cell. Cells are lags from 1 on: so they are all of one direction."""
    many = len(made)
    tally = Tally.empty(many, kinds=1)
    for counts, of_each in ((found, tally.matches), (found, tally.utility), (made, tally.units), (made, tally.made)):
        of_each.reshape(len(of_each), -1)[-many:, 0] = counts
    return tally


def expected(evidence: Tally) -> Estimate:
    """How many alarms combinations make, by what is known."""
    return estimate(evidence, np.ones((2, 1)), prior=LEARNING.prior, pool=LEARNING.pool)


def by_cell(by_lag: Floats, many: int) -> Floats:
    return by_lag[-many:]

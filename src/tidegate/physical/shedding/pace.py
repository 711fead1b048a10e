"""How many comparisons a step may make so that it takes no longer than it may.

A step takes as long as comparing does, and everything else. What a unit of comparing takes is measured. Everything else
is taken for something fixed and something for each new row, found by least squares from what was measured of late.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import Any

ROOM = 0.9
"""The part of the time that is made use of: clocks are noisy, and not every step is like the last."""

LEAST = 0.02
"""The part of the time that is spent on comparing, however long the rest takes: else nothing more were learnt."""

_FADING = 0.85
"""What a step counts less with each one that follows."""

_COMPARING = 0.2
"""What comparisons count less with each step in which many were made."""

_ENOUGH = 0.05
"""Comparing that takes this part of the time says all about its cost; what is shorter says less."""

_ALIKE = 0.1
"""Steps whose rows differ by less than this part say little about what a row takes."""


@dataclass(frozen=True, slots=True)
class StepPace:
    """Decayed sums of what was measured; `cost` is what a unit of comparing takes in one bucket, in seconds."""

    cost: float
    spent: float = 0.0
    units: float = 0.0
    steps: float = 0.0
    rows: float = 0.0
    other: float = 0.0
    """Seconds for everything else."""
    squares: float = 0.0
    """Of rows."""
    products: float = 0.0
    """Of rows and seconds."""

    @property
    def line(self) -> tuple[float, float]:
        """The seconds of everything else that are fixed, and those for each row: neither is negative.

        As long as all steps have about as many rows, half of it counts as fixed.
        """
        if not self.steps:
            return 0.0, 0.0
        rows, other = self.rows / self.steps, self.other / self.steps
        if rows <= 0 or other <= 0:
            return max(other, 0.0), 0.0
        spread, common = self.squares / self.steps - rows * rows, self.products / self.steps - rows * other
        doubt, usual = (_ALIKE * rows) ** 2, 0.5 * other / rows
        slope = (common + doubt * usual) / (max(spread, 0.0) + doubt)
        slope = min(max(slope, 0.0), other / rows)
        return other - slope * rows, slope

    def others(self, rows: int) -> float:
        """The seconds that everything else is expected to take, in a step with so many new rows."""
        fixed, each = self.line
        return fixed + each * rows

    def budget(self, target: float, rows: int) -> float:
        """The units that a bucket may compare in a step that may take so many seconds and has so many new rows."""
        return max(ROOM * target - self.others(rows), LEAST * target) / self.cost

    def after(self, target: float, rows: int, units: int, comparing: float, slowest: float, seconds: float) -> StepPace:
        """What is known after a step.

        `comparing` are the seconds for all its units in all buckets, `slowest` those of the bucket that took longest.
        Buckets that do not run at the same time, for want of cores, are part of everything else, so that budgets shrink
        to what fits. A step that took far longer than expected, as the first one does, is not taken at its word.
        """
        other = min(max(seconds - slowest, 0.0), target)
        if self.steps:
            other = min(other, 3.0 * self.others(rows) + _ALIKE * target)
        return replace(
            self._compared(target, units, comparing),
            steps=_FADING * self.steps + 1.0,
            rows=_FADING * self.rows + rows,
            other=_FADING * self.other + other,
            squares=_FADING * self.squares + rows * rows,
            products=_FADING * self.products + rows * other,
        )

    def _compared(self, target: float, units: int, comparing: float) -> StepPace:
        """A step changes the cost by a factor of two at most, and by little if there was little to compare."""
        if units <= 0 or comparing <= 0.0:
            return self
        first = _ENOUGH * target
        spent, before = (self.spent, self.units) if self.units else (first, first / self.cost)
        kept = 1.0 - _COMPARING * min(1.0, comparing / first)
        spent, before = kept * spent + comparing, kept * before + units
        cost = min(2.0 * self.cost, max(0.5 * self.cost, spent / before))
        return replace(self, cost=cost, spent=spent, units=before)

    def to_json(self) -> list[float]:
        return list(astuple(self))

    @staticmethod
    def from_json(told: list[Any] | None, guess: float) -> StepPace:
        """What was known; at the beginning, that comparing takes about as long as is guessed."""
        return StepPace(guess) if told is None else StepPace(*told)

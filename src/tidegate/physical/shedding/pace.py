"""Budget of comparisons that lets a step finish in its target time.

The time of a step is comparing plus overhead. The cost of a unit of comparing is measured. The overhead has a fixed
part and a part per new row, fitted by least squares to recent steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

ROOM = 0.9
"""Share of the target time to plan for: clocks are noisy, and steps differ."""

LEAST = 0.02
"""Least share of the target time for comparing, however long the overhead is. Otherwise learning would stop."""

FADING = 0.85
"""Factor by which the weight of a step fades with each later one."""

_COMPARING = 0.2
"""Share by which earlier comparisons lose weight in a step with many comparisons."""

_ENOUGH = 0.05
"""Share of the target time above which comparing has full weight in the cost. Shorter times have less."""

ALIKE = 0.1
"""Relative difference in rows below which steps say little about the cost of a row."""


@dataclass(frozen=True, slots=True)
class StepPace:
    """Decayed sums of measurements; `cost` is the seconds of a unit of comparing in one bucket."""

    cost: float
    spent: float = 0.0
    units: float = 0.0
    steps: float = 0.0
    rows: float = 0.0
    overhead: float = 0.0
    """Seconds of overhead."""
    squares: float = 0.0
    """Squares of rows."""
    products: float = 0.0
    """Products of rows and overhead seconds."""

    @property
    def overhead_line(self) -> tuple[float, float]:
        """Return the fixed seconds of overhead, and those per row. Neither is negative.

        While all steps have about as many rows, half of the overhead counts as fixed.
        """
        return fit_line(self.steps, self.rows, self.overhead, self.squares, self.products)

    def expected_overhead(self, rows: int) -> float:
        """Return the expected seconds of overhead in a step with `rows` new rows."""
        fixed, each = self.overhead_line
        return fixed + each * rows

    def budget(self, target: float, rows: int) -> float:
        """Return the units that a bucket may compare in a step of `target` seconds with `rows` new rows."""
        return max(ROOM * target - self.expected_overhead(rows), LEAST * target) / self.cost

    def after_step(
        self, target: float, rows: int, units: int, comparing: float, slowest: float, seconds: float
    ) -> StepPace:
        """Return the pace after a step.

        `comparing` is the seconds for all units in all buckets, `slowest` that of the slowest bucket. If buckets wait
        for cores, the wait counts as overhead, so that budgets shrink to what fits. A step that took far longer than
        expected, as the first one does, is capped.
        """
        other = min(max(seconds - slowest, 0.0), target)
        if self.steps:
            other = min(other, 3.0 * self.expected_overhead(rows) + ALIKE * target)
        return replace(
            self._with_new_cost(target, units, comparing),
            steps=FADING * self.steps + 1.0,
            rows=FADING * self.rows + rows,
            overhead=FADING * self.overhead + other,
            squares=FADING * self.squares + rows * rows,
            products=FADING * self.products + rows * other,
        )

    def _with_new_cost(self, target: float, units: int, comparing: float) -> StepPace:
        """Update the cost by a factor of at most two, and by little if there was little to compare."""
        if units <= 0 or comparing <= 0.0:
            return self
        first = _ENOUGH * target
        spent, before = (self.spent, self.units) if self.units else (first, first / self.cost)
        kept = 1.0 - _COMPARING * min(1.0, comparing / first)
        spent, before = kept * spent + comparing, kept * before + units
        cost = min(2.0 * self.cost, max(0.5 * self.cost, spent / before))
        return replace(self, cost=cost, spent=spent, units=before)


def fit_line(
    steps: float, rows: float, seconds: float, squares: float, products: float, usual: float | None = None
) -> tuple[float, float]:
    """Return the fixed seconds of steps and those per row, from sums over steps: least squares, both not negative.

    While all steps have about as many rows, a row takes the `usual` time. Without one, half of the time is fixed.
    """
    if not steps:
        return 0.0, 0.0
    rows, seconds = rows / steps, seconds / steps
    if rows <= 0 or seconds <= 0:
        return max(seconds, 0.0), 0.0
    spread, common = squares / steps - rows * rows, products / steps - rows * seconds
    doubt, usual = (ALIKE * rows) ** 2, 0.5 * seconds / rows if usual is None else usual
    slope = (common + doubt * usual) / (max(spread, 0.0) + doubt)
    slope = min(max(slope, 0.0), seconds / rows)
    return seconds - slope * rows, slope

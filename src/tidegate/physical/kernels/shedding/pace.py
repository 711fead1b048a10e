"""How many comparisons a batch may make: a decision from what comparisons cost and how long a batch may take."""

from __future__ import annotations

from dataclasses import dataclass, replace

_NEW = 0.2
"""What the last batch counts in the mean of the cost."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds that a batch takes besides comparing, and that a unit of comparing takes, as far as is known."""

    cost: float
    overhead: float = 0.0

    def budget(self, target: float) -> float:
        """How many units fit into a batch that may take so many seconds."""
        return max(0.0, target - self.overhead) / self.cost

    def after(self, units: int, comparing: float, other: float) -> Pace:
        """What is known after a batch: its units, the seconds they took, and the seconds for everything else.

        A batch changes the cost by a factor of two at most: clocks are noisy.
        """
        overhead = (1.0 - _NEW) * self.overhead + _NEW * other if self.overhead else other
        if units <= 0 or comparing <= 0.0:
            return replace(self, overhead=overhead)
        measured = min(2.0 * self.cost, max(0.5 * self.cost, comparing / units))
        return Pace((1.0 - _NEW) * self.cost + _NEW * measured, overhead)

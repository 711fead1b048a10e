"""Settings of a similarity join that sheds, and the result of a step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from tidegate.physical.common.arrays import Floats, Ints
from tidegate.physical.shedding.kernels.evidence import Tally
from tidegate.physical.shedding.kernels.learning import Learning
from tidegate.physical.similarity_join.kernels.conditions import Condition
from tidegate.physical.similarity_join.kernels.matching import Method

_LEARNING = Learning()


class PairUtility(Enum):
    """Utility of a pair, from the utilities of its two elements."""

    MAXIMUM = "max"
    AVERAGE = "average"


@dataclass(frozen=True, slots=True, eq=False)
class Utilities:
    """Utility of elements by kind, for the left and the right stream."""

    left: Floats
    right: Floats
    joint: PairUtility = PairUtility.MAXIMUM

    @property
    def kinds(self) -> int:
        return max(len(self.left), len(self.right))

    def of_pairs(self, left: Ints, right: Ints) -> Floats:
        """Return the utility of pairs of elements of these kinds."""
        one, other = self.left[left], self.right[right]
        return np.maximum(one, other) if self.joint is PairUtility.MAXIMUM else 0.5 * (one + other)


@dataclass(frozen=True, slots=True, eq=False)
class SimilarityJoinSettings:
    """Condition of a join, and parameters for learning which comparisons are productive."""

    condition: Condition
    width: int
    """Width of a slot, in microseconds."""
    reach: int
    """Greatest lag in slots. Elements farther apart count as this far apart."""
    method: Method = Method.NESTED
    lookup: int = 0
    """Units that finding an item's list costs."""
    utilities: Utilities | None = None
    seed: int = _LEARNING.seed
    explore: float = _LEARNING.explore
    explore_at_first: float = _LEARNING.explore_at_first
    decay: float = _LEARNING.decay
    prior: float = _LEARNING.prior
    pool: float = _LEARNING.pool
    halvings: int = 0
    """How often the width was halved."""

    @property
    def kinds(self) -> int:
        return 1 if self.utilities is None else self.utilities.kinds

    @property
    def first_batches(self) -> int:
        """Return the number of batches in which more is explored."""
        return ((self.reach - 1) >> self.halvings) + 1

    def with_halvings(self, halvings: int) -> SimilarityJoinSettings:
        """Return the settings of slots whose original width is halved so often."""
        more = halvings - self.halvings
        width = self.width >> more if more > 0 else self.width << -more
        reach = ((self.reach - 1) << more if more > 0 else (self.reach - 1) >> -more) + 1
        return replace(self, width=width, reach=reach, halvings=halvings)


def share_of(found: float, missed: float) -> float:
    """Return the share that was found; 1 if there is nothing to find."""
    return found / (found + missed) if found + missed > 0 else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class SimilarityStepResult:
    """Pairs that were found (rows of both streams), when both are valid, and what was shed.

    `results_share` estimates the share of all results that was found, `utility_share` the share of their utility.
    """

    left: Ints
    right: Ints
    start: Ints
    end: Ints
    tally: Tally
    compared: int
    """Comparisons made."""
    volume: int
    """Comparisons of the whole join."""
    units: int
    calls: int
    """Number of slot-to-slot comparisons. Given as a limit, it makes a repeated step do the same."""
    missed: float
    """Estimated number of missed results."""
    missed_utility: float
    price: float
    """Value of the last unit that was chosen, in results, or in their utility."""
    seconds: float
    """Seconds spent on comparing. No result depends on it."""

    @property
    def found_utility(self) -> float:
        return float(self.tally.utility.sum())

    @property
    def results_share(self) -> float:
        return share_of(float(self.tally.matches.sum()), self.missed)

    @property
    def utility_share(self) -> float:
        return share_of(self.found_utility, self.missed_utility)

    @property
    def compared_share(self) -> float:
        return self.compared / self.volume if self.volume else 1.0

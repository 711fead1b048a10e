"""How a join sheds, and what a step answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from tidegate.physical.common.arrays import Floats, Ints
from tidegate.physical.shedding.kernels.evidence import Tally
from tidegate.physical.shedding.kernels.learning import Learning
from tidegate.physical.similarity_join.kernels.conditions import Condition
from tidegate.physical.similarity_join.kernels.matching import Method

_LEARNING = Learning()


class Joint(Enum):
    """What a pair is worth by the utilities of its two elements."""

    MAXIMUM = "max"
    AVERAGE = "average"


@dataclass(frozen=True, slots=True, eq=False)
class Utilities:
    """What elements are worth, by kind, of the left and of the right stream."""

    left: Floats
    right: Floats
    joint: Joint = Joint.MAXIMUM

    @property
    def kinds(self) -> int:
        return max(len(self.left), len(self.right))

    def of_pairs(self, left: Ints, right: Ints) -> Floats:
        """What pairs of elements of these kinds are worth."""
        one, other = self.left[left], self.right[right]
        return np.maximum(one, other) if self.joint is Joint.MAXIMUM else 0.5 * (one + other)


@dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """What a join matches, and how it learns which comparisons are worth it."""

    condition: Condition
    width: int
    """Of a slot, in microseconds."""
    reach: int
    """How many slots apart elements may be; those that are further apart count as if they were not."""
    method: Method = Method.NESTED
    lookup: int = 0
    """What finding an item's list costs, in units."""
    utilities: Utilities | None = None
    seed: int = _LEARNING.seed
    explore: float = _LEARNING.explore
    explore_at_first: float = _LEARNING.explore_at_first
    decay: float = _LEARNING.decay
    prior: float = _LEARNING.prior
    pool: float = _LEARNING.pool

    @property
    def kinds(self) -> int:
        return 1 if self.utilities is None else self.utilities.kinds


def share_of(found: float, missed: float) -> float:
    """The share that was found; if there is nothing, all of it was."""
    return found / (found + missed) if found + missed > 0 else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Pairs that were found (rows of both streams), when both are valid, and what was shed.

    `results_share` estimates which share of all results these are, `utility_share` of their utility.
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
    """How often elements of a slot were compared with a slot: given as a limit, a repeated step does the same."""
    missed: float
    """How many results there are besides, as far as is known."""
    missed_utility: float
    price: float
    """What the last unit that was chosen is worth, in results, or in their utility."""
    seconds: float
    """How long comparing took; nothing depends on it."""

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

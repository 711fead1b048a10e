"""Parameters for learning which comparisons are productive."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Learning:
    """Amount of exploration, and lifetime of evidence."""

    seed: int = 0
    explore: float = 0.05
    """Share of the budget for exploration."""
    explore_at_first: float = 0.3
    """The same in the first batches, as many as the reach in slots."""
    decay: float = 0.97
    """Factor by which counts fade after a batch."""
    prior: float = 1.0
    """Number of comparisons that the prior of a lag counts as."""
    pool: float = 1000.0
    """Greatest number of comparisons that neighbours count as."""

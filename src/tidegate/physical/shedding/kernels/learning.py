"""How fast it is learnt which comparisons are productive."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Learning:
    """How much is tried to find out more, and how long what was found counts."""

    seed: int = 0
    explore: float = 0.05
    """The part of the budget that is for finding out."""
    explore_at_first: float = 0.3
    """In as many batches as elements reach slots."""
    decay: float = 0.97
    """What remains of counts after a batch."""
    prior: float = 1.0
    """Comparisons that an unknown lag counts as."""
    pool: float = 1000.0
    """Comparisons that neighbours count as, at most."""

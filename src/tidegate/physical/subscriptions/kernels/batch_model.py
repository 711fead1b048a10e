"""What the parts of the batch method have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints

GONE = 2**63 - 1
"""When a query is due that is complete or terminated: never."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes that change how fast the method is, and nothing else."""

    cut: int = 10_000
    """Elements that are taken in at once."""
    fresh: int = 256
    """New queries that are looked at one by one before they become a piece."""
    share: int = 4
    """A piece is merged with the next one if it is not larger by more than this."""
    block: int = 128
    """Queries that are known to be too far from complete all at once."""
    patience: float = 0.5
    """Elements for each live query after which all boxes are brought up to date."""
    pairs: int = 50_000_000
    """New queries that join a cut are looked at with each of its elements, if these are not more pairs."""


class Found(NamedTuple):
    """Rows of a piece that are complete, the elements that completed them, and the totals."""

    row: Ints
    element: Ints
    total: Ints


def nothing() -> Found:
    none = np.empty(0, np.int64)
    return Found(none, none, none)

"""Definitions that the parts of the batch method share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints

GONE = 2**63 - 1
"""Due weight of a subscription that is complete or terminated: it is never due."""


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Sizes that affect only the speed of the method."""

    cut: int = 10_000
    """Number of elements that are counted at once."""
    fresh: int = 256
    """Number of new subscriptions that are checked one by one before they become a piece."""
    share: int = 4
    """Ratio up to which a piece is merged with the smaller ones that follow it."""
    block: int = 128
    """Number of subscriptions in a block, which are skipped together while none of them can be complete."""
    patience: float = 0.5
    """Elements per live subscription after which all boxes of a piece are counted."""
    pairs: int = 50_000_000
    """Number of pairs, roughly, up to which new subscriptions are checked with every element of a cut."""


class PieceCompletions(NamedTuple):
    """Rows of a piece that are complete, the elements that completed them, and the totals."""

    row: Ints
    element: Ints
    total: Ints


def no_completions() -> PieceCompletions:
    none = np.empty(0, np.int64)
    return PieceCompletions(none, none, none)

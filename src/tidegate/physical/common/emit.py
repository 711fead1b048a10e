"""Modes in which an operator emits values that have a validity."""

from __future__ import annotations

from enum import Enum

import numpy as np

from tidegate.physical.common.arrays import Mask


class Emit(Enum):
    """Mode of emission; in every mode, only values that can no longer change are emitted.

    SETTLED: emit everything before the watermark at every step, cut at the watermark. ENDED: emit a value once, when
    its end is known. EARLY: emit a value as soon as the watermark passes its start, cut at the watermark, and the rest
    when its end is known.
    """

    SETTLED = "settled"
    ENDED = "ended"
    EARLY = "early"

    @property
    def holds_back(self) -> bool:
        """Return whether values that start before the watermark may have to wait until their end is known."""
        return self is not Emit.SETTLED

    def emits_while_open(self, fresh: Mask) -> Mask:
        """Return which values that last beyond the watermark are emitted up to it; `fresh` ones began in this step."""
        match self:
            case Emit.SETTLED:
                return np.ones_like(fresh)
            case Emit.ENDED:
                return np.zeros_like(fresh)
            case Emit.EARLY:
                return fresh

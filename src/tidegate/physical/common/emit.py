"""When values with a validity come out of an operator."""

from __future__ import annotations

from enum import Enum

import numpy as np

from tidegate.physical.common.arrays import Mask


class Emit(Enum):
    """When a value comes out; in any case only what can no longer change does.

    SETTLED: all that lies before the watermark, cut there, at every step. ENDED: once, when its end is
    known. EARLY: as soon as the watermark passes its beginning, cut there; the rest when its end is known.
    """

    SETTLED = "settled"
    ENDED = "ended"
    EARLY = "early"

    @property
    def holds_back(self) -> bool:
        """Whether what lies before the watermark may wait for the end of a value."""
        return self is not Emit.SETTLED

    def comes_out_open(self, fresh: Mask) -> Mask:
        """Return which values that last beyond the watermark come out up to it; `fresh` ones began in this step."""
        match self:
            case Emit.SETTLED:
                return np.ones_like(fresh)
            case Emit.ENDED:
                return np.zeros_like(fresh)
            case Emit.EARLY:
                return fresh

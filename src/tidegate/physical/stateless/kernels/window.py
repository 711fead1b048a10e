"""Time-based sliding windows (PIPES, sections 11 and 17): arithmetic on validities, without state."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.time import BEGINNING, FOREVER


def slide_validities(start: Ints, last: Ints, size: Ints | int | None, slide: int, granule: int) -> tuple[Ints, Ints]:
    """Return validities in the window, given elements that are valid at the instants from `start` to `last`.

    Instants are a granule apart: one chronon, unless time is coarser. With slide a, the content changes at instants
    a-1, 2a-1, …. A validity starts at the first such instant at or after the element, and ends at the first one whose
    window no longer contains the element. It can be empty if the slide is longer than the window. Size None is the
    unbounded window. Each element may have a size of its own.
    """
    begin = start if slide == 1 else -(-(start + granule) // slide) * slide - granule
    if size is None:
        return begin, np.full_like(start, FOREVER)
    end = last + size if slide == 1 else (last + size + slide) // slide * slide - granule
    return begin, np.minimum(end, FOREVER)


def shift_watermark(watermark: int, slide: int, granule: int) -> int:
    """Return the watermark after the window: where an element at the watermark itself would start."""
    if watermark in (BEGINNING, FOREVER) or slide == 1:
        return watermark
    return -(-(watermark + granule) // slide) * slide - granule

"""Time-based sliding windows (PIPES, sections 11 and 17): arithmetic on validities, no state."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidegate.time import BEGINNING, FOREVER

Times = npt.NDArray[np.int64]


def slide_validities(start: Times, size: int | None, slide: int) -> tuple[Times, Times]:
    """Validities in the window of elements that are valid for one chronon at `start`.

    With slide a, content changes at instants a-1, 2a-1, …: the validity begins at the first such
    instant at or after the element and ends at the first one that has left it behind. It can be
    empty when the slide is longer than the window. Size None is the unbounded window.
    """
    begin = start if slide == 1 else -(-(start + 1) // slide) * slide - 1
    if size is None:
        return begin, np.full_like(start, FOREVER)
    end = start + size if slide == 1 else (start + size + slide) // slide * slide - 1
    return begin, end


def shift_watermark(watermark: int, slide: int) -> int:
    """The watermark behind the window: where an element at the watermark itself would begin."""
    if watermark in (BEGINNING, FOREVER) or slide == 1:
        return watermark
    return -(-(watermark + 1) // slide) * slide - 1

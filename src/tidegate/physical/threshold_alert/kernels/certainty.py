"""Find from when on it is certain that an element is not bracketed, whatever arrives later."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Floats, Ints
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.threshold_alert.kernels.brackets import bracket_span, find_bracketed
from tidegate.time import BEGINNING, FOREVER


def certain_from(
    group: Ints, time: Ints, value: Floats, *, window: int, strict: bool, above: bool, below: bool
) -> Ints:
    """Return the watermark from which it is certain that each row is needed; FOREVER for a row that is bracketed.

    Rows are in the order of group and time; rows of one time may be in any order. A row is needed if it is not
    bracketed on one of the requested sides. That is certain when no later row can be the right end of a bracket whose
    left end is there. Without any requested side, it is certain when the watermark has passed the row.

    Examples
    --------
    >>> time, value = np.array([1, 2, 3, 9]), np.array([5.0, 1.0, 5.0, 2.0])
    >>> found = certain_from(np.zeros(4, np.int64), time, value, window=4, strict=False, above=True, below=False)
    >>> [None if each == FOREVER else each for each in found.tolist()]
    [2, None, 4, 10]
    """
    if not above and not below:
        return time + 1
    span, found = bracket_span(window, strict=strict), np.full(len(time), FOREVER)
    for sign in (1.0,) * above + (-1.0,) * below:
        ends = _latest_greater(group, time, sign * value)
        bracketed = find_bracketed(group, time, sign * value, window=window, strict=strict, above=True, below=False)
        certain = np.where(ends == BEGINNING, BEGINNING, ends + span + 1)
        found = np.where(bracketed, found, np.minimum(found, np.maximum(certain, time + 1)))
    return found


@compiled
def _latest_greater(group: Ints, time: Ints, value: Floats) -> Ints:
    """Return the time of the latest row of the group that is not later than each row and greater; BEGINNING: none."""
    found, rows = np.full(len(time), BEGINNING, np.int64), len(time)
    times, values, top = np.empty(rows, np.int64), np.empty(rows, np.float64), 0
    row = 0
    while row < rows:
        if row and group[row] != group[row - 1]:
            top = 0
        end, best = row, -np.inf
        while end < rows and group[end] == group[row] and time[end] == time[row]:
            if np.isfinite(value[end]):
                best = max(best, value[end])
            end += 1
        while top > 0 and values[top - 1] <= best:
            top -= 1
        for each in range(row, end):
            if np.isfinite(value[each]):
                found[each] = time[row] if value[each] < best else (times[top - 1] if top > 0 else BEGINNING)
        if best > -np.inf:
            times[top], values[top] = time[row], best
            top += 1
        row = end
    return found

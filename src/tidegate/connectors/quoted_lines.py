"""Find the lines of a CSV file that form one record because a quoted field contains line ends (RFC 4180).

A line that opens a quote is joined with the following lines, up to the one that closes the quote. The result must be
well-formed and not longer than a limit. Otherwise only the line with the quote is bad, and the following lines are
records of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate.arrays import Bytes, Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined

_CLOSED, _OPEN, _BAD = 0, 1, 2
"""State at the end of a line: complete, inside quotes, or ill-formed whatever follows."""

_RETURN = 13


@inlined
def _state_after_line(data: Bytes, begin: int, end: int, before: int, delimiter: int, quote: int) -> int:
    """Return the state at the end of a line, given the state at the end of the previous line."""
    if end > begin and data[end - 1] == _RETURN:
        end -= 1
    i, is_open = begin, before == _OPEN
    while i < end:
        if is_open or data[i] == quote:
            i += 0 if is_open else 1
            is_open = True
            while i < end:
                if data[i] == quote:
                    if i + 1 == end or data[i + 1] != quote:
                        is_open = False
                        break
                    i += 1
                i += 1
            if is_open:
                return _OPEN
            i += 1
            if i < end and data[i] != delimiter:
                return _BAD
        else:
            while i < end and data[i] != delimiter:
                if data[i] == _RETURN:
                    return _BAD
                i += 1
        i += 1
    return _OPEN if is_open else _CLOSED


@compiled
def record_starts(
    data: Bytes, ends: Ints, delimiter: int, quote: int, limit: int, is_final: Any
) -> tuple[Ints, int]:  # pragma: no cover - compiled
    """Return the first line of each record, and the total number of lines of these records.

    `ends` are the positions of the line ends. Last lines with an open quote that later data may close are omitted,
    unless the data `is_final` or they are already longer than the limit.
    """
    lines = len(ends)
    starts, count, line = np.empty(lines, np.int64), 0, 0
    # An open quote stays open in the lines before `reach`. Keeping it means that no line is scanned twice for this.
    reach, how = 0, -1
    while line < lines:
        begin = 0 if line == 0 else ends[line - 1] + 1
        last = line
        if _state_after_line(data, begin, ends[line], _CLOSED, delimiter, quote) == _OPEN:
            if reach <= line:
                reach, how = line + 1, -1
            while reach < lines and ends[reach] - begin <= limit:
                if how < 0:
                    how = _state_after_line(data, ends[reach - 1] + 1, ends[reach], _OPEN, delimiter, quote)
                if how != _OPEN:
                    break
                reach, how = reach + 1, -1
            if reach == lines and not is_final and len(data) - begin <= limit:
                break
            if reach < lines and ends[reach] - begin <= limit and how == _CLOSED:
                last = reach
        starts[count] = line
        count += 1
        line = last + 1
    return starts[:count], line

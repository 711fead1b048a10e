"""Below which value of an ordered column nothing arrives any more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.physical.kernels.compiled import compiled
from tidegate.physical.kernels.synopses.model import Bound, Ints

LEAST = -(2**63)
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Stairs:
    """Running maxima by position (arrival number or start), and the largest value that is far enough behind.

    `slack` is how far that was. When it grows, what was concluded from the smaller one is forgotten.
    """

    low: int = LEAST
    slack: int = 0
    position: Ints = field(default_factory=lambda: _NONE)
    value: Ints = field(default_factory=lambda: _NONE)

    def absorb(self, position: Ints, value: Ints, reached: int, slack: int) -> Stairs:
        """Take in more elements; all of them at or before `reached` minus the slack are far enough behind."""
        low = LEAST if slack > self.slack else self.low
        if _is_behind(self.position, position):
            parts = (self.position, self.value, position, value)
        else:
            position, value = np.concatenate([self.position, position]), np.concatenate([self.value, value])
            order = np.argsort(position, kind="stable")
            parts = (_NONE, _NONE, position[order], value[order])
        low, position, value = _risen(*parts, reached - slack, low)
        return Stairs(int(low), slack, position, value)


@compiled
def _is_behind(before: Any, position: Any) -> Any:
    """Whether positions are in order, and none is before those that were there."""
    last = before[-1] if len(before) else LEAST
    for each in position:
        if each < last:
            return False
        last = each
    return True


@compiled
def _risen(before: Any, value_before: Any, position: Any, value: Any, settled: Any, low: Any) -> Any:
    """The largest value up to a position, and the stairs above it behind that; those before are stairs already."""
    passed = np.searchsorted(before, settled, side="right")
    count = len(before) - passed
    positions, values = np.empty(count + len(position), np.int64), np.empty(count + len(position), np.int64)
    positions[:count], values[:count] = before[passed:], value_before[passed:]
    if passed:
        low = value_before[passed - 1]
    greatest = value_before[-1] if len(before) else low
    for i in range(len(position)):
        if value[i] > greatest:
            greatest = value[i]
            if position[i] <= settled:
                low = value[i]
            else:
                positions[count], values[count] = position[i], value[i]
                count += 1
    return low, positions[:count].copy(), values[:count].copy()


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The stairs of one key column by arrival number and by time."""

    rows: Stairs = field(default_factory=Stairs)
    time: Stairs = field(default_factory=Stairs)

    def absorb(self, keys: Ints, number: Ints, start: Ints, bound: Bound, counter: int, watermark: int) -> Order:
        rows, time = self.rows, self.time
        if bound.rows is not None:
            rows = rows.absorb(number, keys, counter, bound.rows)
        if bound.time is not None:
            time = time.absorb(start, keys, watermark - 1, bound.time)
        return Order(rows, time)

    def low(self, bound: Bound) -> int:
        """No later element has a key below this."""
        rows = LEAST if bound.rows is None else self.rows.low
        return max(rows, LEAST if bound.time is None else self.time.low)

"""Lower bounds of the later values of an ordered column."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.keyed_join.kernels.model import Bound

LEAST = -(2**63)
_NONE = np.empty(0, np.int64)


class RunningMaxima(NamedTuple):
    """Running maxima by position (arrival number or start), and the largest value that is settled.

    A value is settled if its position is at least `slack` before the position reached. When the slack grows,
    conclusions from the smaller one are discarded.
    """

    low: int = LEAST
    slack: int = 0
    position: Ints = _NONE
    value: Ints = _NONE

    def absorb(self, position: Ints, value: Ints, reached: int, slack: int) -> RunningMaxima:
        """Add elements. Those at or before `reached` minus the slack are settled."""
        low = LEAST if slack > self.slack else self.low
        low, is_in_order, *risen = _update_maxima(self.position, self.value, position, value, reached - slack, low)
        if not is_in_order:
            position, value = np.concatenate([self.position, position]), np.concatenate([self.value, value])
            order = np.argsort(position, kind="stable")
            low, _, *risen = _update_maxima(_NONE, _NONE, position[order], value[order], reached - slack, low)
        return RunningMaxima(low, slack, *risen)


@compiled
def _update_maxima(
    before: Ints, value_before: Ints, position: Ints, value: Ints, settled: int, low: int
) -> tuple[int, bool, Ints, Ints]:
    """Return the largest settled value, and the running maxima after it. `before` are running maxima already.

    Also return whether positions are in order and none is less than the last of `before`. If not, nothing is changed.
    """
    last = before[-1] if len(before) else LEAST
    for each in position:
        if each < last:
            return low, False, before, value_before
        last = each
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
    return low, True, positions[:count].copy(), values[:count].copy()


class KeyOrder(NamedTuple):
    """Running maxima of one key column, by arrival number and by time."""

    rows: RunningMaxima = RunningMaxima()
    time: RunningMaxima = RunningMaxima()

    def absorb(self, keys: Ints, number: Ints, start: Ints, bound: Bound, counter: int, watermark: int) -> KeyOrder:
        rows, time = self.rows, self.time
        if bound.rows is not None:
            rows = rows.absorb(number, keys, counter, bound.rows)
        if bound.time is not None:
            time = time.absorb(start, keys, watermark - 1, bound.time)
        return KeyOrder(rows, time)

    def lower_bound(self, bound: Bound) -> int:
        """Return the lower bound of the keys of later elements."""
        rows = LEAST if bound.rows is None else self.rows.low
        return max(rows, LEAST if bound.time is None else self.time.low)

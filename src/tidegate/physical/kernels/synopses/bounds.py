"""Below which value of an ordered column nothing arrives any more."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

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
        position, value = np.concatenate([self.position, position]), np.concatenate([self.value, value])
        order = np.argsort(position, kind="stable")
        position, highest = position[order], np.maximum.accumulate(value[order])
        settled = int(np.searchsorted(position, reached - slack, side="right"))
        if settled:
            low = max(low, int(highest[settled - 1]))
        position, highest = position[settled:], highest[settled:]
        rises = highest > np.maximum(low, np.concatenate([np.array([LEAST]), highest[:-1]])[: len(highest)])
        return Stairs(low, slack, position[rises], highest[rises])


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

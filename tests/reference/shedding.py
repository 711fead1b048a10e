"""Window joins by definition, and joins that shed, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import isnan
from typing import Any

import numpy as np

from tidegate.physical.similarity_join.kernels.conditions import (
    Anything,
    Equal,
    InnerProduct,
    Jaccard,
    Near,
    Overlap,
    Subset,
    Superset,
)

_ALL = 2**64 - 1

Cell = tuple[int, int, int]
"""Lag, probing stream and kind."""


@dataclass(frozen=True)
class Tuple:
    """An element: a number, a set of items, or weights by item."""

    start: int
    end: int
    row: int
    value: Any
    kind: int = 0


def matches(condition: Any, a: Any, b: Any) -> bool:
    """Whether two values match."""
    match condition:
        case Equal() if not isinstance(a, frozenset):
            return bool(a == b or (isnan(a) and isnan(b)))
        case Equal():
            return bool(a == b)
        case Near(distance):
            return bool(abs(a - b) <= distance)
        case Overlap(least):
            return len(a & b) >= least
        case Subset():
            return bool(a <= b)
        case Superset():
            return bool(a >= b)
        case Jaccard(least):
            return (len(a & b) / len(a | b) if a | b else 1.0) >= least
        case InnerProduct(least):
            total = 0.0
            for item in sorted(a.keys() & b.keys()):
                total += a[item] * b[item]
            return total >= least
        case Anything():
            return True
        case _:
            raise AssertionError(condition)


def together(a: Tuple, b: Tuple) -> bool:
    """Whether two elements are ever valid together."""
    return a.start < b.end and b.start < a.end


def window_join(condition: Any, left: Sequence[Tuple], right: Sequence[Tuple]) -> set[tuple[int, int]]:
    """All pairs that match and are valid together."""
    return {(a.row, b.row) for a, b in product(left, right) if together(a, b) and matches(condition, a.value, b.value)}


@dataclass
class Shedding:
    """A join that compares each pair on its own, and chooses as the kernel does."""

    condition: Any
    width: int
    reach: int
    seed: int
    utilities: tuple[Sequence[float], Sequence[float]] | None = None
    joint: Callable[[float, float], float] = max
    explore: float = 0.05
    explore_at_first: float = 0.3
    decay: float = 0.97
    prior: float = 1.0
    pool: float = 1000.0
    stored: tuple[list[Tuple], list[Tuple]] = field(default_factory=lambda: ([], []))
    matched: dict[int, float] = field(default_factory=dict)
    compared: dict[int, float] = field(default_factory=dict)
    late: tuple[dict[int, float], dict[int, float]] = field(default_factory=lambda: ({}, {}))
    """Of `matched` and `compared`, what was counted in the last few batches."""
    utility: dict[tuple[int, int, int], float] = field(default_factory=dict)
    made: dict[tuple[int, int, int], float] = field(default_factory=dict)
    batch: int = 0

    def step(self, new: tuple[list[Tuple], list[Tuple]], watermarks: tuple[int, int], budget: float) -> Outcome:
        cells: dict[tuple[int, int, int], list[Task]] = {}
        for task in self._tasks(new):
            if task.volume:
                cells.setdefault(task.cell, []).append(task)
        density, worth = self._densities(), self._worth(new)
        volume = {cell: float(sum(task.volume for task in cells[cell])) for cell in sorted(cells)}
        value = {cell: density[cell[0]] * worth[cell[1:]] for cell in volume}
        made = self._plan(value, volume, budget)
        outcome = Outcome(volume=int(sum(volume.values())))
        matched, compared = dict.fromkeys(density, 0.0), dict.fromkeys(density, 0.0)
        utility, counted = self.utility, self.made
        self.utility, self.made = {}, {}
        for cell, tasks in cells.items():
            for task in tasks:
                for pair in task.chosen(made[cell], key_of(self.seed, self.batch, *task.name)):
                    self._compare(pair, cell, outcome, matched, compared)
        if outcome.compared:
            self._learn(matched, compared, utility, counted)
        else:
            self.utility, self.made = utility, counted
        for stream in (0, 1):
            kept = self.stored[stream] + new[stream]
            slots = {t.start // self.width for t in kept if t.end > watermarks[1 - stream]}
            self.stored[stream][:] = [t for t in kept if t.start // self.width in slots]
        self.batch += 1
        return outcome

    def _compare(
        self,
        pair: tuple[Tuple, Tuple],
        cell: Cell,
        outcome: Outcome,
        matched: dict[int, float],
        compared: dict[int, float],
    ) -> None:
        a, b = pair
        outcome.compared += 1
        compared[cell[0]] += 1
        self.made[cell] = self.made.get(cell, 0.0) + 1
        if together(a, b) and matches(self.condition, a.value, b.value):
            outcome.pairs.append((a.row, b.row))
            matched[cell[0]] += 1
            self.utility[cell] = self.utility.get(cell, 0.0) + self._joint(a.kind, b.kind)

    def _joint(self, left: int, right: int) -> float:
        return 1.0 if self.utilities is None else self.joint(self.utilities[0][left], self.utilities[1][right])

    def _tasks(self, new: tuple[list[Tuple], list[Tuple]]) -> Iterator[Task]:
        """New elements with stored ones, and new ones with new ones, of which the later slot probes."""
        for stream in (0, 1):
            for number, probing in self._slots(new[stream]).items():
                for other, stored in self._slots(self.stored[1 - stream]).items():
                    yield from self._by_kind(stream, number, probing, other, stored, fresh=0)
        for number, left in self._slots(new[0]).items():
            for other, right in self._slots(new[1]).items():
                if number >= other:
                    yield from self._by_kind(0, number, left, other, right, fresh=1)
                else:
                    yield from self._by_kind(1, other, right, number, left, fresh=1)

    def _by_kind(
        self, stream: int, number: int, probing: Sequence[Tuple], other: int, stored: Sequence[Tuple], *, fresh: int
    ) -> Iterator[Task]:
        lag = number - other if stream == 0 else other - number
        lag = max(-self.reach, min(self.reach, lag))
        for kind in sorted({t.kind for t in probing}):
            some = [t for t in probing if t.kind == kind]
            yield Task((lag, stream, kind), some, stored, (stream, number, other, kind, fresh))

    def _slots(self, tuples: Sequence[Tuple]) -> Mapping[int, list[Tuple]]:
        slots: dict[int, list[Tuple]] = {}
        for each in sorted(tuples, key=lambda t: (t.start, t.row)):
            slots.setdefault(each.start // self.width, []).append(each)
        return slots

    def _densities(self, *, smooth: bool = True) -> dict[int, float]:
        """Matches per comparison by lag, to which neighbours may contribute in part."""
        lags = range(-self.reach, self.reach + 1)
        density = {}
        for direction in ([lag for lag in lags if lag < 0], [0], [lag for lag in lags if lag > 0]):
            matched = sum(self.matched.get(lag, 0.0) for lag in direction)
            compared = sum(self.compared.get(lag, 0.0) for lag in direction)
            mean = matched / compared if matched > 0 and compared > 0 else 1e-4
            for lag in direction:
                m, c = self.matched.get(lag, 0.0), self.compared.get(lag, 0.0)
                for other in (lag - 1, lag + 1) if smooth else ():
                    taken = min(0.5 * self.compared.get(other, 0.0), self.pool)
                    m += taken * (self.matched[other] / self.compared[other] if taken else 0.0)
                    c += taken
                density[lag] = (m + self.prior * mean) / (c + self.prior)
        return density

    def _worth(self, new: tuple[list[Tuple], list[Tuple]]) -> dict[tuple[int, int], float]:
        kinds = range(1 if self.utilities is None else len(self.utilities[0]))
        matched, compared = (sum(each[k] for k in sorted(each)) for each in (self.matched, self.compared))
        weight = self.pool * (matched / compared if matched > 0 and compared > 0 else 1e-4)
        measured, worth = self._densities(smooth=False), {}
        for stream, kind in product((0, 1), kinds):
            others = [t.kind for t in self.stored[1 - stream] + new[1 - stream]]
            shares = [others.count(other) / len(others) if others else 1 / len(kinds) for other in kinds]
            usual = 0.0
            for other in kinds:
                usual += shares[other] * (self._joint(kind, other) if stream == 0 else self._joint(other, kind))
            key = (stream, kind)
            expected = sum(count * measured[cell[0]] for cell, count in self.made.items() if cell[1:] == key)
            utility = sum(amount for cell, amount in self.utility.items() if cell[1:] == key)
            worth[key] = (utility + weight * usual) / (expected + weight)
        return worth

    def _plan(self, value: Mapping[Cell, float], volume: Mapping[Cell, float], budget: float) -> dict[Cell, float]:
        """The share of each cell: best first, and a part of the budget evenly for what is not done completely."""
        if sum(volume.values()) <= budget:
            return dict.fromkeys(volume, 1.0)
        explore = self.explore_at_first if self.batch < self.reach else self.explore
        left, made = (1.0 - explore) * budget, {}
        for cell in sorted(volume, key=lambda c: (-np.float32(value[c]), abs(c[0]), c)):
            made[cell] = max(0.0, min(1.0, left / volume[cell]))
            left -= volume[cell]
        left, waiting = explore * budget, sorted(volume, key=lambda c: ((1.0 - made[c]) * volume[c], c))
        for place, cell in enumerate(waiting):
            given = min((1.0 - made[cell]) * volume[cell], left / (len(waiting) - place))
            left -= given
            made[cell] += given / volume[cell]
        return made

    def _learn(
        self,
        matched: Mapping[int, float],
        compared: Mapping[int, float],
        utility: Mapping[Cell, float],
        made: Mapping[Cell, float],
    ) -> None:
        """Add what was counted; where that of late is not at all what was before, only it remains."""
        lags = sorted(matched)
        for late, total, counted in ((self.late[0], self.matched, matched), (self.late[1], self.compared, compared)):
            for lag in lags:
                total[lag] = total.get(lag, 0.0) + counted[lag]
                late[lag] = min(total[lag], late.get(lag, 0.0) + counted[lag])
        changed = {lag for lag in lags if self._changed(lag)}
        for lag in lags:
            kept = [1.0, 1.0]
            for n, total in enumerate((self.matched, self.compared)):
                if lag in changed and total[lag]:
                    kept[n] = self.late[n][lag] / total[lag]
            for part, by_cell, earlier in ((kept[0], self.utility, utility), (kept[1], self.made, made)):
                for cell in [cell for cell in {*by_cell, *earlier} if cell[0] == lag]:
                    by_cell[cell] = self.decay * part * (earlier.get(cell, 0.0) + by_cell.get(cell, 0.0))
            self.matched[lag] *= kept[0] * self.decay
            self.compared[lag] *= kept[1] * self.decay
            for late in self.late:
                late[lag] *= 0.8

    def _changed(self, lag: int) -> bool:
        """Whether the density at a lag and beside it has doubled or halved, which is no accident."""
        near = [each for each in (lag - 1, lag, lag + 1) if abs(each) <= self.reach]
        late = [sum(counts[each] for each in near) for counts in self.late]
        early = [
            sum(total[each] - counts[each] for each in near)
            for total, counts in zip((self.matched, self.compared), self.late, strict=True)
        ]
        if not late[1] + early[1]:
            return False
        density, surprise = (late[0] + early[0]) / (late[1] + early[1]), 0.0
        for matched, compared in (late, early):
            surprise += 2.0 * matched * math.log(matched / (density * compared)) if matched else 0.0
        one, other = late[0] * early[1], early[0] * late[1]
        return surprise > 12.0 and (one > 2.0 * other or 2.0 * one < other)


@dataclass
class Outcome:
    """What a step found, how much it compared, and how much there was."""

    volume: int
    pairs: list[tuple[int, int]] = field(default_factory=list)
    compared: int = 0


@dataclass(frozen=True)
class Task:
    """Elements of one slot and kind against a slot of the other stream."""

    cell: tuple[int, int, int]
    probing: Sequence[Tuple]
    stored: Sequence[Tuple]
    name: tuple[int, ...]

    @property
    def volume(self) -> int:
        return sum(len(self._partners(t)) for t in self.probing)

    def chosen(self, share: float, key: int) -> Iterator[tuple[Tuple, Tuple]]:
        """Left and right elements to compare."""
        count = len(self.probing)
        if share < 1.0:
            count = int(share * count + (key_of(key, 1) >> 11) * 2.0**-53)
        drawn = sorted(self.probing, key=lambda t: key_of(key ^ (t.row & _ALL)))[:count]
        for probing in drawn:
            for partner in self._partners(probing):
                yield (probing, partner) if self.cell[1] == 0 else (partner, probing)

    def _partners(self, probing: Tuple) -> Sequence[Tuple]:
        """From the first that ends in time to the last that starts in time."""
        ending = [place for place, t in enumerate(self.stored) if t.end > probing.start]
        starting = [place for place, t in enumerate(self.stored) if t.start < probing.end]
        return self.stored[ending[0] : starting[-1] + 1] if ending and starting else []


def key_of(*numbers: int) -> int:
    """A hash of numbers."""
    key = 0
    for number in numbers:
        key = ((key ^ number) + 0x9E3779B97F4A7C15) & _ALL
        key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
        key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & _ALL
        key ^= key >> 31
    return key

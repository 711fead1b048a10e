"""Running a feed through the join with synopses and through the window join, batch by batch in turn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.support.kmon_baseline import WindowJoin
from benchmarks.support.kmon_setups import Feed
from benchmarks.support.kmon_simulation import simulated
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import Combinations, Constraints

Cost = tuple[float, float]
"""Processor time for an element in microseconds, by us and by the window join."""


@dataclass(slots=True)
class Course:
    """After each batch, what is kept by us and by the window join, and their seconds; whether results are equal."""

    arrived: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    window: list[int] = field(default_factory=list)
    simulated: list[int] = field(default_factory=list)
    """What the paper's method keeps, if that was asked for."""
    ours: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    results: int = 0
    equal: bool = True

    def level(self) -> float:
        """Elements kept on average, in the last fifth."""
        return float(np.mean(self._settled(self.kept)))

    def window_level(self) -> float:
        return float(np.mean(self._settled(self.window)))

    def simulated_level(self) -> float:
        return float(np.mean(self._settled(self.simulated)))

    def worst_of_simulated(self) -> float:
        """What we keep in terms of what the paper's method keeps, at the worst moment."""
        return max(ours / max(others, 1) for ours, others in zip(self.kept, self.simulated, strict=True))

    def cost(self) -> Cost:
        """What an element costs on average in the last fifth, with all that is done now and then."""
        since = len(self.arrived) * 4 // 5
        count = (self.arrived[-1] - self.arrived[since - 1]) / 1e6
        return sum(self._settled(self.ours)) / count, sum(self._settled(self.others)) / count

    @staticmethod
    def _settled(values: Sequence[float]) -> Sequence[float]:
        return values[len(values) * 4 // 5 :]


def compared(given: Feed, constraints: Constraints, size: int) -> Course:
    """Take in everything, and let the paper's method do so, too."""
    course = lived(given, constraints, size)
    course.simulated = simulated(given, constraints, size)
    return course


def lived(given: Feed, constraints: Constraints, size: int, *, checked: bool = True) -> Course:
    """Take in everything in batches of so many elements; constraints hold, and what need not be kept is forgotten."""
    join = SynopsisJoin.empty(given.graph, exact=False, watched=frozenset(constraints.clustered))
    window, course = WindowJoin(given.graph), Course()
    arrived = 0
    for batch, moment in given.batches(size):
        begin = time.process_time()
        answer = join.step(batch, moment, constraints)
        between = time.process_time()
        expected = window.step(batch, moment.watermarks[0])
        end = time.process_time()
        arrived += sum(map(len, batch.values()))
        course.arrived.append(arrived)
        course.kept.append(sum(each.yes + each.unknown + each.no for each in join.sizes()))
        course.window.append(len(window))
        course.ours.append(between - begin)
        course.others.append(end - between)
        course.results += len(expected)
        course.equal &= not checked or same(answer.combinations, expected)
    return course


def same(one: Combinations, other: Combinations) -> bool:
    """Whether combinations are the same, in any order."""
    return len(one) == len(other) and all(map(np.array_equal, _sorted(one), _sorted(other)))


def _sorted(given: Combinations) -> list[np.ndarray]:
    order = np.lexsort(given.rows)
    return [column[order] for column in (*given.rows, given.start, given.end)]

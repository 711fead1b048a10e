"""Run each strategy over the load, and measure every step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import pyarrow as pa

from benchmarks.support.migration_boxes import (
    SECOND,
    STRATEGIES,
    Load,
    MovingStates,
    Strategy,
    arrivals,
    whole_results,
)
from tidegate.physical.common.batch import Batch


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """A step: when it ended in the time of the streams, what it released, what was kept then, and its CPU time."""

    at: float
    rows: int
    kept: int
    cpu: float


@dataclass(frozen=True, slots=True)
class MigrationRun:
    """A strategy over the whole load. `ended` is when the old box was dropped; `pause` is how long nothing ran."""

    name: str
    load: Load
    steps: Sequence[MeasuredStep]
    ended: float | None
    pause: float
    results: pa.Table

    def during(self, begin: float, end: float) -> list[MeasuredStep]:
        return [step for step in self.steps if begin <= step.at <= end]

    @property
    def migration(self) -> list[MeasuredStep]:
        """The steps while both boxes ran."""
        return self.during(self.load.begin, self.load.begin if self.ended is None else self.ended)

    @property
    def peak_kept(self) -> int:
        return max(step.kept for step in self.migration)

    @property
    def median_step(self) -> float:
        return median(step.cpu for step in self.steps)


def run_strategy(name: str, load: Load) -> MigrationRun:
    strategy: Strategy = STRATEGIES[name](load.window)
    steps: list[MeasuredStep] = []
    found: list[Batch] = []
    for watermark, elements in arrivals(load):
        began = time.process_time()
        batches = strategy.step(elements, watermark)
        if watermark == load.begin * SECOND:
            strategy.begin(watermark)
        cpu = time.process_time() - began
        found += batches
        steps.append(MeasuredStep(watermark / SECOND, sum(map(len, batches)), strategy.kept, cpu))
    ended = None if strategy.ended is None else strategy.ended / SECOND
    pause = strategy.pause if isinstance(strategy, MovingStates) else 0.0
    return MigrationRun(name, load, steps, ended, pause, whole_results(found))


def run_all(load: Load) -> dict[str, MigrationRun]:
    """Run all strategies, after a short run that compiles the kernels."""
    for name in STRATEGIES:
        run_strategy(name, Load(60, 10, 1, 2))
    return {name: run_strategy(name, load) for name in STRATEGIES}

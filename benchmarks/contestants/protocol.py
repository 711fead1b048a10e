"""What the benchmark of rivals asks of a contestant, and what it answers: JSON, with the standard library only.

A contestant first runs the query over a small part of the data: that is start-up, with imports, sessions and
compiling. Then it runs the query over all data in the same process: that gives the rate. A contestant for whom
a run costs seconds however few rows there are may subtract that cost, as measured by a second run over the part.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

Alarms = Sequence[tuple[int, int]]
"""The two ids of each alarm."""


@dataclass(frozen=True, slots=True)
class Data:
    """A folder with the folders `a` and `b`, which hold CSV files, and how many rows both have together."""

    folder: str
    rows: int


@dataclass(frozen=True, slots=True)
class Task:
    """A query, and the data to run it on: alarms of pairs whose values have a sum above the threshold."""

    first: Data
    whole: Data
    threshold: float
    distance: int
    """How far apart the two readings may be, in microseconds."""
    every_pair: bool
    spawned: float
    """When the process was started, in seconds since 1970."""

    @staticmethod
    def from_json(text: str) -> Task:
        fields = json.loads(text)
        return Task(**{**fields, "first": Data(**fields["first"]), "whole": Data(**fields["whole"])})

    def as_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Answer:
    """Seconds until the first run was over, rows and seconds of the steady state, and the alarms of the whole data."""

    start: float
    rows: int
    seconds: float
    alarms: Alarms
    processor: float = 0.0
    """Seconds that this process computed in the steady state, on all cores together."""

    @property
    def rate(self) -> float:
        return self.rows / self.seconds

    @staticmethod
    def from_json(text: str) -> Answer:
        fields = json.loads(text)
        return Answer(**{**fields, "alarms": [(a, b) for a, b in fields["alarms"]]})


def read_task() -> Task:
    return Task.from_json(sys.argv[1])


def write_answer(answer: Answer) -> None:
    print(json.dumps(asdict(answer)), flush=True)


def compete(run: Callable[[Task, Data], Alarms], *, without_fixed_cost: bool = False) -> None:
    """Answer the task of the command line by a function that runs the query over some data."""
    task = read_task()
    run(task, task.first)
    start = time.time() - task.spawned
    seconds_of_first = _timed(run, task, task.first)[0] if without_fixed_cost else 0.0
    computed = time.process_time()
    seconds, alarms = _timed(run, task, task.whole)
    computed = time.process_time() - computed
    rows = task.whole.rows - (task.first.rows if without_fixed_cost else 0)
    write_answer(Answer(start, rows, seconds - seconds_of_first, alarms, computed))


def _timed(run: Callable[[Task, Data], Alarms], task: Task, data: Data) -> tuple[float, Alarms]:
    began = time.perf_counter()
    alarms = run(task, data)
    return time.perf_counter() - began, alarms

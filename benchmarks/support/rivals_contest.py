"""Run contestants in processes of their own, in turns, and compare their answers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from statistics import median

from benchmarks.contestants.protocol import Answer, Task
from benchmarks.support.environments import find_python
from benchmarks.support.report import say
from benchmarks.support.rivals_data import DISTANCE, Readings, are_right

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Contestant:
    """A program of `benchmarks/contestants`, and the Python that runs it."""

    name: str
    module: str
    python: Path = Path(sys.executable)
    every_pair: bool = True
    """Whether it finds every pair; Tidegate does so only if it is asked to."""
    joined_files: bool = False


EMBEDDED = Contestant("embedded", "tidegate_embedded", every_pair=False)
EMBEDDED_ALL = Contestant("embedded_all", "tidegate_embedded")
SPARK = Contestant("spark", "tidegate_spark", every_pair=False)
SPARK_JOIN = Contestant("spark_join", "spark_join")
DUCKDB = Contestant("duckdb_batch", "duckdb_batch")


def find_bytewax() -> Contestant | None:
    python = find_python("bytewax", ["bytewax==0.21.1", "pyarrow"])
    return Contestant("bytewax", "bytewax_flow", python) if python else None


def find_flink() -> Contestant | None:
    python = find_python("flink", ["setuptools<81", "apache-flink==2.3.0"])
    return Contestant("flink", "flink_sql", python, joined_files=True) if python else None


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a contestant's turns, and whether all its answers were right."""

    right: bool
    rates: tuple[float, ...]
    """Rows per second of each turn."""
    processor: float
    start: float

    @property
    def rate(self) -> float:
        return median(self.rates)

    def ratio(self, other: Result) -> float:
        """How many times as fast it was: the median over rounds, since the load of a machine changes between them."""
        return median(ours / theirs for ours, theirs in zip(self.rates, other.rates, strict=False))


@dataclass(frozen=True, slots=True)
class Entry:
    """A contestant, and how many files it reads."""

    who: Contestant
    files: int


def hold(readings: Readings, entries: Sequence[Entry], *, enough: float) -> dict[str, Result]:
    """Let contestants have up to three turns each on the same data; none has a further turn after `enough` seconds.

    A rival that fails is left out, with a word why.
    """
    crossing = readings.crossing()
    answers: dict[str, list[Answer]] = {}
    rights: dict[str, bool] = {}
    out: set[str] = set()
    for _ in range(ROUNDS):
        for entry in entries:
            name = entry.who.name
            if name in out:
                continue
            began = time.perf_counter()
            answer = _run(entry, readings)
            if answer is None:
                out.add(name)
                continue
            answers.setdefault(name, []).append(answer)
            before = readings.rows // 2 // readings.files * entry.files
            right = are_right(
                answer.alarms, crossing, before=before, distance=DISTANCE, every_pair=entry.who.every_pair
            )
            rights[name] = rights.get(name, True) and right
            _say_turn(readings, name, answer, right=right)
            if (time.perf_counter() - began) * len(answers[name]) > enough:
                out.add(name)
    return {name: _median(some, right=rights[name]) for name, some in answers.items()}


def _run(entry: Entry, readings: Readings) -> Answer | None:
    who = entry.who
    part = readings.joined_part if who.joined_files else readings.part
    first, whole = part(1), part(entry.files)
    task = Task(first, whole, readings.threshold, DISTANCE, who.every_pair, time.time())
    command = [str(who.python), "-P", "-m", f"benchmarks.contestants.{who.module}", task.as_json()]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout:
        return Answer.from_json(done.stdout.splitlines()[-1])
    say(f"{who.name} failed and is left out: {(done.stderr.strip().splitlines() or ['no word why'])[-1]}")
    if who.python == Path(sys.executable):
        raise RuntimeError(f"{who.name} failed:\n{done.stderr}")
    return None


def _environment() -> Mapping[str, str]:
    """Rivals run on the machine's Java if it has one, otherwise on ours."""
    given = {**os.environ, "PYTHONPATH": str(ROOT)}
    if "JAVA_HOME" not in given and which("java") is None:
        from tidegate.runtime.spark.java import ensure_java

        given["JAVA_HOME"] = str(ensure_java())
    return given


def _say_turn(readings: Readings, name: str, answer: Answer, *, right: bool) -> None:
    say(
        f"{readings.density:>5} in a window  {name:<14} {answer.rate:>12,.0f} rows/s  start {answer.start:>5.1f} s  "
        f"{len(answer.alarms):,} alarms{'' if right else ', WRONG'}"
    )


def _median(answers: Sequence[Answer], *, right: bool) -> Result:
    return Result(
        right,
        tuple(a.rate for a in answers),
        median(a.processor for a in answers),
        median(a.start for a in answers),
    )

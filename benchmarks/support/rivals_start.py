"""How long commands take until they are of use, beside what they cannot do without."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.support.report import say

ROOT = Path(__file__).resolve().parents[2]
TIDEGATE = str(Path(sys.executable).with_name("tidegate"))
RUN = [TIDEGATE, "run", "examples/auction/closing.sql", "--once"]
EMBEDDED = [TIDEGATE, "run", "--runtime", "embedded", "examples/auction/closing.sql", "--once"]
IMPORTS = [sys.executable, "-c", "import pyarrow, numpy, numba"]
BARE_SPARK = [sys.executable, "-P", "-m", "benchmarks.contestants.bare_spark"]
DEMO = [str(ROOT / "dev"), "demo"]


class Spent(NamedTuple):
    """Seconds that a command took: until its first line of output, until its end, and of processors."""

    first_line: float
    whole: float
    processor: float


def spend(command: Sequence[str]) -> Spent:
    """Run a command in the project's root, and measure it."""
    began = time.perf_counter()
    with subprocess.Popen(
        command, cwd=ROOT, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        first_line = time.perf_counter() - began
        running.stdout.read()
        _, status, used = os.wait4(running.pid, 0)
        whole = time.perf_counter() - began
        running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        raise RuntimeError(f"failed: {' '.join(command)}")
    return Spent(first_line, whole, used.ru_utime + used.ru_stime)


def _environment() -> Mapping[str, str]:
    """Both kinds of Spark run on the same Java."""
    from tidegate.runtime.spark.java import ensure_java

    return {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": str(ensure_java()), "PYSPARK_PYTHON": sys.executable}


def in_turns(rounds: int, *commands: Sequence[str], warm: Sequence[Sequence[str]]) -> list[list[Spent]]:
    """What commands take, after a first run of some that warms caches."""
    for command in warm:
        spend(command)
    turns = [[spend(command) for command in commands] for _ in range(rounds)]
    return [list(each) for each in zip(*turns, strict=True)]


def measure_start(rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return ratios and figures."""
    helping, demo_embedded = [TIDEGATE, "--help"], [*DEMO, "--runtime", "embedded"]
    # Short commands are cheap to repeat, and one run says little about them.
    embedded, imports, helped = in_turns(3, EMBEDDED, IMPORTS, helping, warm=[EMBEDDED, IMPORTS, helping])
    spark, bare = in_turns(rounds, RUN, BARE_SPARK, warm=[RUN])
    demo, embedded_demo = in_turns(rounds, DEMO, demo_embedded, warm=[DEMO, demo_embedded])
    figures = {
        "start_processor_seconds": _of(embedded, lambda s: s.processor),
        "imports_processor_seconds": _of(imports, lambda s: s.processor),
        "help_seconds": _of(helped, lambda s: s.whole),
        "spark_first_result_seconds": _of(spark, lambda s: s.first_line),
        "bare_spark_first_result_seconds": _of(bare, lambda s: s.first_line),
        "demo_spark_seconds": _of(demo, lambda s: s.whole),
        "demo_embedded_seconds": _of(embedded_demo, lambda s: s.whole),
    }
    ratios = {
        "start_vs_imports": figures["start_processor_seconds"] / figures["imports_processor_seconds"],
        "spark_first_result_vs_bare": (
            figures["spark_first_result_seconds"] / figures["bare_spark_first_result_seconds"]
        ),
        "demo_spark_vs_embedded": figures["demo_spark_seconds"] / figures["demo_embedded_seconds"],
    }
    for name, value in {**ratios, **figures}.items():
        say(f"{name:<36} {value:>8.2f}")
    return ratios, figures


def _of(spent: Sequence[Spent], figure: Callable[[Spent], float]) -> float:
    return median(figure(each) for each in spent)

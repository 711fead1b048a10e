"""How long a command takes to start, beside the imports that it cannot do without.

`tidegate run` over nine rows, embedded, and a Python that only imports pyarrow, NumPy and Numba, in turn: the ratio of
their processor times (medians). The parts are measured by commands that stop after each of them. Everything is
installed, and kernels have been compiled, before the first measurement.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.support.report import Report, main, say

ROOT = Path(__file__).resolve().parent.parent
QUERY = "examples/auction/closing.sql"
TIDEGATE = [str(Path(sys.executable).parent / "tidegate")]
RUN = [*TIDEGATE, "run", "--runtime", "embedded", QUERY, "--once"]
EXPECTED = [
    "valid_from            valid_to                     item  price  bids",
    "2026-01-01T00:08:00Z  2026-01-01T00:08:00.000001Z     1   14.0     3",
    "2026-01-01T00:12:00Z  2026-01-01T00:12:00.000001Z     2   31.5     2",
]

LIBRARIES = "import pyarrow, numpy, numba"
# As a command does: without pandas, which pyarrow would import, and without a search for garbage.
AS_A_COMMAND = (
    "from tidegate.cli.process import *; collect_garbage_later(); leave_out_pandas(); "
    "import atexit, gc; atexit.register(gc.freeze); "
)
IMPORTS = f"{AS_A_COMMAND}{LIBRARIES}; import tidegate.cli.main, tidegate.cli.queries"
GRAMMAR = f"{IMPORTS}; from tidegate.language.parse.parser import parse; parse(open({QUERY!r}).read())"
KERNEL = (
    f"{GRAMMAR}; "
    "from tidegate.physical.common.kernels.hashing import hash_columns; import pyarrow as pa; "
    "hash_columns([pa.array([1, 2], pa.int32())])"
)

COMMANDS: Mapping[str, Sequence[str]] = {
    "libraries": [sys.executable, "-c", LIBRARIES],
    "run": RUN,
    "help": [*TIDEGATE, "--help"],
    "check": [*TIDEGATE, "check", QUERY],
    "explain": [*TIDEGATE, "explain", QUERY],
    "imports": [sys.executable, "-c", IMPORTS],
    "grammar": [sys.executable, "-c", GRAMMAR],
    "kernel": [sys.executable, "-c", KERNEL],
}


class Cost(NamedTuple):
    """Seconds of a command: of processors, and of a clock."""

    processor: float
    wall: float


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of benchmarks
    printed = _run(RUN)[1]
    equal = printed.splitlines() == EXPECTED
    for name, command in COMMANDS.items():
        say(f"warming up: {name}")
        _run(command)
    costs: dict[str, list[Cost]] = {name: [] for name in COMMANDS}
    for round_ in range(5 if quick else 15):
        say(f"round {round_ + 1}")
        for name, command in COMMANDS.items():
            costs[name].append(_run(command)[0])
    processor = {name: statistics.median(cost.processor for cost in each) for name, each in costs.items()}
    # Parts are differences, for which the least disturbed runs are the best.
    least = {name: min(cost.processor for cost in each) for name, each in costs.items()}
    wall = {name: statistics.median(cost.wall for cost in each) for name, each in costs.items()}
    figures = {
        "start_vs_imports": processor["run"] / processor["libraries"],
        "help_seconds": wall["help"],
        "run_seconds": wall["run"],
        "check_seconds": wall["check"],
        "explain_seconds": wall["explain"],
        "processor_run": processor["run"],
        "processor_help": processor["help"],
        "processor_check": processor["check"],
        "processor_libraries": processor["libraries"],
        "part_imports": least["imports"] - least["libraries"],
        "part_grammar": least["grammar"] - least["imports"],
        "part_kernels": least["kernel"] - least["grammar"],
        "part_work": least["run"] - least["kernel"],
    }
    return Report("start", equal, {}, figures)


def _run(command: Sequence[str]) -> tuple[Cost, str]:
    before, began = _processor_seconds(), time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return Cost(_processor_seconds() - before, time.perf_counter() - began), done.stdout


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(measure, __doc__.splitlines()[0])

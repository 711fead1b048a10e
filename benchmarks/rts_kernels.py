"""Microseconds an element costs by each method of range thresholds, in one process, answers compared.

The static set-ups of the paper's section 8, without terminations: all queries are registered first and live
until they mature; values are uniform over the integers to 100,000 in each dimension, weights normal around
100, ranges hold a tenth of the volume and lie around the centre. Scan and stabbing, which cost the same at
every element, see as many elements as they can count in a few seconds; the others go on until all queries
have matured. One threshold in a hundred is low, so that there are answers to compare from the start.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from benchmarks._report import Report, say
from tidegate.physical.kernels.ranges.batch import BatchTracker
from tidegate.physical.kernels.ranges.model import Elements, Matured, Ranges, RangeTracker
from tidegate.physical.kernels.ranges.scan import ScanTracker
from tidegate.physical.kernels.ranges.stabbing import StabbingTracker
from tidegate.physical.kernels.ranges.tracking import DistributedTracker

DOMAIN = 100_000
BATCH = 10_000
SECONDS = {"scan": 2.0, "stabbing": 2.0, "tracking": 200.0, "batch": 200.0}
"""How long a method may count, after which it stops at the end of a piece."""

PIECES = (100, 400, 500, 1_000, 8_000)
"""The first batch is cut into these, so that slow methods can stop early; after it follow whole batches."""

Answer = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Setup:
    """So many queries with one threshold, in one dimension or two."""

    dimensions: int
    queries: int
    threshold: int

    @property
    def name(self) -> str:
        return f"d{self.dimensions}_{self.queries}"


@dataclass(frozen=True, slots=True)
class Run:
    """What a method answered for the first elements, and the processor time it took for them."""

    elements: int
    answers: list[Answer]
    build: float
    seconds: float

    @property
    def microseconds(self) -> float:
        return self.seconds / self.elements * 1e6


def queries(setup: Setup, random: np.random.Generator) -> Ranges:
    """Squares of a tenth of the volume around the centre; one in a hundred wants a thousandth of the weight."""
    m, side = setup.queries, DOMAIN * 0.1 ** (1 / setup.dimensions)
    centre = np.column_stack([_centres(m, side, random) for _ in range(setup.dimensions)])
    low = np.floor(centre - side / 2)
    closed = np.zeros(low.shape, np.bool_)
    threshold = np.full(m, setup.threshold)
    threshold[::100] = np.maximum(setup.threshold // 1_000, 1)
    return Ranges(np.arange(m), low, low + np.floor(side), closed, closed, threshold)


def _centres(m: int, side: float, random: np.random.Generator) -> np.ndarray:
    found = np.empty(0)
    while len(found) < m:
        some = random.normal(DOMAIN / 2, 0.15 * DOMAIN / 2, m)
        found = np.concatenate((found, some[(some >= side / 2) & (some <= DOMAIN - side / 2)]))
    return found[:m]


def elements(count: int, dimensions: int, random: np.random.Generator) -> Elements:
    value = random.integers(0, DOMAIN + 1, (count, dimensions)).astype(np.float64)
    return Elements(value, np.maximum(np.rint(random.normal(100, 15, count)), 1).astype(np.int64))


def pieces(count: int) -> list[slice]:
    """The elements in batches, the first of them in small pieces."""
    ends = [0, *np.cumsum(PIECES).tolist(), *range(2 * BATCH, count + 1, BATCH)]
    return [slice(begin, end) for begin, end in pairwise(ends) if end <= count]


def run(tracker: RangeTracker, ranges: Ranges, stream: Elements, patience: float) -> Run:
    """Let a method count until all queries have matured or its time is over."""
    begin = time.process_time()
    tracker = tracker.register(ranges)
    build = time.process_time() - begin
    seconds, answers, done = 0.0, [], 0
    for piece in pieces(len(stream)):
        begin = time.process_time()
        tracker, matured = tracker.absorb(stream.taken(piece))
        seconds += time.process_time() - begin
        answers += _answers(matured, piece.start)
        done = piece.stop
        if seconds > patience or len(answers) == len(ranges):
            break
    return Run(done, answers, build, seconds)


def _answers(matured: Matured, first: int) -> list[Answer]:
    columns = (matured.id.tolist(), (matured.element + first).tolist(), matured.total.tolist())
    return list(zip(*columns, strict=True))


def methods(dimensions: int) -> dict[str, Callable[[], RangeTracker]]:
    return {
        "scan": ScanTracker,
        "stabbing": StabbingTracker,
        "tracking": DistributedTracker,
        "batch": lambda: BatchTracker.empty(dimensions),
    }


def agree(runs: dict[str, Run]) -> bool:
    """Whether all methods gave the same answers, as far as each of them came."""
    longest = max(runs.values(), key=lambda each: each.elements)
    expected = [[a for a in longest.answers if a[1] < each.elements] for each in runs.values()]
    return all(each.answers == wanted for each, wanted in zip(runs.values(), expected, strict=True))


def measured(setup: Setup, most: int) -> tuple[dict[str, Run], bool]:
    random = np.random.default_rng(8)
    ranges, stream = queries(setup, random), elements(most, setup.dimensions, random)
    few = replace(ranges, threshold=np.full(setup.queries, 20_000)).taken(slice(0, 5_000))
    runs = {}
    for name, make in methods(setup.dimensions).items():
        run(make(), few, stream.taken(slice(0, 2 * BATCH)), 60.0)  # to the end: all that is ever called is compiled
        each = runs[name] = run(make(), ranges, stream, SECONDS[name])
        told = f"{len(each.answers)} answers, built in {each.build:.2f} s"
        say(f"{setup.name:<12} {name:<10} {each.microseconds:>10.3f} µs  {each.elements:>8} elements, {told}")
    return runs, agree(runs)


def setups(*, quick: bool, million: bool) -> list[Setup]:
    sizes = [10_000] if quick else [10_000, 100_000, *([1_000_000] if million else [])]
    # In two dimensions tracking keeps more than a hundred entries a query: a million would not fit.
    return [Setup(d, m, 2_000_000 if quick else 20_000_000) for d in (1, 2) for m in sizes if d == 1 or m < 1_000_000]


def measure(*, quick: bool, million: bool) -> Report:
    equal, ratios, figures = True, {}, {}
    for setup in setups(quick=quick, million=million):
        # A query gets a weight of ten an element.
        runs, agreed = measured(setup, setup.threshold // 10 // BATCH * BATCH * 5 // 4)
        equal &= agreed and any(each.answers for each in runs.values())
        for name, each in runs.items():
            figures[f"{setup.name}_{name}_nanoseconds"] = each.seconds / each.elements * 1e9
        for name in ("scan", "stabbing", "tracking"):
            ratios[f"{setup.name}_vs_{name}"] = runs[name].microseconds / runs["batch"].microseconds
    return Report("rts_kernels", equal, ratios, figures)


def main() -> None:
    parser = argparse.ArgumentParser(description="Range thresholds: all methods in one process")
    parser.add_argument("--quick", action="store_true", help="a smaller run that ends within a minute")
    parser.add_argument("--million", action="store_true", help="a million queries in one dimension, too")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    arguments = parser.parse_args()
    report = measure(quick=arguments.quick, million=arguments.million)
    print(report.as_json() if arguments.json else report.as_table())
    sys.exit(0 if report.equal else 1)


if __name__ == "__main__":
    main()

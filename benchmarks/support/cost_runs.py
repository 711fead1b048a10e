"""Runs that compare the estimates of operators with what they keep and how long they take.

Each run fills its windows first. Then follows a span in which selectivities and numbers of groups are learnt, and
prices are scaled to the run, by kind of operator. The estimates made of that are compared with the next span. They are
estimates by the middle of it: windows that are longer than the run so far are not full.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter

import pyarrow as pa

from tidegate.costs.estimates import Prices
from tidegate.runtime.calibration.measured_run import MeasuredRun
from tidegate.runtime.costs.estimate import estimate_graph, in_running_order
from tidegate.runtime.costs.knowledge import Knowledge, Place
from tidegate.runtime.costs.learn import RunSpan, learn, measure_work
from tidegate.runtime.costs.prices import scale_prices
from tidegate.runtime.stage import FromStage
from tidegate.runtime.stage_graph import StageGraph
from tidegate.runtime.state import sizes_of_operators

FEWEST_ROWS = 50.0
"""Rows of a state, on average, below which an estimate of it is not judged: one row more or less is chance."""

RowsOfStep = Callable[[int], Mapping[str, pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Steps:
    """Numbers of steps to fill windows, to learn from, and to compare with."""

    filling: int
    learning: int
    comparing: int


@dataclass(slots=True)
class Errors:
    """Relative errors of estimates: of the bytes of each state, and of the seconds of each operator; by plan level."""

    memory: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    processor: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    kinds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Signed errors of memory, by class of operator."""
    work: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Signed errors of processor time, by class of operator."""
    totals: list[tuple[str, float, float]] = field(default_factory=list)
    """For each run, its name and the signed relative errors of all memory and of all processor time."""
    operators: int = 0
    estimating: float = 0.0
    """Longest time of an estimate of a graph, in seconds."""

    def flat(self, which: Mapping[int, list[float]]) -> list[float]:
        return [abs(error) for errors in which.values() for error in errors]


def compare(  # noqa: PLR0917
    name: str, run: MeasuredRun, rows_of: RowsOfStep, steps: Steps, prices: Mapping[str, Prices], errors: Errors
) -> None:
    """Run a program, and add the errors of its estimates."""
    graph = run.job.graph
    gc.collect()
    gc.freeze()  # as the service does when it starts: pauses would count for operators by chance
    for number in range(steps.filling):
        run.step(rows_of(number))
    learning = run.sample()
    for number in range(steps.filling, steps.filling + steps.learning):
        run.step(rows_of(number))
    span = run.span_since(learning)
    step = span.time / span.steps
    # States are sampled at the ends of steps.
    elapsed = step * (steps.filling + (steps.learning + 1) / 2)
    known = replace(
        _learn_run(run, span, prices, elapsed),
        elapsed=step * (steps.filling + steps.learning + (steps.comparing + 1) / 2),
    )
    began = perf_counter()
    estimates = estimate_graph(graph, known)
    errors.estimating = max(errors.estimating, perf_counter() - began)
    comparing, sizes, rows = run.sample(), defaultdict[Place, float](float), defaultdict[Place, float](float)
    for number in range(steps.filling + steps.learning, steps.filling + steps.learning + steps.comparing):
        run.step(rows_of(number))
        for place, size in sizes_of_operators(run.engine.state_sizes()).items():
            sizes[place] += size.bytes / steps.comparing
            rows[place] += size.rows / steps.comparing
    span, levels = run.span_since(comparing), find_levels(graph)
    for place, estimate in estimates.items():
        operator = graph.by_number[place[0]].nodes[place[1]].operator
        if rows[place] >= FEWEST_ROWS:
            error = estimate.bytes / sizes[place] - 1.0
            errors.memory[levels[place]].append(error)
            errors.kinds[type(operator).__name__].append(error)
        if (seconds := span.seconds_of(place)) > 0 and estimate.seconds > 0:
            errors.processor[levels[place]].append(estimate.seconds / seconds - 1.0)
            errors.work[type(operator).__name__].append(estimate.seconds / seconds - 1.0)
    errors.operators += len(estimates)
    spent = sum(span.seconds_of(place) for place in estimates)
    errors.totals.append(
        (
            name,
            sum(each.bytes for each in estimates.values()) / max(sum(sizes.values()), 1.0) - 1.0,
            sum(each.seconds for each in estimates.values()) / spent - 1.0,
        )
    )


def _learn_run(run: MeasuredRun, span: RunSpan, prices: Mapping[str, Prices], elapsed: float) -> Knowledge:
    """Return what a run teaches without the errors of single operators: neither bytes of rows nor their own factors."""
    learnt = learn(run.job.graph, replace(run.know(), prices=prices, elapsed=elapsed), span, {})
    operators = {place: replace(each, row_bytes=None) for place, each in learnt.operators.items()}
    known = replace(learnt, operators=operators, factors={})
    return replace(known, prices=scale_prices(prices, measure_work(run.job.graph, known, span)))


def find_levels(graph: StageGraph) -> dict[Place, int]:
    """Return for each operator how many operators with state lie at most on a way to a source, itself included."""
    levels: dict[Place, int] = {}
    of_stage: dict[int, int] = {}
    for stage in in_running_order(graph):
        below = [
            max((of_stage[feed.stage] for feed in [each] if isinstance(feed, FromStage)), default=0)
            for each in stage.feeds
        ]
        places = list(below)
        for number, (operator, inputs) in enumerate(stage.numbered_operators):
            level = max((places[each] for each in inputs), default=0) + (operator.partition_keys is not None)
            places.append(level)
            levels[stage.number, number] = level
        of_stage[stage.number] = max(places, default=0)
    return levels

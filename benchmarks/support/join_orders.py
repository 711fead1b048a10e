"""Orders of joins: the order that the cost model chooses, compared with all orders, each of them run and timed.

The joins are random: chains, stars and cycles of 3 to 6 streams with rates, windows and selectivities of their own. A
run in the written order shows rates and selectivities. The order that follows from them is then timed like all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import process_time
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.support.report import say
from tidegate.algebra.constraints import ConstraintSettings
from tidegate.algebra.plan import Plan
from tidegate.algebra.similarity_join import Shedding
from tidegate.language.bind.program import bind
from tidegate.optimizer.advice import NO_ADVICE, PlanAdvice
from tidegate.optimizer.join_estimates import JoinEstimates, splits
from tidegate.optimizer.join_order import JoinTree, best_tree
from tidegate.optimizer.optimize import optimize
from tidegate.runtime import compile as compiling
from tidegate.runtime.calibration.measured_run import MeasuredRun
from tidegate.runtime.costs.join_statistics import count_matches_of_joins, inputs_of_joins, selectivities_of_joins
from tidegate.runtime.costs.learn import learn

SECOND = 1_000_000
MOST_VALID = 200_000.0
"""Largest number of valid results of any join in any order: larger ones would run for hours."""


BEST, ROUNDS = 4, 3
"""How many of the best orders are timed again, and how often."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many joins are tried, of how many streams at most, and the steps of a run."""

    joins: int
    streams: int
    filling: int = 4
    measured: int = 4


FULL, QUICK = Size(joins=20, streams=6), Size(joins=4, streams=4)


@dataclass(frozen=True, slots=True)
class RandomJoin:
    """A join query, with what its rows are made of: rows a second, and the number of values of each link's column."""

    shape: str
    rates: tuple[float, ...]
    windows: tuple[int, ...]
    links: tuple[tuple[int, int], ...]
    values: tuple[int, ...]

    def text(self) -> str:
        columns = "".join(f"c{link} INT, " for link in range(len(self.links)))
        streams = "".join(
            f"CREATE STREAM s{n} ({columns}at BIGINT) FROM 's{n}.csv' TIMESTAMP BY at;\n"
            for n in range(len(self.rates))
        )
        inputs = ", ".join(f"s{n} WINDOW(RANGE {size} SECONDS)" for n, size in enumerate(self.windows))
        terms = " AND ".join(f"s{one}.c{link} = s{two}.c{link}" for link, (one, two) in enumerate(self.links))
        selected = ", ".join(f"s{n}.at AS t{n}" for n in range(len(self.rates)))
        return f"{streams}SELECT {selected} FROM {inputs} WHERE {terms}"

    def rows_of(self, step: int) -> Mapping[str, pa.RecordBatch]:
        """Return the rows of a step of one second."""
        random = np.random.default_rng([step, len(self.links)])
        found = {}
        for number, rate in enumerate(self.rates):
            count = max(1, random.poisson(rate))
            columns = {
                f"c{link}": random.integers(0, self.values[link], count, np.int32) for link in range(len(self.links))
            }
            at = np.sort(random.integers(step * SECOND, (step + 1) * SECOND, count))
            found[f"s{number}"] = pa.record_batch({**columns, "at": at})
        return found

    def largest_result(self) -> float:
        """Return the largest number of valid results of connected inputs."""
        count, largest = len(self.rates), 0.0
        for some in range(1, 1 << count):
            valid = np.prod([self.rates[n] * self.windows[n] for n in range(count) if some >> n & 1])
            within = [v for (a, b), v in zip(self.links, self.values, strict=True) if some >> a & some >> b & 1]
            if len(within) >= some.bit_count() - 1:
                largest = max(largest, float(valid / np.prod([1.0, *within])))
        return largest


def draw_join(random: np.random.Generator, most_streams: int) -> RandomJoin:
    """Return a random join whose results fit."""
    while True:
        count = int(random.integers(3, most_streams + 1))
        shape = str(random.choice(["chain", "star", "cycle"]))
        links = [(n, n + 1) for n in range(count - 1)] if shape != "star" else [(0, n) for n in range(1, count)]
        links += [(0, count - 1)] if shape == "cycle" else []
        found = RandomJoin(
            shape,
            tuple(float(r) for r in np.exp(random.uniform(np.log(500), np.log(20_000), count))),
            tuple(int(w) for w in random.integers(1, 4, count)),
            tuple(links),
            tuple(int(v) for v in np.exp(random.uniform(np.log(30), np.log(100_000), len(links)))),
        )
        if found.largest_result() <= MOST_VALID:
            return found


def measure_join_orders(size: Size, seed: int = 7) -> list[float]:
    """Return for each join the time of the chosen order, relative to that of the best of all orders."""
    random, found = np.random.default_rng(seed), []
    for _ in range(size.joins):
        join = draw_join(random, size.streams)
        found.append(_measure_join(join, size))
    return found


def _measure_join(join: RandomJoin, size: Size) -> float:
    advice = _learn_advice(join, size)
    with _choosing() as chosen:
        optimize(bind(join.text()).queries[0].plan, advice=advice)
    estimates, tree = chosen[-1]
    trees = list(connected_trees(estimates))
    seconds = [_time_tree(join, advice, each, size) for each in trees]
    worst, own = max(seconds), _time_tree(join, advice, tree, size)
    # The best ones and the chosen one again, in turns: of many, some are the best by chance.
    close = sorted(range(len(trees)), key=seconds.__getitem__)[:BEST]
    for _ in range(ROUNDS):
        for at in close:
            seconds[at] = min(seconds[at], _time_tree(join, advice, trees[at], size))
        own = min(own, _time_tree(join, advice, tree, size))
    best = min(own, *(seconds[at] for at in close))
    say(
        f"  {join.shape:<6} of {len(join.rates)}: {len(trees):>4} orders, chosen {own / best:.2f} times the best, "
        f"worst {worst / best:.1f} times"
    )
    return own / best


def _learn_advice(join: RandomJoin, size: Size) -> PlanAdvice:
    """Run the written order, and return what it has shown."""
    run = MeasuredRun(join.text())
    for step in range(size.filling):
        run.step(join.rows_of(step))
    before = run.sample()
    for step in range(size.filling, size.filling + size.measured):
        run.step(join.rows_of(step))
    span = run.span_since(before)
    graph = run.job.graph
    states = {number: [version.chunks] for (number, _), version in run.engine.state.items()}
    counts = count_matches_of_joins(graph, states)
    known = learn(graph, run.know(), span, {})
    found = selectivities_of_joins(graph, known, counts)
    inputs = inputs_of_joins(graph, known)
    return PlanAdvice(rows=dict(span.rows), span=round(span.time), selectivities=found, inputs=inputs)


def _time_tree(join: RandomJoin, advice: PlanAdvice, tree: JoinTree, size: Size) -> float:
    """Return the processor seconds of some steps in an order of joins."""

    def optimized(
        plan: Plan, settings: ConstraintSettings, shedding: Shedding, _: PlanAdvice = NO_ADVICE
    ) -> tuple[Plan, tuple[str, ...]]:
        with patch("tidegate.optimizer.join_order.best_tree", lambda _: tree):
            return optimize(plan, settings, shedding, advice)

    with patch.object(compiling, "optimize", optimized):
        run = MeasuredRun(join.text())
    for step in range(size.filling):
        run.step(join.rows_of(step))
    rows = [join.rows_of(step) for step in range(size.filling, size.filling + size.measured)]
    began = process_time()
    for each in rows:
        run.step(each)
    return process_time() - began


@contextmanager
def _choosing() -> Iterator[list[tuple[JoinEstimates, JoinTree]]]:
    """Collect the estimates and trees of all choices of orders."""
    found: list[tuple[JoinEstimates, JoinTree]] = []

    def choose(estimates: JoinEstimates) -> JoinTree:
        found.append((estimates, best_tree(estimates)))
        return found[-1][1]

    with patch("tidegate.optimizer.join_order.best_tree", choose):
        yield found


def connected_trees(estimates: JoinEstimates) -> Iterator[JoinTree]:
    """Yield all trees in which every join has a condition; their cost is below that of any written tree."""

    def trees_of(some: int) -> Sequence[JoinTree]:
        if some & (some - 1) == 0:
            return [JoinTree(some, 0.0)]
        pairs = [pair for pair in splits(some) if estimates.is_linked(*pair)]
        return [JoinTree(some, -1.0, (one, two)) for a, b in pairs for one in trees_of(a) for two in trees_of(b)]

    yield from trees_of((1 << len(estimates.inputs)) - 1)

"""Cost model: estimates of memory and processor time against measurements, for each operator and by plan level.

The query mix of Table 24.1 of the dissertation runs as one graph, and NEXMark's queries each by itself, embedded.
Relative errors: |estimate / measurement - 1|. A state is measured as its average over the steps of a span, the time of
an operator as its sum over them. Estimates know the selectivities and the numbers of groups of an earlier span.

Random joins then run in every order. The order that the cost model chooses is compared with the best one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.support import join_orders
from benchmarks.support.cost_queries import MINUTE, Mix, MixWriter
from benchmarks.support.cost_runs import Errors, Steps, compare
from benchmarks.support.join_orders import measure_join_orders
from benchmarks.support.report import Report, main, say
from examples.nexmark import generate
from tidegate.costs.estimates import Prices
from tidegate.runtime.calibration.calibrate import ROWS, calibrate
from tidegate.runtime.calibration.measured_run import MeasuredRun
from tidegate.runtime.costs.prices import fit_prices

EXAMPLES = Path(generate.__file__).parent
NEXMARK = ("q3", "q4", "q5", "q6", "q7", "q8")
"""Queries with state."""

NEXMARK_STEP = 1_000_000
"""Microseconds of a step of NEXMark's queries."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a run."""

    queries: int
    longest: int
    step: int
    mix: Steps
    nexmark: Steps
    rows: tuple[int, ...]
    """Rows of the steps of the calibration."""


FULL = Size(1_000, 10 * MINUTE, 15_000_000, Steps(60, 30, 30), Steps(40, 20, 20), ROWS)
QUICK = Size(40, 3 * MINUTE, 10_000_000, Steps(24, 24, 24), Steps(16, 8, 8), ROWS[:3])
"""Spans are longer than the longest window: otherwise, what is kept in one of them depends on chance in another."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Size of the mix, if another one than usual is wanted, and the seed of its queries and rows."""

    queries: int | None = None
    seed: int = Mix(1).seed


USUAL_CHOICE = Choice()


def measure(quick: bool, choice: Choice = USUAL_CHOICE) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    size = QUICK if quick else FULL
    say("calibrating")
    prices = fit_prices(each for _, found in calibrate(size.rows) for each in found)
    errors = Errors()
    _run_mix(size, Mix(choice.queries or size.queries, longest=size.longest, seed=choice.seed), prices, errors)
    for name in NEXMARK:
        _run_nexmark(name, size, prices, errors)
    say("orders of joins")
    orders = measure_join_orders(join_orders.QUICK if quick else join_orders.FULL)
    return report(errors, max(orders))


def _run_mix(size: Size, mix: Mix, prices: Mapping[str, Prices], errors: Errors) -> None:
    say(f"{mix.queries} queries of Table 24.1")
    writer = MixWriter(mix)
    run = MeasuredRun(writer.streams() + ";\n".join(writer.queries()))
    begin = 1_000 * MINUTE
    compare(
        "mix",
        run,
        lambda number: writer.rows(begin + number * size.step, begin + (number + 1) * size.step),
        size.mix,
        prices,
        errors,
    )


def _run_nexmark(name: str, size: Size, prices: Mapping[str, Prices], errors: Errors) -> None:
    say(f"NEXMark {name}")
    steps = size.nexmark
    scale = generate.Scale((steps.filling + steps.learning + steps.comparing) * 2_000, per_second=2_000)
    tables = {kind: generate.events(kind, scale) for kind in generate.OF_FIFTY}

    def rows_of(number: int) -> dict[str, pa.RecordBatch]:
        begin = generate.BEGIN + number * NEXMARK_STEP
        found = {}
        for kind, table in tables.items():
            first, last = np.searchsorted(table["ts_us"].to_numpy(), [begin, begin + NEXMARK_STEP])
            found[kind] = table.slice(first, last - first).combine_chunks().to_batches()[0]
        return {**found, "closed_auction": found["auction"]}

    compare(name, MeasuredRun((EXAMPLES / f"{name}.sql").read_text()), rows_of, steps, prices, errors)


def report(errors: Errors, worst_order: float) -> Report:
    """Return the figures; its ratios are errors, and the worst order of joins relative to the best of all orders."""
    figures = {}
    for name, which in (("memory", errors.memory), ("cpu", errors.processor)):
        found = errors.flat(which)
        figures[f"{name}_error_median"] = float(np.median(found))
        figures[f"{name}_error_p95"] = float(np.percentile(found, 95))
        for level, each in sorted(which.items()):
            figures[f"{name}_error_median_level_{level}"] = float(np.median(np.abs(each)))
            figures[f"{name}_operators_level_{level}"] = len(each)
    for name, kinds in (("memory", errors.kinds), ("processor", errors.work)):
        for kind, each in sorted(kinds.items()):
            low, middle, high = np.percentile(each, [5, 50, 95])
            say(f"  {name} of {kind:<24} {len(each):>6} operators, {middle:+.3f} ({low:+.3f} to {high:+.3f})")
    for name, memory, processor in errors.totals:
        figures[f"{name}_memory_error"], figures[f"{name}_cpu_error"] = memory, processor
    figures["operators"], figures["estimate_ms"] = errors.operators, 1000 * errors.estimating
    ratios = {name: each for name, each in figures.items() if name.startswith(("memory_error", "cpu_error"))}
    ratios["join_order_vs_best_worst"] = worst_order
    return Report("costs", True, ratios, figures)  # noqa: FBT003 - no results are compared


def _take_choice() -> Choice:
    """Take the options --queries and --seed of the mix from the command line."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--queries", type=int)
    parser.add_argument("--seed", type=int, default=Choice().seed)
    given, sys.argv[1:] = parser.parse_known_args()
    return Choice(given.queries, given.seed)


if __name__ == "__main__":
    chosen = _take_choice()
    options = "--queries N chooses the size of the mix, up to 5,000; --seed N another mix."
    main(lambda quick: measure(quick, chosen), f"{__doc__}\n{options}")

"""What is asked of the join that sheds: shares of the whole join's results under the same budgets of comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np

from benchmarks.support import shedding_paper as paper
from benchmarks.support import shedding_tuples as tuples
from benchmarks.support.report import say
from benchmarks.support.shedding_data import Workload, batches
from benchmarks.support.shedding_runs import Run, Way, dropped, full, knowing, shed
from tidegate.physical.common.arrays import Floats
from tidegate.physical.similarity_join.kernels.matching import Method

WINDOW = 20
"""Seconds of a window: results count from when windows are full."""

SETTLED = 3 * WINDOW
"""The paper's fractions begin with 1 and take ten periods of five seconds to settle."""

ENOUGH = 0.05
"""With a filter, larger budgets are enough for everything."""

LATE, AT_ONCE = 25.0, 0.0
"""Seconds by which the second stream follows: the peak lies late, or at once."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a run is."""

    seconds: int
    seeds: tuple[int, ...]
    grid: tuple[tuple[float, float, float], ...]
    """Shift, skew and budget of what is compared with everything else."""
    cases: int
    """Of the linear program."""
    many: tuple[int, ...]
    """Seeds where results of single ones are far apart."""


FULL = Scale(
    160,
    (1, 2, 3),
    (
        *((LATE, 0.6, budget) for budget in (0.02, 0.05, 0.10, 0.25, 0.50)),
        *((LATE, 0.8, budget) for budget in (0.02, 0.05, 0.10, 0.25)),
        *((LATE, 1.0, budget) for budget in (0.05, 0.10)),
        (AT_ONCE, 0.6, 0.05),
        *((AT_ONCE, 0.8, budget) for budget in (0.05, 0.25)),
    ),
    200,
    tuple(range(1, 17)),
)
QUICK = Scale(90, (1,), ((LATE, 0.6, 0.05), (LATE, 0.8, 0.05), (AT_ONCE, 0.8, 0.05)), 50, (1,))

HEAD = f"{'shift':>5} {'skew':>5} {'budget':>6}" + "".join(
    f"{name:>10}" for name in ("random", "rate", "+ time", "+ directn", "ours", "knowing", "estimate", "filtered")
)

Shares = dict[str, float]
"""Shares of the whole join's results by method."""


def grid(scale: Scale) -> dict[tuple[float, float, float], Shares]:
    """For each set-up of the grid the shares, on average over seeds where the budget is the one that is asked for."""
    say(HEAD)
    found = {}
    for shift, skew, budget in scale.grid:
        seeds = scale.seeds if budget == 0.05 else scale.seeds[:1]
        each = [_shares(Workload(skew, shift, seconds=scale.seconds, seed=seed), budget) for seed in seeds]
        mean = {name: float(np.mean([shares[name] for shares in each])) for name in each[0]}
        found[shift, skew, budget] = mean
        say(f"{shift:>5g} {skew:>5g} {budget:>6g}" + "".join(f"{mean.get(name, 1.0):>10.3f}" for name in _SHOWN))
    return found


_SHOWN = ("random", "rate", "time", "direction", "ours", "knowing", "estimate", "filtered")


def _shares(load: Workload, budget: float) -> Shares:
    whole = full(load, Way())
    budgets = budget * whole.volume
    ours = shed(load, Way(), budgets)
    best = knowing(load, Way(), budgets)
    capacity = budget * capacity_for_all(load)
    steps = {name: tuples.run(load, capacity, adapts) for name, adapts in _TUPLES.items()}
    everything = whole.found[SETTLED:].sum()
    return {
        "random": dropped(load, Way(), budget).share_of(whole, WINDOW),
        **{name: float(trace.matches[SETTLED : load.seconds].sum() / everything) for name, trace in steps.items()},
        "ours": ours.share_of(whole, WINDOW),
        "knowing": best.share_of(whole, WINDOW),
        "estimate": float(ours.estimated[WINDOW:].mean()),
        "used": float(ours.units.sum() / budgets.sum()),
        **(_filtered(load, whole, budgets) if budget <= ENOUGH else {}),
    }


def _filtered(load: Workload, whole: Run, budgets: Floats) -> Shares:
    ours = shed(load, Way(method=Method.FILTERED), budgets)
    return {
        "filtered": ours.share_of(whole, WINDOW),
        "used_filtered": float(ours.units.sum() / budgets.sum()),
    }


_TUPLES = {"rate": tuples.RATE, "time": tuples.TIME, "direction": tuples.DIRECTION}


def capacity_for_all(load: Workload) -> float:
    """Comparisons a second of the whole join, at a steady rate."""
    rate = load.rates[0][1]
    return rate * rate * sum(load.windows)


PRINTED = {(0.6, "time"): 0.073, (0.6, "direction"): 0.090, (0.8, "time"): 0.151, (0.8, "direction"): 0.221}
"""What the specification's simulation of the paper's algorithms found: means of three seeds."""


def printed(scale: Scale) -> dict[str, float]:
    """Shares of the paper's algorithms at 5 %: means over many seeds, and their standard errors."""
    figures: dict[str, float] = {}
    for (skew, name), expected in PRINTED.items():
        each = [_printed(Workload(skew, LATE, seconds=scale.seconds, seed=seed), _TUPLES[name]) for seed in scale.many]
        mean, error = float(np.mean(each)), float(np.std(each) / np.sqrt(len(each)))
        figures |= {f"printed_zipf{skew:g}_{name}": mean, f"printed_zipf{skew:g}_{name}_error": error}
        say(f"the paper's algorithms, skew {skew:g}, + {name:<10} {mean:.4f} ± {error:.4f} (specification {expected})")
    return figures


def _printed(load: Workload, adapts: int) -> float:
    whole, ours = (
        tuples.run(load, share * capacity_for_all(load), how).matches[SETTLED : load.seconds].sum()
        for share, how in ((np.inf, tuples.DROP), (0.05, adapts))
    )
    return float(ours / whole)


def volumes(load: Workload, way: Way) -> Floats:
    """Comparisons of the whole join in each batch."""
    return shed(load, way, np.zeros(len(batches(load)))).volume


def recovery(scale: Scale) -> tuple[float, float]:
    """Batches after a change of the better direction until 90 % of the new optimum, and the share of it after 30.

    It is the longest of all seeds. It counts from the change itself: for a window's length, old and new elements
    meet, and where most will match in the end, new ones meet after three quarters of a window.
    """
    waits, after = [], []
    for seed in scale.many[:10]:
        load = Workload(0.8, seconds=170, seed=seed, swap=100.0)
        budgets = 0.05 * full(load, Way()).volume
        ours, best = shed(load, Way(), budgets), knowing(load, Way(), budgets, since=100 + WINDOW + 1)
        means = [_mean(ours, n) / max(1.0, _mean(best, n)) for n in range(100, 165)]
        good = [n for n in range(WINDOW // 2, len(means)) if min(means[n : n + 5]) >= 0.9]
        waits.append(float(good[0]) if good else float("inf"))
        after.append(float(ours.found[130:].sum() / best.found[130:].sum()))
    return float(np.max(waits)), float(np.mean(after))


def _mean(run: Run, batch: int) -> float:
    return float(run.found[batch : batch + 5].mean())


def optimal_cases(count: int) -> float:
    """The share of random cases in which Algorithm 5 finds the optimum of the linear program."""
    random, right = Random(1), 0
    for _ in range(count):
        given, items = paper.random_case(random)
        counts, windows, rates, shares, worth, densities, fraction = given
        budget = rates[0] * rates[1] * fraction * sum(windows)
        values, sizes = zip(*items, strict=True)
        best = paper.best_by_vertices(values, sizes, budget)
        found = paper.utility_adapted(*given)
        reached = paper.utility_of(counts, windows, rates, shares, worth, densities, found)
        right += abs(reached - best) <= 1e-9 * max(1.0, best)
    return right / count


def exact(scale: Scale) -> bool:
    """Whether all methods, without a budget, find as many results as element by element, and never others."""
    load = Workload(0.8, seconds=min(60, scale.seconds), rates=((float("inf"), 100.0),))
    reference = tuples.run(load, float("inf"), tuples.DROP).matches.sum()
    wholes = [full(load, Way(method=method)) for method in Method]
    some = shed(load, Way(), 0.05 * wholes[0].volume)
    return all(
        whole.found.sum() == reference and np.array_equal(whole.checks, wholes[0].checks) for whole in wholes
    ) and bool(np.all(some.found <= wholes[0].found))

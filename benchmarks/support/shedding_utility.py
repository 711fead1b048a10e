"""The paper's Figures 14 to 17: basic windows, indexes, and utilities."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from benchmarks.support import shedding_tuples as tuples
from benchmarks.support.shedding_bench import LATE, WINDOW, capacity_for_all, volumes
from benchmarks.support.shedding_data import Workload
from benchmarks.support.shedding_figures import COMPARISONS, POSTINGS, Sizes
from benchmarks.support.shedding_pictures import Panel, Picture
from benchmarks.support.shedding_runs import Way, dropped, full, shed
from tidegate.physical.similarity_join.kernels.conditions import Equal, Overlap
from tidegate.physical.similarity_join.kernels.matching import Method

LOOKUPS = (0, 2, 8)
"""What finding a list may cost, in entries of lists."""


def figure14(sizes: Sizes) -> Picture:
    """The share of results by the width of slots, at a budget of 10 %."""
    widths = list(sizes.widths)
    left: dict[str, list[float]] = {}
    for skew in sizes.skews[-3:]:
        load = Workload(skew, LATE, seconds=sizes.seconds)
        whole = full(load, Way())
        left[f"skew {skew:g}"] = [
            shed(load, Way(width=width), 0.1 * whole.volume).share_of(whole, 2 * WINDOW) for width in widths
        ]
        newest = tuples.run(load, 0.1 * capacity_for_all(load), tuples.RATE).matches[2 * WINDOW : load.seconds].sum()
        left[f"none, {skew:g}"] = [float(newest / whole.found[2 * WINDOW :].sum())] * len(widths)
    load = Workload(0.8, LATE, seconds=sizes.seconds)
    whole = full(load, Way(method=Method.INDEXED))
    right = {
        f"a lookup costs {lookup}": [
            shed(load, Way(method=Method.INDEXED, width=width, lookup=lookup), 0.1 * whole.units).share_of(
                whole, 2 * WINDOW
            )
            for width in widths
        ]
        for lookup in LOOKUPS
    }
    right["sorted by identifier"] = [dropped(load, Way(method=Method.INDEXED), 0.1).share_of(whole, 2 * WINDOW)] * len(
        widths
    )
    words = "width of slots, seconds"
    return Picture(
        "figure14",
        "Figure 14: basic windows, budget 10 %",
        [
            Panel("non-indexed", words, widths, left, "share of the whole join's results"),
            Panel("indexed, skew 0.8", words, widths, right, "share of the whole join's results"),
        ],
        "Windows are of 20 s in both halves; the paper's indexed ones are of 200 s. Lists that are sorted by\n"
        "identifier cannot be read in part by time: what is left is dropping input.",
    )


def figure15(sizes: Sizes) -> tuple[Picture, dict[str, float]]:
    """How many times the output of dropping, by rate, with and without indexes."""
    rates = list(sizes.rates)
    values = {
        "overlap, non-indexed": [_plain(rate, Workload(0.8, LATE), Way()) for rate in rates],
        "equality, non-indexed": [_plain(rate, _single(), Way(Overlap(1))) for rate in rates],
        "overlap, indexed": [_indexed(rate, sizes.longest) for rate in rates],
        "equality, indexed": [_hashed(rate) for rate in rates],
    }
    panel = Panel("skew 0.8", "elements a second", rates, values, "times the output of dropping")
    note = (
        f"A machine of {COMPARISONS:,.0f} comparisons, or {POSTINGS:,.0f} entries of lists, a second. Windows are of\n"
        f"20 s; those of indexed overlap joins of {sizes.longest:g} s, with slots of a fiftieth."
    )
    best = {name.replace(", ", "_").replace("-", "_"): max(found) for name, found in values.items()}
    return Picture("figure15", "Figure 15: all adaptations against dropping", [panel], note), best


def _single() -> Workload:
    return Workload(0.8, LATE, items=5000, mean=1.0, deviation=0.0)


def _at(rate: float, load: Workload, seconds: int) -> Workload:
    return replace(load, rates=((math.inf, float(rate)),), seconds=seconds)


def _plain(rate: float, load: Workload, way: Way) -> float:
    load = _at(rate, load, 80)
    volume = volumes(load, way)
    share = min(1.0, COMPARISONS / capacity_for_all(load))
    ours = shed(load, way, np.minimum(volume, COMPARISONS)).found[2 * WINDOW :].sum()
    return float(ours / dropped(load, way, share).found[2 * WINDOW :].sum())


def _indexed(rate: float, window: float) -> float:
    load = Workload(0.8, 1.25 * window, cycle=2 * window, windows=(window, window))
    load = _at(rate, load, round(2 * window))
    since = round(1.2 * window)
    drop = tuples.run(load, POSTINGS, tuples.DROP, indexed=True).matches[since : load.seconds].sum()
    way = Way(method=Method.INDEXED, width=window / 50)
    return float(shed(load, way, np.full(load.seconds, POSTINGS)).found[since:].sum() / drop)


def _hashed(rate: float) -> float:
    """Lists of single values hold matches only, so each entry is worth the same."""
    load, way = _at(rate, _single(), 80), Way(Equal(), Method.INDEXED)
    whole = full(load, way)
    ours = shed(load, way, 0.1 * whole.units)
    used = float(ours.units[2 * WINDOW :].sum() / whole.units[2 * WINDOW :].sum())
    return ours.share_of(whole, 2 * WINDOW) / used


def figure16(sizes: Sizes) -> tuple[Picture, dict[str, float]]:
    """How much more utility if kinds count, by the skew of utilities and how frequent kinds are."""
    powers, values = list(sizes.powers), {}
    for name, sign in (("uniform", 0.0), ("inverse", -1.0), ("direct", 1.0)):
        values[name] = [_utility_gain(tuple(k**-power for k in (1, 2, 3)), sign, sizes, seeds=2) for power in powers]
    panel = Panel("three kinds, budget 5 %", "skew of utilities", powers, values, "times the utility without kinds")
    gains = {
        f"{name}_{power:g}": gain for name, found in values.items() for power, gain in zip(powers, found, strict=True)
    }
    return Picture("figure16", "Figure 16: utility by skew and frequencies of kinds", [panel]), gains


def figure17(sizes: Sizes) -> Picture:
    """The same by the number of kinds, which are the rarer the more useful."""
    kinds, values = list(sizes.kinds), {}
    for factor in (5.0, 20.0):
        values[f"best is worth {factor:g} times the worst"] = [
            _utility_gain(
                tuple((n + 1) ** -(math.log(factor) / math.log(count)) for n in range(count)), -1.0, sizes, seeds=1
            )
            for count in kinds
        ]
    panel = Panel("inverse frequencies, budget 5 %", "kinds", kinds, values, "times the utility without kinds")
    return Picture("figure17", "Figure 17: utility by the number of kinds", [panel])


def _utility_gain(utilities: tuple[float, ...], sign: float, sizes: Sizes, seeds: int) -> float:
    """With frequencies that are this power of utilities."""
    way, gains = Way(utilities=utilities), []
    for seed in sizes.seeds[:seeds]:
        load = Workload(
            0.8,
            LATE,
            ((math.inf, 500.0),),
            min(sizes.seconds, 90),
            seed,
            frequencies=tuple(value**sign for value in utilities),
        )
        budgets = 0.05 * volumes(load, replace(way, blind=True))
        aware, blind = (shed(load, replace(way, blind=each), budgets).utility[WINDOW:].sum() for each in (False, True))
        gains.append(aware / blind)
    return float(np.mean(gains))

"""The paper's Figures 7 to 13: where shedding is needed, and what each adaptation yields."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.support import shedding_tuples as tuples
from benchmarks.support.shedding_bench import AT_ONCE, LATE, WINDOW, capacity_for_all, volumes
from benchmarks.support.shedding_data import BURST, Workload
from benchmarks.support.shedding_pictures import Panel, Picture
from benchmarks.support.shedding_runs import Way, full, shed
from tidegate.physical.common.arrays import Floats
from tidegate.physical.similarity_join.kernels.conditions import Overlap

COMPARISONS, POSTINGS = 156_250.0, 1_760_000.0
"""What the paper's machine does in a second, by what its Figure 7 says: comparisons, or entries of lists."""

BURSTS = {"500 a second": slice(62, 75), "300 a second": slice(80, 105)}
"""Seconds of Figure 8's profile."""

NEVER = 1e-3
"""A window, in seconds, that holds next to nothing."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the runs of pictures are."""

    seeds: tuple[int, ...]
    skews: tuple[float, ...]
    windows: tuple[float, ...]
    seconds: int
    longest: float
    """Seconds of the longest window of indexed joins."""
    kinds: tuple[int, ...]
    powers: tuple[float, ...]
    widths: tuple[float, ...]
    rates: tuple[int, ...]


LARGE = Sizes(
    (1, 2, 3),
    (0.2, 0.4, 0.6, 0.8, 1.0),
    (10.0, 20.0, 40.0),
    120,
    200.0,
    (2, 3, 5, 10, 20),
    (0.0, 1.0, 2.0, 3.0),
    (0.25, 0.5, 1.0, 2.0, 5.0, 10.0),
    (100, 200, 300, 400, 500),
)
SMALL = Sizes((1,), (0.6, 0.8), (10.0, 20.0), 60, 50.0, (2, 5), (0.0, 2.0), (1.0, 5.0), (300, 500))


def figure7() -> Picture:
    """Which part of the input is dropped if nothing adapts."""
    panels = []
    for indexed, words in ((False, "non-indexed"), (True, "indexed")):
        windows = [5 * w if indexed else w for w in (25.0, 50.0, 75.0, 100.0, 125.0)]
        capacity = POSTINGS if indexed else COMPARISONS
        values = {
            f"{rate} a second": [_drop_rate(rate, w, capacity, indexed=indexed) for w in windows]
            for rate in (50, 75, 100)
        }
        panels.append(Panel(words, "window, seconds", windows, values, "drop rates of both streams, sum"))
    return Picture("figure7", "Figure 7: input dropped without adaptation", panels)


def _drop_rate(rate: float, window: float, capacity: float, *, indexed: bool) -> float:
    load = Workload(
        0.6, 1.25 * window, ((math.inf, rate),), round(2.5 * window), cycle=2 * window, windows=(window, window)
    )
    trace = tuples.run(load, capacity, tuples.DROP, threshold=0, indexed=indexed)
    since = slice(round(1.2 * window), load.seconds)
    return 2 * float(trace.dropped[since].sum() / trace.arrived[since].sum())


def figures8_and_9() -> tuple[Picture, Picture, dict[str, float]]:
    """Rate adaptation where the newest are the best, with a window on one stream."""
    load = Workload(0.6, AT_ONCE, BURST, 125, windows=(20.0, NEVER))
    capacity = 250_000.0
    runs = {name: tuples.run(load, capacity, adapts) for name, adapts in (("dropping", 0), ("rate adaptation", 1))}
    at = list(range(load.seconds))
    fraction = runs["rate adaptation"].fractions[:, 0].repeat(5)[: load.seconds]
    ours = shed(load, Way(), np.full(load.seconds, capacity))
    values = {name: run.matches[: load.seconds].tolist() for name, run in runs.items()} | {"ours": ours.found.tolist()}
    gains = {
        f"figure9_rate_gain_at_{rate.split()[0]}": _gain(
            runs["rate adaptation"].matches, runs["dropping"].matches, part
        )
        for rate, part in BURSTS.items()
    }
    return (
        Picture(
            "figure8",
            "Figure 8: rates, and the fraction r",
            [
                Panel(
                    "rate",
                    "seconds",
                    at,
                    {"elements a second": runs["dropping"].arrived[: load.seconds].tolist()},
                    "both",
                ),
                Panel("fraction", "seconds", at, {"r": fraction.tolist()}, "r"),
            ],
        ),
        Picture("figure9", "Figure 9: rate adaptation, shift 0, skew 0.6", [Panel("output", "seconds", at, values)]),
        gains,
    )


def _gain(one: Floats, other: Floats, part: slice) -> float:
    return float(one[part].sum() / max(1.0, other[part].sum()))


def figure10(sizes: Sizes) -> Picture:
    """The same against the skew, for several windows: how many times the output of dropping."""
    skews = [skew for skew in sizes.skews if skew < 1.0]
    values: dict[str, list[float]] = {}
    for window in sizes.windows:
        for skew in skews:
            load = Workload(skew, AT_ONCE, ((math.inf, 300.0),), sizes.seconds, windows=(window, NEVER))
            since = slice(round(window) + 20, load.seconds)
            drop, rate = (tuples.run(load, 250_000.0, adapts).matches for adapts in (tuples.DROP, tuples.RATE))
            values.setdefault(f"window {window:g} s", []).append(_gain(rate, drop, since))
            ours = shed(load, Way(), np.full(load.seconds, 250_000.0)).found
            values.setdefault(f"ours, {window:g} s", []).append(_gain(ours, drop, since))
    panel = Panel("300 elements a second", "skew", skews, values, "times the output of dropping")
    return Picture("figure10", "Figure 10: rate adaptation, by skew and window", [panel])


def figures11_and_12() -> tuple[Picture, Picture, dict[str, float]]:
    """Time correlation and direction, where the peak lies late."""
    load, capacity = Workload(0.6, LATE, BURST, 125), 450_000.0
    names = {"dropping": 0, "rate": 1, "+ time correlation": 2, "+ direction": 3}
    runs = {name: tuples.run(load, capacity, adapts) for name, adapts in names.items()}
    at = list(range(load.seconds))
    fractions = runs["+ direction"].fractions.repeat(5, axis=0)[: load.seconds]
    ours = shed(load, Way(), np.full(load.seconds, capacity))
    values = {name: run.matches[: load.seconds].tolist() for name, run in runs.items()} | {"ours": ours.found.tolist()}
    gains = {
        f"figure12_{words}_gain_at_{rate.split()[0]}": _gain(np.array(values[one]), np.array(values[other]), part)
        for rate, part in BURSTS.items()
        for words, one, other in (
            ("time", "+ time correlation", "rate"),
            ("direction", "+ direction", "+ time correlation"),
            ("ours_vs_random", "ours", "dropping"),
        )
    }
    return (
        Picture(
            "figure11",
            "Figure 11: rates, and the fractions of both windows",
            [
                Panel(
                    "rate",
                    "seconds",
                    at,
                    {"elements a second": runs["dropping"].arrived[: load.seconds].tolist()},
                    "both",
                ),
                Panel(
                    "fractions", "seconds", at, {"r1": fractions[:, 1].tolist(), "r2": fractions[:, 2].tolist()}, "r"
                ),
            ],
        ),
        Picture(
            "figure12", "Figure 12: time correlation and direction, skew 0.6", [Panel("output", "seconds", at, values)]
        ),
        gains,
    )


def figure13(sizes: Sizes) -> Picture:
    """The same against the skew, with a threshold of 4, at a steady rate and a budget of 5 %."""
    skews = [skew for skew in sizes.skews if skew >= 0.4]
    values: dict[str, list[float]] = {}
    for skew in skews:
        several: dict[str, list[float]] = {}
        for seed in sizes.seeds[:2]:
            load, way = Workload(skew, LATE, seconds=sizes.seconds, seed=seed), Way(Overlap(4))
            for name, adapts in (("rate", 1), ("+ time correlation", 2), ("+ direction", 3)):
                matches = tuples.run(load, 0.05 * capacity_for_all(load), adapts, threshold=4).matches
                several.setdefault(name, []).append(float(matches[2 * WINDOW : load.seconds].mean()))
            ours = shed(load, way, 0.05 * volumes(load, way)).found[2 * WINDOW :].mean()
            several.setdefault("ours", []).append(float(ours))
            random = full(load, way).found[2 * WINDOW :].mean() * 0.05
            several.setdefault("dropping", []).append(float(random))
        for name, found in several.items():
            values.setdefault(name, []).append(float(np.mean(found)))
    panel = Panel("200 elements a second, budget 5 %", "skew", skews, values)
    return Picture("figure13", "Figure 13: threshold 4, by skew", [panel])

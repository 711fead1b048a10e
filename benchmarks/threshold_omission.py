"""How fast elements are found that a threshold alert can do without, and how many remain.

The table of the paper of threshold functions over streams (10⁶ tuples, one in ten units of time, a
window of 100, arriving in order or with Gaussian delays): seconds for each of its rows, beside the
best of its stores and beside a plain Python program in the same run; and with its three stores, written for
this benchmark (`baselines/stores.py`). Its figure: what is kept of uniform values, of a Wiener process and of
a factory's power readings, the more tuples are in a window; the stores keep the same. And an alert on one
stream with a function that takes a millisecond: how often it is called.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow.csv as arrow_csv

from benchmarks.baselines.stores import Kind
from benchmarks.baselines.stores import retained as retained_by_store
from benchmarks.support.greedy import Greedy
from benchmarks.support.report import Report, main, say
from benchmarks.support.threshold_one_stream import measure_one_stream
from benchmarks.support.threshold_stores import (
    NAMES,
    StoreSeconds,
    compile_stores,
    draw_stores,
    measure_stores,
    say_stores,
)
from tidegate.edge import Brackets, sides
from tidegate.physical.threshold_alert.kernels.brackets import find_bracketed
from tidegate.physical.threshold_alert.kernels.retention import TaggedElements

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Result = TypeVar("Result")

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("TIDEGATE_DATA", ROOT.parent / "shared" / "data"))
READINGS = "debs2012_manufacturing/debs2012.csv.gz"
PICTURE = ROOT / "out" / "threshold_retention.png"
STORES_PICTURE = ROOT / "out" / "threshold_stores.png"

WINDOW = 100
SPACING = 10
"""Units of time for each tuple of the table's streams, on average."""

BATCH = 20_000

IN_WINDOW = [2**power for power in range(15)]
"""The figure's tuples in a window, on average."""

MOST_CALLS = 0.03
"""The greatest share of calls of an alert on one stream."""

CHECKED = 20_000
"""Tuples of a stream of the figure with which the stores of the paper are compared."""

GAP = 1_000
"""Units of time between two tuples of the figure's streams, on average."""


class Row(NamedTuple):
    """A row of the table: values, the standard deviation of delays, the best of the paper's three stores in seconds."""

    values: str
    sigma: int
    paper: float

    @property
    def name(self) -> str:
        return f"{self.values}_sigma{self.sigma}"


TABLE = [
    Row("uniform", 0, 0.727),
    Row("wiener", 0, 0.753),
    Row("uniform", 1, 0.754),
    Row("wiener", 1, 0.747),
    Row("uniform", 10, 0.768),
    Row("wiener", 10, 0.787),
    Row("uniform", 100, 0.793),
    Row("wiener", 100, 0.853),
    Row("uniform", 1_000, 1.031),
    Row("wiener", 1_000, 1.113),
    Row("uniform", 10_000, 1.645),
    Row("wiener", 10_000, 1.666),
    Row("uniform", 100_000, 2.594),
    Row("wiener", 100_000, 2.522),
]


@dataclass(frozen=True, slots=True)
class Scale:
    """How many tuples there are for us, for plain Python and in the figure, and how often we are measured."""

    tuples: int
    python: int
    figure: int
    repeats: int
    table: list[Row]
    stores: int
    """Tuples for the stores of the paper."""
    readings: int
    """Readings of the alert on one stream."""


FULL = Scale(
    tuples=1_000_000, python=100_000, figure=4_000_000, repeats=3, table=TABLE, stores=1_000_000, readings=200_000
)
QUICK = Scale(
    tuples=200_000,
    python=10_000,
    figure=200_000,
    repeats=3,
    table=[r for r in TABLE if r.sigma in (0, 100_000)],
    stores=20_000,
    readings=20_000,
)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a report."""

    equal: bool
    ratios: dict[str, float]
    figures: dict[str, float]


class Stream(NamedTuple):
    time: Ints
    value: Floats


def table(scale: Scale) -> Part:
    """Every row of the table: our seconds and Python's for a million tuples, and whether both keep the same."""
    retained(stream(TABLE[0], BATCH))  # compiles, or loads what was compiled
    equal, against_paper, against_python, figures = True, {}, {}, {}
    say(f"{'values':<8} {'sigma':>7} {'ours':>8} {'paper':>8} {'Python':>8}  seconds for a million tuples")
    for row in scale.table:
        many, few = stream(row, scale.tuples), stream(row, scale.python)
        ours = min(seconds(retained, many)[0] for _ in range(scale.repeats)) * 1e6 / scale.tuples
        python, kept = seconds(greedy, few)
        python *= 1e6 / scale.python
        equal &= same(kept, retained(few)) and same(retained(many), at_once(many))
        say(f"{row.values:<8} {row.sigma:>7,} {ours:>8.3f} {row.paper:>8.3f} {python:>8.2f}")
        against_paper[row], against_python[row] = row.paper / ours, python / ours
        figures[f"table1_{row.name}_ms"] = ours * 1e3
        figures[f"table1_{row.name}_python_{scale.python}_scaled_ms"] = python * 1e3
    ratios = {
        "table1_worst_vs_paper": min(against_paper.values()),
        "table1_in_order_vs_paper": min(ratio for row, ratio in against_paper.items() if row.sigma == 0),
        "table1_most_disordered_vs_paper": min(ratio for row, ratio in against_paper.items() if row.sigma == 100_000),
        "table1_worst_vs_python": min(against_python.values()),
    }
    return Part(equal, ratios, figures)


def stores(scale: Scale, ours: Mapping[str, float], *, picture: Path = STORES_PICTURE) -> Part:
    """The table with the stores of the paper: seconds of each for a million tuples, and whether they keep the same."""
    compile_stores()
    measured, equal = dict[tuple[str, int], StoreSeconds](), True
    say(f"{'values':<8} {'sigma':>7} {'list':>10} {'skip list':>10} {'tree':>10}  seconds for a million tuples")
    for row in scale.table:
        given = stream(row, scale.stores)
        found = measure_stores(given.time, given.value, WINDOW, at_once(given))
        measured[row.values, row.sigma] = found
        equal &= found.equal
        say_stores(row.values, row.sigma, found)
    mine = {(row.values, row.sigma): ours[f"table1_{row.name}_ms"] / 1e3 for row in scale.table}
    draw_stores(measured, mine, picture)
    say(f"drawn in {picture}")
    best = {place: min(found.seconds.values()) for place, found in measured.items()}
    ratios = {"table1_worst_vs_best_store": min(best[place] / mine[place] for place in best)}
    figures = {
        f"table1_{row.name}_{NAMES[kind]}_ms": 1e3 * seconds
        for row in scale.table
        for kind, seconds in measured[row.values, row.sigma].seconds.items()
    }
    return Part(equal, ratios, figures)


def one_stream(scale: Scale) -> Part:
    """An alert on one stream: the share of readings for which its function is called."""
    found = measure_one_stream(scale.readings)
    return Part(
        found.equal and found.share <= MOST_CALLS,
        {"one_stream_vs_all_calls": found.seconds_without / found.seconds},
        {"one_stream_calls_share": found.share, "one_stream_readings": scale.readings},
    )


def stream(row: Row, tuples: int) -> Stream:
    """Tuples in order of arrival; times differ, and are delayed by noise that does not show in them."""
    random = np.random.default_rng(11)
    times = np.sort(random.choice(tuples * SPACING, tuples, replace=False))
    values = random.random(tuples) if row.values == "uniform" else wiener(times, random)
    arrival = np.argsort(times + random.normal(0, row.sigma, tuples), kind="stable")
    return Stream(times[arrival], values[arrival])


def wiener(times: Ints, random: np.random.Generator) -> Floats:
    return np.cumsum(random.normal(0, np.sqrt(np.diff(times, prepend=times[0]))))


def retained(arriving: Stream) -> TaggedElements:
    """What our store keeps, fed in batches as they arrive."""
    store = Brackets(sides(WINDOW, "quasiconvex", "closed"))
    tags = np.zeros(len(arriving.time), np.int64)
    for begin in range(0, len(tags), BATCH):
        end = begin + BATCH
        store.absorb(TaggedElements(arriving.time[begin:end], arriving.value[begin:end], tags[begin:end]))
    return store.elements


def greedy(arriving: Stream) -> Stream:
    """What plain Python keeps, fed one by one."""
    store = Greedy(WINDOW)
    for when, value in zip(arriving.time.tolist(), arriving.value.tolist(), strict=True):
        store.add(when, value)
    times, values = zip(*store.kept, strict=True)
    return Stream(np.array(times), np.array(values))


def at_once(arriving: Stream) -> Stream:
    """What is kept if all is sorted and looked at together."""
    order = np.argsort(arriving.time)
    times, values = arriving.time[order], arriving.value[order]
    rows = kept_rows(times, values, WINDOW)
    return Stream(times[rows], values[rows])


def kept_rows(times: Ints, values: Floats, window: int) -> npt.NDArray[np.bool_]:
    group = np.zeros(len(times), np.int64)
    return ~find_bracketed(group, times, values, window=window, strict=False, above=True, below=True)


def same(one: TaggedElements | Stream, other: TaggedElements | Stream) -> bool:
    return np.array_equal(one.time, other.time) and np.array_equal(one.value, other.value)


def seconds(work: Callable[[Stream], Result], given: Stream) -> tuple[float, Result]:
    began = time.perf_counter()
    result = work(given)
    return time.perf_counter() - began, result


class Point(NamedTuple):
    """A point of the figure: how many tuples a window has on average, and which share of all is kept."""

    in_window: int
    share: float

    @property
    def kept_in_window(self) -> float:
        return self.in_window * self.share


def figure(scale: Scale, *, picture: Path = PICTURE, data: Path = DATA) -> Part:
    """What is kept of each stream, the more tuples a window has: as rows, and drawn."""
    given_streams = dict(streams(scale.figure, data))
    curves = {name: curve(given) for name, given in given_streams.items()}
    equal = all(stores_keep_the_same(given) for given in given_streams.values())
    say(f"{'in window':>9}" + "".join(f" {name + ' kept':>15} {'in window':>9}" for name in curves))
    for points in zip(*curves.values(), strict=True):
        say(f"{points[0].in_window:>9,}" + "".join(f" {p.share:>15.2%} {p.kept_in_window:>9.2f}" for p in points))
    draw(curves, picture)
    say(f"drawn in {picture}")
    figures = {
        f"figure10_{name}_{point.in_window}_percent": 100 * point.share
        for name, points in curves.items()
        for point in points
    }
    return Part(equal, ratios={}, figures=figures)


def stores_keep_the_same(given: Stream) -> bool:
    """Whether the stores of the paper keep what ours keeps of the first tuples, in windows of each length."""
    some, equal = Stream(given.time[:CHECKED], given.value[:CHECKED]), True
    gap = (some.time[-1] - some.time[0]) / (len(some.time) - 1)
    for many in (1, 16, 1_024):
        window = max(round(many * gap), 1)
        rows = kept_rows(some.time, some.value, window)
        # The stores keep one of several equal tuples.
        expected = sorted(set(zip(some.time[rows].tolist(), some.value[rows].tolist(), strict=True)))
        for kind in Kind:
            kept = retained_by_store(kind, some.time, some.value, window)
            equal &= list(zip(kept.time.tolist(), kept.value.tolist(), strict=True)) == expected
    return equal


def streams(tuples: int, data: Path) -> Iterator[tuple[str, Stream]]:
    random = np.random.default_rng(12)
    times = np.sort(random.integers(0, tuples * GAP, tuples))
    yield "uniform", Stream(times, random.random(tuples))
    times = np.cumsum(random.gamma(2, GAP / 2, tuples)).astype(np.int64)
    yield "wiener", Stream(times, wiener(times, random))
    if not (data / READINGS).exists():
        say(f"there is no {data / READINGS}: the power readings are left out (TIDEGATE_DATA names their folder)")
        return
    readings = arrow_csv.read_csv(data / READINGS).select(["ts_us", "mf01"]).sort_by("ts_us")
    yield "debs", Stream(readings["ts_us"].to_numpy(), readings["mf01"].to_numpy().astype(np.float64))


def curve(given: Stream) -> list[Point]:
    gap = (given.time[-1] - given.time[0]) / (len(given.time) - 1)
    return [Point(many, float(kept_rows(*given, round(many * gap)).mean())) for many in IN_WINDOW]


def draw(curves: dict[str, list[Point]], picture: Path) -> None:
    """The share that is kept, and how many are kept in a window."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawing, (shares, numbers) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for name, points in curves.items():
        many = [point.in_window for point in points]
        shares.plot(many, [point.share for point in points], marker="o", label=name)
        numbers.plot(many, [point.kept_in_window for point in points], marker="o", label=name)
    shares.set(title="Share of tuples kept", ylabel="kept of all", ylim=(0, 1.02))
    numbers.set(title="Tuples kept in a window", ylabel="kept in a window", yscale="log")
    for axes in (shares, numbers):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("tuples in a window, on average")
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    picture.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(picture, dpi=120)
    plt.close(drawing)


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    scale = QUICK if quick else FULL
    first = table(scale)
    parts = [first, stores(scale, first.figures), figure(scale), one_stream(scale)]
    return Report(
        "threshold_omission",
        all(part.equal for part in parts),
        {name: ratio for part in parts for name, ratio in part.ratios.items()},
        {name: number for part in parts for name, number in part.figures.items()},
    )


if __name__ == "__main__":
    main(measure, __doc__)

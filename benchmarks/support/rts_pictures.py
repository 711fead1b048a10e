"""Tables and pictures of what the methods cost, in the shape of the paper's Figures 3 to 8."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.support.report import say
from benchmarks.support.rts_runs import SAMPLED, Costs
from benchmarks.support.rts_setups import BATCH, Setup, short
from tidegate.physical.common.arrays import Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDER = Path(__file__).resolve().parents[2] / "out" / "rts"

COLOURS = {
    "scan": "tab:red",
    "stabbing": "tab:orange",
    "rtree": "tab:purple",
    "tracking": "tab:blue",
    "batch": "tab:green",
}
WORDS = {
    "scan": "scan (sampled)",
    "stabbing": "interval or segment-interval tree (sampled)",
    "rtree": "R-tree (sampled)",
    "tracking": "distributed tracking (the paper's)",
    "batch": "batch method (ours)",
}


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What each method costs in a set-up."""

    setup: Setup
    operations: Ints
    """At first, and in each batch."""
    costs: Mapping[str, Costs]

    def per_operation(self, method: str) -> float:
        """Microseconds for an operation, on average over everything."""
        return self.costs[method].total / int(self.operations.sum()) * 1e6

    def over_time(self, method: str) -> tuple[Ints, Sequence[float]]:
        """Elements that have arrived, and microseconds for an operation until then."""
        costs = self.costs[method]
        seconds = np.cumsum([costs.build, *(costs.absorb + costs.change)])
        at = np.arange(1, len(seconds)) * BATCH
        return at, (seconds / np.cumsum(self.operations) * 1e6)[1:].tolist()


@dataclass(frozen=True, slots=True)
class Panel:
    """A half of a picture: one dimension or two, and what else is to be known of it."""

    title: str
    outcomes: Mapping[float, Outcome]
    """By what is varied; over time there is one."""


HEAD = f"{'set-up':<50} {'method':<9} {'µs/element':>11} {'µs/operation':>12} {'total s':>9} {'build s':>8}"


def lines(outcome: Outcome) -> Iterator[str]:
    """A line of the table for each method."""
    for method, costs in outcome.costs.items():
        numbers = f"{costs.per_element:>11.3f} {outcome.per_operation(method):>12.3f} {costs.total:>9.2f}"
        yield f"{outcome.setup.name:<50} {method:<9} {numbers} {costs.build:>8.2f}{_mark(method)}"


def _mark(method: str) -> str:
    return "  sampled" if method in SAMPLED else ""


def write_table(outcomes: Iterable[Outcome], notes: str) -> None:
    text = "\n".join([HEAD, *(line for outcome in outcomes for line in lines(outcome)), "", notes])
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "costs.txt").write_text(text + "\n", encoding="utf-8")
    say(f"the table is in {FOLDER / 'costs.txt'}")


def draw_over_time(name: str, title: str, panels: Sequence[Panel]) -> None:
    """The cost of an operation as the stream goes on."""
    drawing, both = _drawing(title)
    for axes, panel in zip(both, panels, strict=True):
        (outcome,) = panel.outcomes.values()
        for method in outcome.costs:
            at, cost = outcome.over_time(method)
            axes.plot(at / 1e6, cost, color=COLOURS[method], linestyle=_style(method), label=WORDS[method])
        axes.set(title=panel.title, xlabel="million elements", ylabel="µs an operation, so far")
    _finish(drawing, both, name)


def draw_against(name: str, title: str, words: str, panels: Sequence[Panel], *, evenly: bool = False) -> None:
    """The time for a whole stream against something that is varied."""
    drawing, both = _drawing(title)
    for axes, panel in zip(both, panels, strict=True):
        for method, colour in COLOURS.items():
            points = {x: o.costs[method].total for x, o in panel.outcomes.items() if method in o.costs}
            x, y = list(points), list(points.values())
            axes.plot(x, y, color=colour, linestyle=_style(method), marker="o", label=WORDS[method])
        axes.set(title=panel.title, xlabel=words, ylabel="seconds for the whole stream")
        if not evenly:
            axes.set_xscale("log")
        axes.set_xticks(list(panel.outcomes), [short(x) for x in panel.outcomes])
        axes.minorticks_off()
    _finish(drawing, both, name)


def _style(method: str) -> str:
    return "--" if method in SAMPLED else "-"


def _drawing(title: str) -> tuple[Figure, Sequence[Axes]]:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawing, both = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    drawing.suptitle(title)
    return drawing, both


def _finish(drawing: Figure, both: Sequence[Axes], name: str) -> None:
    from matplotlib import pyplot as plt

    for axes in both:
        axes.set_yscale("log")
        axes.grid(visible=True, alpha=0.3)
    drawing.legend(*both[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    FOLDER.mkdir(parents=True, exist_ok=True)
    drawing.savefig(FOLDER / f"{name}.png", dpi=120)
    plt.close(drawing)
    say(f"drawn in {FOLDER / name}.png")

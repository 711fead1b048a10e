"""Pictures in the shape of the paper's figures, and tables, in `out/kmon`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.support.kmon_figures import COMBINED_LEVELS, SIZES, Measured, Trade
from benchmarks.support.kmon_monitoring import BLOCK, Followed
from benchmarks.support.kmon_runs import Course
from benchmarks.support.report import say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDER = Path(__file__).resolve().parents[2] / "out" / "kmon"

PERCENT = 100

TITLES = {
    "fig4": "Figure 4: children arrive at most k after parents (S1 → S2, S1 → S3)",
    "fig6": "Figure 6: parents clustered within k (S1 → S3 ← S2)",
    "fig8": "Figure 8: parents ordered within k (S1 → S3 ← S2)",
    "fig20": "Figure 20: children ordered within k (S1 → S2)",
}


def draw_memory(measured: Measured) -> None:
    """Elements kept over time, for each k and by the window join."""
    experiment = measured.experiment
    drawing, axes = _drawing(TITLES[experiment.figure])
    for k, course in measured.courses.items():
        axes.plot(_thousands(course.arrived), course.kept, label=f"k = {k:,}")
    _window(axes, list(measured.courses.values())[-1])
    axes.set(xlabel="thousand elements arrived", ylabel="elements kept")
    if experiment.graph.single_covers == frozenset():
        axes.set_yscale("symlog", linthresh=10)
    _finish(drawing, axes, experiment.figure)


def draw_combined(courses: Mapping[str, Course]) -> None:
    drawing, axes = _drawing("Figure 10: clusters of S1.A, order of S3.B within 5000, and both")
    for name, course in courses.items():
        axes.plot(_thousands(course.arrived), course.kept, label=name)
    _window(axes, courses["both"])
    axes.set(xlabel="thousand elements arrived", ylabel="elements kept")
    _finish(drawing, axes, "fig10")


def draw_traded(trades: Sequence[Trade], crossing: float) -> None:
    drawing, axes = _drawing("Figure 11: clusters within 5000, alone and with join distances within k")
    k = [trade.k for trade in trades]
    axes.plot(k, [trade.clustered for trade in trades], marker="o", label="clusters alone")
    axes.plot(k, [trade.both for trade in trades], marker="o", label="both, failing elements of S2 not kept")
    keeping = [trade.both_keeping_no for trade in trades]
    axes.plot(k, keeping, linestyle=":", linewidth=3, color="black", label="both, failing elements kept")
    if np.isfinite(crossing):
        axes.axvline(crossing, color="grey", linewidth=0.8)
    axes.set(xlabel="k of join distances in the data", ylabel="elements kept")
    _finish(drawing, axes, "fig11")


def draw_followed(name: str, title: str, followed: Followed) -> None:
    """The k of the data and the k in use; where none is used, on the axis; and false negatives in each block."""
    drawing, axes = _drawing(title)
    at = _thousands(followed.arrived)
    axes.plot(at, followed.true, color="tab:blue", label="k of the data")
    used = [0 if k is None else k for k in followed.used]
    axes.plot(at, used, ".", markersize=3, color="tab:green", label="k in use (0: not used)")
    axes.set(xlabel="thousand elements arrived", ylabel="k")
    lost = axes.twinx()
    blocks = (np.arange(len(followed.lost)) + 0.5) * BLOCK / 1e3
    share = PERCENT * np.array(followed.lost)
    label = f"false negatives, % of a block of {BLOCK:,}"
    lost.bar(blocks, share, width=BLOCK / 1e3, color="tab:red", alpha=0.6, label=label)
    lost.set(ylabel=label, ylim=(0, max(5.0, 1.2 * float(share.max(initial=0)))))
    axes.plot([], [], color="tab:red", linewidth=5, alpha=0.6, label=label)
    _finish(drawing, axes, name)


def cost_lines(several: Sequence[Measured]) -> list[str]:
    """Table 1: microseconds for an element, by us and by the window join, and how they compare."""
    ks = list(several[0].courses)
    lines = [f"{'Table 1':<8} {'batch':>7} " + " ".join(f"{f'k = {k:,}':>19}" for k in ks)]
    for each in several:
        for size in SIZES:
            cells = (each.costs[k, size] for k in ks)
            texts = (f"{ours:.3f}/{others:.3f} = {ours / others:.2f}" for ours, others in cells)
            lines.append(f"{each.experiment.kind:<8} {size:>7,} " + " ".join(f"{text:>19}" for text in texts))
    return lines


def memory_lines(several: Sequence[Measured], combined: Mapping[str, Course]) -> list[str]:
    """Elements kept in the end: by us, by the paper's method on the same data, as printed, and by the window join."""
    names = ("ours", "simulated", "printed", "window")
    lines = [
        f"{'memory':<24} " + " ".join(f"{name:>9}" for name in names) + f" {'ours/simulated':>15} {'ours/window':>12}"
    ]
    for each in several:
        for k, course in each.courses.items():
            lines.append(_memory_line(f"{each.experiment.figure}, k = {k:,}", course, each.experiment.levels[k]))
    return [*lines, *(_memory_line(f"fig10, {name}", combined[name], level) for name, level in COMBINED_LEVELS.items())]


def _memory_line(name: str, course: Course, printed: int) -> str:
    ours, others, window = course.level(), course.simulated_level(), course.window_level()
    counts = " ".join(f"{count:>9,.0f}" for count in (ours, others, printed, window))
    return f"{name:<24} {counts} {ours / others:>15.4f} {ours / window:>12.4f}"


def write_tables(lines: Sequence[str]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "tables.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    say(f"the tables are in {FOLDER / 'tables.txt'}")


def _thousands(arrived: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.asarray(arrived) / 1e3


def _window(axes: Axes, course: Course) -> None:
    axes.plot(_thousands(course.arrived), course.window, color="black", linestyle="--", label="window join")


def _drawing(title: str) -> tuple[Figure, Axes]:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawing, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    axes.set_title(title)
    return drawing, axes


def _finish(drawing: Figure, axes: Axes, name: str) -> None:
    from matplotlib import pyplot as plt

    axes.grid(visible=True, alpha=0.3)
    drawing.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    FOLDER.mkdir(parents=True, exist_ok=True)
    drawing.savefig(FOLDER / f"{name}.png", dpi=120)
    plt.close(drawing)
    say(f"drawn in {FOLDER / name}.png")

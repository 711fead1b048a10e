"""Figures 30.1 to 30.3 for each strategy, as pictures and as a table: output rate, memory and CPU over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.support.migration_runs import MigrationRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Series = Callable[[MigrationRun], tuple[list[float], list[float]]]
"""Function that returns the times and the values of a run."""

FOLDER = Path(__file__).resolve().parents[2] / "out" / "migration"
LABELS = {
    "genmig": "GenMig",
    "parallel_track": "parallel track",
    "moving_states": "moving states",
    "unmoved": "old plan",
}


def publish(runs: Mapping[str, MigrationRun]) -> None:
    """Write `migration.csv`, and a picture for each figure."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    _write_table(runs)
    _draw(runs, "output_rate", "results released per second (Figure 30.1)", rates)
    _draw(runs, "memory", "KB of state and buffers (Figure 30.2)", kept_kilobytes)
    _draw(runs, "cpu", "CPU seconds so far (Figure 30.3)", cpu_seconds)


def rates(run: MigrationRun) -> tuple[list[float], list[float]]:
    """Return the rows released in each second."""
    seconds = range(1, run.load.seconds + 1)
    step = run.load.step
    return [float(s) for s in seconds], [sum(e.rows for e in run.during(s - 1 + step / 2, s)) for s in seconds]


def kept_kilobytes(run: MigrationRun) -> tuple[list[float], list[float]]:
    return [step.at for step in run.steps], [step.kept / 1_000 for step in run.steps]


def cpu_seconds(run: MigrationRun) -> tuple[list[float], list[float]]:
    return [step.at for step in run.steps], list(accumulate(step.cpu for step in run.steps))


def _write_table(runs: Mapping[str, MigrationRun]) -> None:
    lines = ["strategy,second,rows,kept_kb,cpu_seconds"]
    for name, run in runs.items():
        cpu = dict(zip(*cpu_seconds(run), strict=True))
        kept = dict(zip(*kept_kilobytes(run), strict=True))
        lines += [f"{name},{s:g},{n:g},{kept[s]:.1f},{cpu[s]:.4f}" for s, n in zip(*rates(run), strict=True)]
    (FOLDER / "migration.csv").write_text("\n".join(lines) + "\n")


def _draw(runs: Mapping[str, MigrationRun], name: str, title: str, series: Series) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawing, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    for which, run in runs.items():
        axes.plot(*series(run), label=LABELS[which], linestyle=":" if which == "unmoved" else "-")
    _mark_migration(axes, next(iter(runs.values())))
    axes.set_title(title)
    axes.set_xlabel("seconds of the streams")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    drawing.savefig(FOLDER / f"{name}.png", dpi=120)
    plt.close(drawing)


def _mark_migration(axes: Axes, run: MigrationRun) -> None:
    begin, window = run.load.begin, run.load.window
    for at, label in ((begin, "begin"), (begin + window, "+ w"), (begin + 2 * window, "+ 2w")):
        axes.axvline(at, color="gray", linewidth=0.8)
        axes.annotate(label, (at, 1), xycoords=("data", "axes fraction"), xytext=(3, -12), textcoords="offset points")

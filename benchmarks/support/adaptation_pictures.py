"""Pictures of the benchmark of adaptation, in `out/adaptation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.report import say

FOLDER = Path(__file__).resolve().parents[2] / "out" / "adaptation"
COLOURS = ("tab:green", "tab:red", "grey")


@dataclass(frozen=True, slots=True)
class Line:
    """Values over time."""

    name: str
    times: Sequence[float]
    values: Sequence[float]
    dashed: bool = False


def draw(
    name: str, title: str, across: str, lines: Sequence[Line], events: Mapping[str, Sequence[float]]
) -> None:  # fmt: skip
    """Draw values over time, and events as vertical lines."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawing, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    axes.set_title(title)
    for line in lines:
        axes.plot(line.times, line.values, label=line.name, linestyle="--" if line.dashed else "-")
    for (event, times), colour in zip(events.items(), COLOURS, strict=False):
        for number, time in enumerate(times):
            axes.axvline(time, color=colour, linewidth=0.8, linestyle=":", label=event if number == 0 else None)
    axes.set(xlabel=across, ylabel="MB", ylim=(0, None))
    axes.grid(visible=True, alpha=0.3)
    drawing.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    FOLDER.mkdir(parents=True, exist_ok=True)
    drawing.savefig(FOLDER / f"{name}.png", dpi=120)
    plt.close(drawing)
    say(f"  drawn in {FOLDER / name}.png")

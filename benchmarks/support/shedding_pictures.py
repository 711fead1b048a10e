"""Tables and pictures in the shape of the paper's Figures 7 to 17."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.report import say

FOLDER = Path(__file__).resolve().parents[2] / "out" / "shedding"


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of a picture: values by name, each at all of `at`."""

    title: str
    words: str
    at: Sequence[float]
    values: Mapping[str, Sequence[float]]
    unit: str = "results a second"


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    title: str
    panels: Sequence[Panel]
    note: str = ""

    def table(self) -> str:
        return "\n\n".join([self.title, *map(_lines, self.panels), *([self.note] if self.note else [])])


def publish(pictures: Sequence[Picture]) -> None:
    """Write the tables of all pictures, and draw them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    tables = "\n\n\n".join(picture.table() for picture in pictures)
    (FOLDER / "figures.txt").write_text(tables + "\n", encoding="utf-8")
    for picture in pictures:
        _draw(picture)
    say(f"tables and pictures are in {FOLDER}")


def _lines(panel: Panel) -> str:
    """Rows of a table; of long series every fifth one."""
    every = 5 if len(panel.at) > 40 else 1
    width = max(12, *(len(name) + 2 for name in panel.values))
    head = f"{panel.title} ({panel.unit})\n{panel.words:>16}" + "".join(f"{name:>{width}}" for name in panel.values)
    rows = [
        f"{x:>16g}" + "".join(f"{values[place]:>{width}.4g}" for values in panel.values.values())
        for place, x in list(enumerate(panel.at))[::every]
    ]
    return "\n".join([head, *rows])


def _draw(picture: Picture) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    count = len(picture.panels)
    drawing, several = plt.subplots(1, count, figsize=(6.5 * count, 5), layout="constrained", squeeze=False)
    drawing.suptitle(picture.title)
    for axes, panel in zip(several[0], picture.panels, strict=True):
        for name, values in panel.values.items():
            axes.plot(panel.at, values, marker="o" if len(panel.at) <= 40 else "", label=name)
        axes.set(title=panel.title, xlabel=panel.words, ylabel=panel.unit)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    drawing.savefig(FOLDER / f"{picture.name}.png", dpi=120)
    plt.close(drawing)
    say(f"drawn in {FOLDER / picture.name}.png")

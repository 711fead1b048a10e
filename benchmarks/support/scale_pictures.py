"""Picture of a run that grows: rate and memory over the rows read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.contestants.growth import Sample

FOLDER = Path(__file__).resolve().parents[2] / "out" / "scale"


def draw_growth(samples: Sequence[Sample]) -> Path:
    """Draw `growth.png`, and return its path."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = [each.rows / 1e6 for each in samples]
    drawing, (rate, memory) = plt.subplots(2, sharex=True, figsize=(9, 6), layout="constrained")
    drawing.suptitle("An alert over two streams, embedded, while rows come")
    rate.plot(rows, [each.rows / each.seconds / 1e6 for each in samples])
    rate.set_ylabel("million rows/s so far")
    memory.plot(rows, [each.memory / 1e6 for each in samples], label="memory of the process")
    memory.plot(rows, [each.state / 1e6 for each in samples], label="state")
    memory.set_ylabel("MB")
    memory.set_xlabel("million rows")
    memory.legend()
    for axes in (rate, memory):
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / "growth.png"
    drawing.savefig(path, dpi=120)
    plt.close(drawing)
    return path

"""Table and pictures of the comparison of positive and negative elements with intervals, as in chapter 14."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.support.positive_negative_runs import Outcome

FOLDER = Path(__file__).resolve().parents[2] / "out" / "positive_negative"

COLOURS = {"positive-negative": "tab:red", "interval": "tab:blue", "Tidegate": "tab:green"}

Runs = Mapping[str, tuple[Outcome, Outcome, float]]
"""Of each query: the positive-negative approach, the interval approach, and the seconds of Tidegate."""


def publish(
    runs: Runs,
    windows: Mapping[str, list[tuple[int, int]]],
    delays: Mapping[int, Mapping[str, list[float]]],
    linkages: Mapping[str, float],
) -> None:
    """Write `table.md` and the pictures."""
    import matplotlib as mpl

    mpl.use("Agg")
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "table.md").write_text(make_table(runs), encoding="utf-8")
    _draw_runtimes(runs, linkages)
    _draw_results(runs)
    _draw_windows(windows, delays)


def make_table(runs: Runs) -> str:
    """Return the runs as a table in Markdown."""
    head = (
        "| query | positive-negative s | interval s | ratio | Tidegate s | kept, positive-negative | kept, interval |"
    )
    lines = [head, "|---|---|---|---|---|---|---|"]
    for name, (signed, interval, tidegate) in runs.items():
        ratio = signed.seconds / interval.seconds
        lines.append(
            f"| {name} | {signed.seconds:.3f} | {interval.seconds:.3f} | {ratio:.2f} | {tidegate:.3f} "
            f"| {signed.average:,.0f} | {interval.average:,.0f} |"
        )
    return "\n".join(lines) + "\n"


def _draw_runtimes(runs: Runs, linkages: Mapping[str, float]) -> None:
    """Draw the runtimes of all queries (figure 14.1), and of joins by how they find what has ended (14.9)."""
    from matplotlib import pyplot as plt

    drawing, (queries, joins) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained", width_ratios=(4, 1))
    drawing.suptitle("Runtime at full speed")
    for shift, kind in enumerate(COLOURS):
        seconds = [(signed.seconds, interval.seconds, tidegate)[shift] for signed, interval, tidegate in runs.values()]
        queries.bar(
            [place + 0.27 * shift for place in range(len(runs))], seconds, 0.25, label=kind, color=COLOURS[kind]
        )
    queries.set_xticks([place + 0.27 for place in range(len(runs))], [name.replace(", ", ",\n") for name in runs])
    queries.tick_params(axis="x", labelsize=8)
    queries.set_ylabel("seconds")
    queries.set_yscale("log")
    queries.legend()
    joins.bar(list(linkages), list(linkages.values()), color=["tab:blue", "tab:cyan", "tab:red"])
    joins.set_title("hash join, by linkage", fontsize=10)
    joins.tick_params(axis="x", labelrotation=30, labelsize=8)
    _save(drawing, "runtimes.png")


def _draw_results(runs: Runs) -> None:
    """Draw the results of each query over time (figures 14.2, 14.3, 14.5 and 14.6)."""
    from matplotlib import pyplot as plt

    drawing, panels = plt.subplots(2, (len(runs) + 1) // 2, figsize=(13, 7), layout="constrained")
    drawing.suptitle("Results so far; of positive and negative elements, both count")
    for axes, (name, (signed, interval, _)) in zip(panels.flat, runs.items(), strict=False):
        for kind, outcome in (("positive-negative", signed), ("interval", interval)):
            axes.plot(*zip(*outcome.curve, strict=True), label=kind, color=COLOURS[kind])
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("seconds")
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
    panels.flat[0].legend()
    _save(drawing, "results.png")


def _draw_windows(
    windows: Mapping[str, list[tuple[int, int]]], delays: Mapping[int, Mapping[str, list[float]]]
) -> None:
    """Draw what windows keep for negative elements (14.4), and when results of count windows come (14.8)."""
    from matplotlib import pyplot as plt

    drawing, (kept, late) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    for name, samples in windows.items():
        kept.plot([time / 86_400 for time, _ in samples], [max(size, 0.5) for _, size in samples], label=name)
    kept.set_title("Elements that a positive-negative window keeps; an interval window keeps none", fontsize=10)
    kept.set_xlabel("days of the auction")
    kept.set_yscale("log")
    kept.legend(title="window")
    for rows, by_kind in delays.items():
        for kind, seconds in by_kind.items():
            came = [number / 50 + delay for number, delay in enumerate(seconds)]
            label = (
                "positive-negative, any window"
                if kind == "positive-negative"
                else f"interval, {rows} row{'s' * (rows > 1)}"
            )
            if kind == "interval" or rows == min(delays):
                late.plot(came, range(1, len(came) + 1), label=label, linestyle="--" if kind != "interval" else "-")
    late.set_xlim(0, 5)
    late.set_ylim(0, 250)
    late.set_title("Results of a count window at 50 rows a second", fontsize=10)
    late.set_xlabel("seconds")
    late.legend()
    for axes in (kept, late):
        axes.grid(visible=True, alpha=0.3)
    _save(drawing, "windows.png")


def _save(drawing: Any, name: str) -> None:
    from matplotlib import pyplot as plt

    drawing.savefig(FOLDER / name, dpi=110)
    plt.close(drawing)

"""The table of the paper of threshold functions with its own stores, and ours, in the same run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.baselines.stores import Kind, retained
from benchmarks.support.report import say
from tidegate.physical.common.arrays import Floats, Ints

NAMES = {Kind.LINKED_LIST: "linked_list", Kind.SKIP_LIST: "skip_list", Kind.RED_BLACK_TREE: "red_black_tree"}

PAPER = {
    "uniform": {
        Kind.LINKED_LIST: (0.727, 0.754, 0.768, 0.793, 1.031, 5.103, 84.341),
        Kind.SKIP_LIST: (1.184, 1.243, 1.232, 1.277, 1.373, 1.645, 2.594),
        Kind.RED_BLACK_TREE: (4.565, 4.620, 4.821, 4.634, 4.801, 4.910, 6.036),
    },
    "wiener": {
        Kind.LINKED_LIST: (0.753, 0.747, 0.787, 0.853, 1.113, 5.279, 80.047),
        Kind.SKIP_LIST: (1.247, 1.200, 1.254, 1.344, 1.440, 1.666, 2.522),
        Kind.RED_BLACK_TREE: (4.824, 4.754, 5.058, 4.984, 4.861, 4.994, 6.131),
    },
}
"""Seconds of the paper for a million tuples, by the standard deviation of delays in `SIGMAS`."""

SIGMAS = (0, 1, 10, 100, 1_000, 10_000, 100_000)


@dataclass(frozen=True, slots=True)
class StoreSeconds:
    """Seconds of the stores for a million tuples, and whether they keep the expected tuples."""

    seconds: Mapping[Kind, float]
    equal: bool


def compile_stores() -> None:
    """Compile the stores, or load what was compiled."""
    for kind in Kind:
        retained(kind, np.array([1, 2, 3]), np.array([1.0, 3.0, 2.0]), 2)


def measure_stores(times: Ints, values: Floats, window: int, expected: tuple[Ints, Floats]) -> StoreSeconds:
    """Feed tuples to each store, one by one, in the order of arrival."""
    seconds, equal = dict[Kind, float](), True
    for kind in Kind:
        began = time.perf_counter()
        kept = retained(kind, times, values, window)
        seconds[kind] = (time.perf_counter() - began) * 1e6 / len(times)
        equal &= all(np.array_equal(one, other) for one, other in zip(kept, expected, strict=True))
    return StoreSeconds(seconds, equal)


def say_stores(name: str, sigma: int, stores: StoreSeconds) -> None:
    """Write a row of the table: seconds of the stores here."""
    shown = "".join(f" {stores.seconds[kind]:>10.3f}" for kind in Kind)
    say(f"{name:<8} {sigma:>7,}{shown}")


def draw_stores(
    measured: Mapping[tuple[str, int], StoreSeconds], ours: Mapping[tuple[str, int], float], picture: Path
) -> None:
    """Draw seconds by disorder: the stores here, those of the paper, and ours."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawing, axes = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained", sharey=True)
    for own, (values, paper) in zip(axes, PAPER.items(), strict=True):
        sigmas = sorted(sigma for name, sigma in measured if name == values)
        places = [SIGMAS.index(sigma) for sigma in sigmas]
        for colour, kind in zip(("tab:blue", "tab:orange", "tab:red"), Kind, strict=True):
            label = NAMES[kind].replace("_", " ")
            here = [measured[values, sigma].seconds[kind] for sigma in sigmas]
            own.plot(places, here, marker="o", color=colour, label=f"{label}, here")
            own.plot(range(len(SIGMAS)), paper[kind], marker="x", ls=":", color=colour, label=f"{label}, in the paper")
        mine = [ours[values, sigma] for sigma in sigmas]
        own.plot(places, mine, marker="s", color="tab:green", linewidth=2.5, label="Tidegate")
        own.set(title=f"{values} values", xlabel="standard deviation of delays", yscale="log")
        own.set_xticks(range(len(SIGMAS)), [f"{sigma:,}" for sigma in SIGMAS])
        own.grid(visible=True, alpha=0.3)
    axes[0].set_ylabel("seconds for a million tuples")
    axes[1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    picture.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(picture, dpi=120)
    plt.close(drawing)

"""Joins by key that shed: the paper's streams with a key for each element, popular as Zipf's law says.

Pairs match if their keys are equal and their sets have three items in common. Comparisons are of rows with equal keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from numba import njit

from benchmarks.support.report import say
from benchmarks.support.shedding_data import SECOND, Workload, batches, kept, streams
from tidegate.physical.common.arrays import Floats, Ints, Mask
from tidegate.physical.shedding.kernels.evidence import Tally
from tidegate.physical.similarity_join.kernels.conditions import Condition, Overlap, SameKey
from tidegate.physical.similarity_join.kernels.join import SheddingJoin
from tidegate.physical.similarity_join.kernels.matching import Predicate
from tidegate.physical.similarity_join.kernels.model import SimilarityJoinSettings
from tidegate.physical.similarity_join.kernels.slots import SlotArrivals
from tidegate.physical.similarity_join.kernels.values import Numbers, Sets

KEYS, SKEW = 100, 0.8
COMMON = 3
WINDOW = 20

Batches = Sequence[tuple[SlotArrivals, SlotArrivals]]


@dataclass(frozen=True, slots=True, eq=False)
class KeyedRun:
    """What each batch found and compared."""

    found: Floats
    volume: Floats
    tally: Tally
    checks: Ints

    def share_of(self, other: KeyedRun) -> float:
        return float(self.found[WINDOW:].sum() / max(1.0, other.found[WINDOW:].sum()))


def measure_keys(seconds: int, seeds: Sequence[int], budgets: Sequence[float]) -> tuple[bool, dict[str, float]]:
    """Whether the whole join by key finds what it should, and shares of its results under budgets."""
    figures: dict[str, float] = {}
    right = _is_exact(Workload(SKEW, seconds=min(seconds, 60)))
    for budget in budgets:
        each = [_shares(Workload(SKEW, seconds=seconds, seed=seed), budget) for seed in seeds]
        mean = {name: float(np.mean([shares[name] for shares in each])) for name in each[0]}
        say(f"keys, budget {budget:g}: " + "  ".join(f"{name} {share:.3f}" for name, share in mean.items()))
        figures |= {f"equi_{name}_{100 * budget:g}": share for name, share in mean.items()}
        figures[f"equi_vs_random_{100 * budget:g}"] = mean["ours"] / mean["random"]
    return right, figures


def _shares(load: Workload, budget: float) -> dict[str, float]:
    given = _keyed(load)
    whole = _run(load, given, None)
    budgets = budget * whole.volume
    return {
        "random": _run(load, _thinned(load, given, float(np.sqrt(budget))), None).share_of(whole),
        "ours": _run(load, given, budgets).share_of(whole),
        "knowing": _run(load, given, budgets, tally=whole.tally).share_of(whole),
    }


def _is_exact(load: Workload) -> bool:
    """Whether comparing rows with equal keys finds what comparing all rows finds, if keys are checked afterwards."""
    keys = [_keys_of(load, stream) for stream in (0, 1)]
    whole = _run(load, _keyed(load), None)
    every = _run(load, batches(load), None, condition=Overlap(COMMON), check=lambda a, b: keys[0][a] == keys[1][b])
    return bool(np.array_equal(whole.found, every.found) and np.array_equal(whole.checks, every.checks))


def _run(
    load: Workload,
    given: Batches,
    budgets: Floats | None,
    *,
    tally: Tally | None = None,
    condition: Condition = SameKey(),  # noqa: B008 - it is a frozen value
    check: Predicate | None = None,
) -> KeyedRun:
    settings = SimilarityJoinSettings(condition, SECOND, WINDOW + 1, seed=load.seed)
    settings = settings if tally is None else replace(settings, explore=0.0, explore_at_first=0.0)
    join, answers = SheddingJoin.empty(settings), []
    predicate = check or _Common(load)
    for number, arrivals in enumerate(given):
        budget = None if budgets is None else float(budgets[number])
        join, answer = join.step(arrivals, (number * SECOND,) * 2, budget, predicate=predicate, tally=tally)
        answers.append(answer)
    return KeyedRun(
        np.array([len(answer.left) for answer in answers], float),
        np.array([answer.volume for answer in answers], float),
        Tally.total(answer.tally for answer in answers),
        np.array([int((each.left * 1_000_003 + each.right).sum()) for each in answers]),
    )


def _keyed(load: Workload) -> Batches:
    """The streams of a load with keys in place of sets."""
    keys = [_keys_of(load, stream) for stream in (0, 1)]
    left, right = ([replace(b[s], values=Numbers(keys[s][b[s].row])) for b in batches(load)] for s in (0, 1))
    return list(zip(left, right, strict=True))


def _thinned(load: Workload, given: Batches, rate: float) -> Batches:
    random = np.random.default_rng((load.seed, 7))
    return [(kept(a, random.random(len(a)) < rate), kept(b, random.random(len(b)) < rate)) for a, b in given]


@lru_cache(maxsize=8)
def _keys_of(load: Workload, stream: int) -> Ints:
    random = np.random.default_rng((load.seed, stream, 11))
    popularity = 1.0 / np.arange(1, KEYS + 1) ** SKEW
    return random.choice(KEYS, len(streams(load)[stream]), p=popularity / popularity.sum()).astype(np.int64)


class _Common:
    """Predicate: pairs of rows whose sets have enough items in common."""

    def __init__(self, load: Workload) -> None:
        left, right = (each.values for each in streams(load))
        assert isinstance(left, Sets)
        assert isinstance(right, Sets)
        self.left, self.right = left, right

    def __call__(self, left: Ints, right: Ints) -> Mask:
        one, other = self.left, self.right
        mask: Mask = _common(left, right, one.bounds, one.items, other.bounds, other.items)
        return mask


@njit(cache=True)  # type: ignore[untyped-decorator]
def _common(left, right, bounds, items, others, other_items) -> npt.NDArray[np.bool_]:  # type: ignore[no-untyped-def]  # noqa: ANN001, PLR0917
    """Return which pairs have enough items in common; items are in ascending order."""
    mask = np.zeros(len(left), np.bool_)
    for n in range(len(left)):
        one, two, common = bounds[left[n]], others[right[n]], 0
        while one < bounds[left[n] + 1] and two < others[right[n] + 1]:
            if items[one] == other_items[two]:
                common += 1
            step = items[one] <= other_items[two]
            two += items[one] >= other_items[two]
            one += step
        mask[n] = common >= COMMON
    return mask

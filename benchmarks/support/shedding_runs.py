"""Our join over generated streams: all of it, under a budget, knowing beforehand, and dropping input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from benchmarks.support.shedding_data import SECOND, Workload, batches, kept
from tidegate.physical.common.arrays import Floats, Ints
from tidegate.physical.shedding.kernels.evidence import Tally
from tidegate.physical.similarity_join.kernels.conditions import Condition, Overlap
from tidegate.physical.similarity_join.kernels.join import SheddingJoin
from tidegate.physical.similarity_join.kernels.matching import Method
from tidegate.physical.similarity_join.kernels.model import SimilarityJoinSettings, SimilarityStepResult, Utilities
from tidegate.physical.similarity_join.kernels.slots import SlotArrivals

_THREE = Overlap(3)


@dataclass(frozen=True, slots=True)
class Way:
    """How the join is run. Utilities are given by kind; if it is blind to them, they are only counted."""

    condition: Condition = _THREE
    method: Method = Method.NESTED
    width: float = 1.0
    """Of slots, in seconds; batches are of one second."""
    lookup: int = 0
    utilities: tuple[float, ...] = ()
    blind: bool = False
    explore: float = 0.05
    decay: float = 0.97

    def settings(self, load: Workload) -> SimilarityJoinSettings:
        worth = Utilities(np.array(self.utilities), np.array(self.utilities))
        return SimilarityJoinSettings(
            self.condition,
            round(self.width * SECOND),
            int(np.ceil(max(load.windows) / self.width)) + 1,
            self.method,
            self.lookup,
            worth if self.utilities and not self.blind else None,
            seed=load.seed,
            explore=self.explore,
            explore_at_first=0.3 if self.explore else 0.0,
            decay=self.decay,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What each batch found and cost, and the comparisons by lag."""

    found: Floats
    utility: Floats
    units: Floats
    volume: Floats
    estimated: Floats
    """What the join itself says of its share of results."""
    tallies: tuple[Tally, ...]
    checks: Ints
    """A sum over the pairs of each batch that tells other pairs apart."""

    def share_of(self, other: Run, since: int, until: int | None = None) -> float:
        """The share of another run's results from a batch on."""
        return float(self.found[since:until].sum() / max(1.0, other.found[since:until].sum()))


@lru_cache(maxsize=8)
def full(load: Workload, way: Way) -> Run:
    """All comparisons."""
    return _run(load, way, batches(load), None)


def shed(load: Workload, way: Way, budgets: Floats) -> Run:
    """As many units in each batch as is said."""
    return _run(load, way, batches(load), budgets)


def knowing(load: Workload, way: Way, budgets: Floats, since: int = 0) -> Run:
    """The same, if what all comparisons from a batch on show is known beforehand."""
    way = replace(way, explore=0.0)
    return _run(load, way, batches(load), budgets, Tally.total(full(load, replace(way, blind=True)).tallies[since:]))


def dropped(load: Workload, way: Way, share: float) -> Run:
    """All comparisons of the elements that are left if as many are dropped as leave this share of comparisons."""
    random = np.random.default_rng((load.seed, 7))
    return _run(load, way, list(_thinned(load, float(np.sqrt(share)), random)), None)


def _thinned(load: Workload, rate: float, random: np.random.Generator) -> Iterator[tuple[SlotArrivals, SlotArrivals]]:
    for left, right in batches(load):
        yield kept(left, random.random(len(left)) < rate), kept(right, random.random(len(right)) < rate)


def _run(
    load: Workload,
    way: Way,
    given: list[tuple[SlotArrivals, SlotArrivals]],
    budgets: Floats | None,
    tally: Tally | None = None,
) -> Run:
    join, answers, utility = SheddingJoin.empty(way.settings(load)), [], []
    worth = Utilities(np.array(way.utilities), np.array(way.utilities))
    kinds = _kinds(given) if way.utilities else None
    for number, arrivals in enumerate(given):
        budget = None if budgets is None else float(budgets[number])
        join, answer = join.step(
            _blind(arrivals) if way.blind else arrivals, (number * SECOND,) * 2, budget, tally=tally
        )
        answers.append(answer)
        utility.append(_utility(answer, worth, kinds) if kinds else float(len(answer.left)))
    return Run(
        np.array([len(answer.left) for answer in answers], float),
        np.array(utility),
        np.array([answer.units for answer in answers], float),
        np.array([answer.volume for answer in answers], float),
        np.array([answer.results_share for answer in answers]),
        tuple(answer.tally for answer in answers),
        np.array([_check(answer) for answer in answers]),
    )


def _check(answer: SimilarityStepResult) -> int:
    return int(((answer.left * 1_000_003 + answer.right) * (answer.left ^ answer.right)).sum())


def _blind(arrivals: tuple[SlotArrivals, SlotArrivals]) -> tuple[SlotArrivals, SlotArrivals]:
    left, right = (replace(each, kind=None) for each in arrivals)
    return left, right


def _kinds(given: list[tuple[SlotArrivals, SlotArrivals]]) -> tuple[Ints, Ints]:
    """The kinds of all elements of both streams, by row; rows count from 0 in each."""
    left, right = (np.concatenate([each[s].kind for each in given if each[s].kind is not None]) for s in (0, 1))
    return left, right


def _utility(answer: SimilarityStepResult, worth: Utilities, kinds: tuple[Ints, Ints]) -> float:
    left, right = kinds
    return float(worth.of_pairs(left[answer.left], right[answer.right]).sum())

"""Measuring set-ups by all methods that can bear them, each set-up once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from benchmarks.support.report import say
from benchmarks.support.rts_pictures import Outcome, lines
from benchmarks.support.rts_runs import Costs, Life, least, lived, same, sampled
from benchmarks.support.rts_setups import BATCH, Setup, World, world

MILLION = 1_000_000
METHODS = {1: ("scan", "stabbing", "tracking", "batch"), 2: ("scan", "stabbing", "rtree", "tracking", "batch")}
"""The methods by the number of dimensions, as in the paper."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured; of two numbers of queries, the first is for one dimension, the second for two."""

    threshold: int
    """Of the figures, where it is not varied."""
    thresholds: Sequence[int]
    over_time: tuple[int, int]
    """Of Figure 3."""
    sizes: tuple[Sequence[int], Sequence[int]]
    """Of Figure 4."""
    queries: tuple[int, int]
    """Of Figures 5 to 8."""
    inserting: Sequence[float]
    """The paper's probabilities of new queries."""
    elements: int
    """Of dynamic set-ups."""
    tracked: int
    """The most queries in one dimension for which trees are measured."""
    patience: float
    """Seconds for which a sampled method counts at a moment."""
    repeats: int
    """How often our method lives where that is quick: in one dimension, static."""


FULL = Scale(
    threshold=20 * MILLION,
    thresholds=[5 * MILLION, 10 * MILLION, 20 * MILLION, 40 * MILLION, 80 * MILLION],
    over_time=(MILLION, 100_000),
    sizes=([100_000, 200_000, 500_000, MILLION, 2 * MILLION], [10_000, 20_000, 50_000, 100_000, MILLION]),
    queries=(100_000, 10_000),
    inserting=(0.1, 0.2, 0.3, 0.4, 0.5),
    elements=3 * MILLION,
    tracked=MILLION,
    patience=0.3,
    repeats=5,
)
PAPER = replace(FULL, queries=(MILLION, MILLION), over_time=(MILLION, MILLION), repeats=1)
QUICK = Scale(
    threshold=2 * MILLION,
    thresholds=[500_000, MILLION, 2 * MILLION, 4 * MILLION],
    over_time=(10_000, 2_000),
    sizes=([1_000, 3_000, 10_000], [500, 1_000, 2_000]),
    queries=(3_000, 1_000),
    inserting=(0.1, 0.3, 0.5),
    elements=300_000,
    tracked=100_000,
    patience=0.05,
    repeats=4,
)


@dataclass(slots=True)
class Bench:
    """What was measured, and whether all answers were equal."""

    scale: Scale
    outcomes: dict[Setup, Outcome] = field(default_factory=dict)
    equal: bool = True
    compared: int = 0
    """Answers of other methods that were compared with ours."""

    def warm(self) -> None:
        """Compile everything: all methods live through small lives, and answer the same."""
        for dimensions in (1, 2):
            small = world(Setup(dimensions, 3_000, 300_000, "fixed load", elements=100_000))
            first, *others = (lived(small, method) for method in METHODS[dimensions])
            for other in others:
                self._compare(len(other.answers), equal=same(first, other))

    def outcome(self, setup: Setup) -> Outcome:
        if setup not in self.outcomes:
            self.outcomes[setup] = self._measured(world(setup))
            for line in lines(self.outcomes[setup]):
                say(line)
        return self.outcomes[setup]

    def _measured(self, given: World) -> Outcome:
        repeats = self.scale.repeats if given.setup.dimensions == 1 and given.setup.mode == "static" else 1
        lives = [lived(given, "batch", moments(given.setup)) for _ in range(repeats)]
        self.equal &= all(same(lives[0], life) for life in lives)
        ours = least(lives)
        costs = {method: self._costs(given, ours, method) for method in self.methods(given.setup)}
        return Outcome(given.setup, ours.operations, costs)

    def methods(self, setup: Setup) -> Sequence[str]:
        # In two dimensions trees of trees have more than a hundred entries for each of a million queries.
        most = self.scale.tracked if setup.dimensions == 1 else MILLION - 1
        if setup.queries <= most:
            return METHODS[setup.dimensions]
        return ("scan", "rtree", "batch") if self.scale is PAPER and setup.dimensions > 1 else ("scan", "batch")

    def _costs(self, given: World, ours: Life, method: str) -> Costs:
        match method:
            case "batch":
                return ours.costs
            case "tracking":
                life = lived(given, method)
                self._compare(len(life.answers), equal=same(ours, life))
                return life.costs
            case _:
                found = sampled(given, ours, method, self.scale.patience)
                self._compare(found.answers, equal=found.equal)
                return found.costs

    def _compare(self, answers: int, *, equal: bool) -> None:
        self.equal &= equal and answers > 0
        self.compared += answers


def moments(setup: Setup) -> set[int]:
    """Batches before which sampled methods are asked: now and then, and where queries should be complete."""
    complete, last = setup.lifetime // BATCH, (setup.elements or setup.lifetime) // BATCH - 1
    return {*range(0, last, max(last // 6, 1)), complete - 1, complete, last}

"""Memory and cost with constraints that hold: the paper's Figures 4, 6, 8 and 20 with Table 1, 10 and 11."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.support import kmon_data as made
from benchmarks.support.kmon_data import Interleaved
from benchmarks.support.kmon_runs import Cost, Course, compared, lived
from benchmarks.support.kmon_setups import CHILDREN, ONE_EDGE, PARENTS, Feed, feed
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.model import Bound, Constraints

SEED = 5
SIZES = (2_000, 10_000)
"""Elements of a batch."""

AHEAD = 6 / 5
"""More is made than is processed: at its end, made data has no children for the last parents."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure of memory over time: its constraint, its streams, and how many elements fill the windows."""

    figure: str
    kind: str
    graph: Graph
    count: int
    make: Callable[[int, int], Interleaved]
    """Data of so many arrivals with a k."""
    constraints: Callable[[Interleaved], Constraints]
    """With the exact k of the data."""
    levels: Mapping[int, int]
    """Elements that the specification's simulation kept on data of its own, by k; some are rounded."""

    def feed(self, k: int, count: int) -> tuple[Feed, Constraints]:
        data = self.make(int(AHEAD * count), k)
        return feed(self.graph, data, count), self.constraints(data)


def _arriving(data: Interleaved) -> Constraints:
    return Constraints(arriving={0: Bound(made.joins_k(data, 1, 2, "a")), 1: Bound(made.joins_k(data, 1, 3, "b"))})


def _clustered(data: Interleaved) -> Constraints:
    bounds = {edge: Bound(made.clusters_k(data, edge + 1)) for edge in (0, 1)}
    return Constraints(clustered=bounds, keeps_no=frozenset({2}))


def _ordered_parents(data: Interleaved) -> Constraints:
    bounds = {edge: Bound(made.orders_k(data, edge + 1)) for edge in (0, 1)}
    return Constraints(ordered_parents=bounds, keeps_no=frozenset({2}))


def _ordered_children(data: Interleaved) -> Constraints:
    return Constraints(ordered_children={0: Bound(made.orders_k(data, 2))})


EXPERIMENTS = (
    Experiment(
        "fig4", "rids", CHILDREN, 420_000,
        lambda count, k: made.many_children(count, k, SEED), _arriving,
        {0: 49_862, 1_000: 52_636, 5_000: 62_632, 10_000: 74_959, 20_000: 87_707},
    ),
    Experiment(
        "fig6", "ca", PARENTS, 660_000,
        lambda count, k: made.many_parents(count, k, SEED, ordered=False), _clustered,
        {0: 100, 1_000: 1_100, 5_000: 5_200, 10_000: 10_300, 20_000: 20_600},
    ),
    Experiment(
        "fig8", "oap", PARENTS, 660_000,
        lambda count, k: made.many_parents(count, k, SEED, ordered=True), _ordered_parents,
        {0: 100, 1_000: 1_100, 5_000: 5_200, 10_000: 10_300, 20_000: 20_600},
    ),
    Experiment(
        "fig20", "oac", ONE_EDGE, 360_000,
        lambda count, k: made.one_edge(count, SEED, orders=k), _ordered_children,
        {0: 24_981, 1_000: 26_500, 5_000: 33_000, 10_000: 40_600, 20_000: 48_900},
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What an experiment kept over time for each k, and what an element cost for each k and size of batches."""

    experiment: Experiment
    courses: Mapping[int, Course]
    costs: Mapping[tuple[int, int], Cost]

    @property
    def equal(self) -> bool:
        return all(course.equal and course.results > 0 for course in self.courses.values())

    @property
    def worst_memory(self) -> float:
        """Of what the window join keeps, for the worst k."""
        return max(course.level() / course.window_level() for course in self.courses.values())

    @property
    def worst_of_simulated(self) -> float:
        """Of what the paper's method keeps, for the worst k at the worst moment."""
        return max(course.worst_of_simulated() for course in self.courses.values())

    def worst_cost(self, size: int) -> float:
        """In terms of what the window join costs, for the worst k."""
        return max(_ratio(cost) for (_, each), cost in self.costs.items() if each == size)


def _ratio(cost: Cost) -> float:
    ours, others = cost
    return ours / others


def measured(experiment: Experiment, *, runs: int, part: float) -> Measured:
    """Run an experiment; with a part of the arrivals, windows are not full."""
    courses, costs = {}, {}
    for k in experiment.levels:
        given, constraints = experiment.feed(k, int(part * experiment.count))
        courses[k] = compared(given, constraints, SIZES[0])
        lives = {size: [lived(given, constraints, size, checked=False) for _ in range(runs)] for size in SIZES}
        for size, several in lives.items():
            # Of the runs the one whose ratio is the median: a slow phase of the machine makes both joins slow.
            costs[k, size] = sorted((course.cost() for course in several), key=_ratio)[runs // 2]
    return Measured(experiment, courses, costs)


COMBINED_LEVELS = {"none": 106_000, "ordered children": 79_000, "clustered": 60_000, "both": 31_000}
"""What the specification's simulation kept when its data ended: then children come early, and none is late any more."""


def combined(*, part: float) -> dict[str, Course]:
    """Figure 10: clusters of S1.A without gaps, and order of S3.B, alone and together."""
    count = int(part * 420_000)
    data = made.combined(int(AHEAD * count), SEED)
    given = feed(CHILDREN, data, count)
    order, clusters = {1: Bound(made.orders_k(data, 3, "b"))}, {0: Bound(made.clusters_k(data, 1))}
    ways = {
        "none": Constraints(keeps_no=frozenset({1, 2})),
        "ordered children": Constraints(ordered_children=order, keeps_no=frozenset({1})),
        "clustered": Constraints(clustered=clusters, keeps_no=frozenset({1, 2})),
        "both": Constraints(ordered_children=order, clustered=clusters, keeps_no=frozenset({1})),
    }
    return {name: compared(given, constraints, SIZES[0]) for name, constraints in ways.items()}


DELAYS = (500, 1_000, 1_500, 1_750, 2_000, 2_500, 3_000, 5_000)


@dataclass(frozen=True, slots=True)
class Trade:
    """Figure 11, for one k of join distances: elements kept with clusters alone, and with both."""

    k: int
    clustered: float
    both: float
    both_keeping_no: float
    equal: bool


def traded(k: int, *, part: float) -> Trade:
    """S1 is clustered within 5000; with the constraint on the join, elements of S2 that fail are not kept."""
    count = int(part * 600_000)
    data = made.one_edge(int(AHEAD * count), SEED + k, clusters=5_000, joins=k, selectivity=0.1, multiplicity=2)
    given = feed(ONE_EDGE, data, count)
    clusters, exact = {0: Bound(made.clusters_k(data, 1))}, made.joins_k(data, 1, 2)
    alone = Constraints(clustered=clusters, keeps_no=frozenset({1}))
    both = Constraints(clustered=clusters, arriving={0: Bound(exact)})
    keeping = Constraints(clustered=clusters, arriving={0: Bound(exact)}, keeps_no=frozenset({1}))
    courses = [lived(given, constraints, SIZES[0]) for constraints in (alone, both, keeping)]
    clustered, combined, no_kept = (course.level() for course in courses)
    return Trade(exact, clustered, combined, no_kept, all(course.equal for course in courses))


def crossover(trades: list[Trade]) -> float:
    """The k from which on the combination keeps more than clusters alone."""
    for one, other in pairwise(trades):
        before, after = one.both - one.clustered, other.both - other.clustered
        if before < 0 <= after:
            return one.k + (other.k - one.k) * -before / (after - before)
    return float("nan")

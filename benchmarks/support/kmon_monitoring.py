"""Constraints that are found by watching while their k changes: the paper's Figures 5, 7 and 9."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from benchmarks.baselines.monitor_control import (
    Adherence,
    MonitorSettings,
    Record,
    decide,
    limits_in_force,
)
from benchmarks.support import kmon_data as made
from benchmarks.support.kmon_baseline import WindowJoin
from benchmarks.support.kmon_data import Interleaved, Ints
from benchmarks.support.kmon_setups import CHILDREN, PARENTS, WINDOW, feed
from tidegate.physical.common.kernels.hashing import Hashes, hash_columns
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import Bound, Combinations, Constraints
from tidegate.physical.keyed_join.kernels.monitor import Limits, Observations, WatchedArrivals
from tidegate.physical.keyed_join.kernels.monitor_clusters import ClustersSeen, observe_clusters
from tidegate.physical.keyed_join.kernels.monitor_joins import JoinsSeen, observe_joins
from tidegate.physical.keyed_join.kernels.monitor_orders import OrderedArrivals, OrdersSeen, observe_orders

SIZE = 1_000
"""Elements of a batch."""

BLOCK = 4_000
"""False negatives are counted in blocks of so many elements."""

LOW, HIGH = 1_000, 5_000
TURNS = (
    (0, LOW), (60_000, LOW), (120_000, HIGH), (160_000, HIGH), (220_000, LOW), (260_000, LOW),
    (266_000, HIGH), (310_000, HIGH), (316_000, LOW), (360_000, LOW),
)  # fmt: skip
"""No change, slowly up, slowly down, quickly up, quickly down."""

SETTINGS = MonitorSettings(threshold=20_000, factor=1.2, share=0.01, batches=10)

Observe = Callable[[int, int, Limits], Observations]
"""What is observed from one arrival to another."""


@dataclass(slots=True)
class Watch:
    """An observer, and what it has observed in each batch."""

    observe: Observe
    settings: MonitorSettings
    history: list[Record] = field(default_factory=list)

    def next(self) -> Adherence:
        return decide(self.history[-self.settings.batches :], self.settings)

    def see(self, begin: int, end: int, adherence: Adherence) -> None:
        seen = self.observe(begin, end, limits_in_force(adherence, self.settings, WINDOW))
        self.history.append(Record(adherence, seen))


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """After each batch: the k of the data, the k that was used, if any; and in each block, what part was lost."""

    arrived: Ints
    true: Ints
    used: list[int | None]
    lost: list[float]
    missing: int
    results: int
    sound: bool
    """Whether there were no results that the window join does not have."""


def _hashes(values: Ints) -> Hashes:
    return hash_columns([pa.array(values)])


def _joins(data: Interleaved, child: int, column: Ints) -> Watch:
    hashed, number = _hashes(column), data.number(child)
    seen = JoinsSeen()

    def observe(begin: int, end: int, limits: Limits) -> Observations:
        nonlocal seen
        last = int(number[end - 1])
        parent, other = (begin + np.flatnonzero(data.stream[begin:end] == s) for s in (1, child))
        parents = WatchedArrivals(hashed[parent], number[parent], last)
        children = WatchedArrivals(hashed[other], number[other], last + 1)
        seen, said = observe_joins(seen, parents, children, limits)
        return said

    return Watch(observe, replace(SETTINGS, slack=2 * SIZE // 7))


def _clusters(data: Interleaved, stream: int) -> Watch:
    hashed, number = _hashes(data.a), data.number(stream)
    seen = ClustersSeen()

    def observe(begin: int, end: int, limits: Limits) -> Observations:
        nonlocal seen
        at = begin + np.flatnonzero(data.stream[begin:end] == stream)
        arrivals = WatchedArrivals(hashed[at], number[at], int(number[end - 1]) + 1)
        seen, said = observe_clusters(seen, arrivals, limits, in_rows=True)
        return said

    return Watch(observe, replace(SETTINGS, slack=2 * SIZE // 2))


def _orders(data: Interleaved, stream: int) -> Watch:
    number = data.number(stream)
    seen = OrdersSeen()

    def observe(begin: int, end: int, limits: Limits) -> Observations:
        nonlocal seen
        at = begin + np.flatnonzero(data.stream[begin:end] == stream)
        seen, said = observe_orders(seen, OrderedArrivals(data.a[at], number[at], int(number[end - 1]) + 1), limits)
        return said

    return Watch(observe, replace(SETTINGS, slack=2 * SIZE // 2))


def figure5(*, part: float) -> Followed:
    data = made.many_children(_count(part), _course(part), seed=6)
    watches = {0: _joins(data, 2, data.a), 1: _joins(data, 3, data.b)}
    return _followed(CHILDREN, data, watches, lambda bounds: Constraints(arriving=bounds), part)


def figure7(*, part: float) -> Followed:
    data = made.many_parents(_count(part), _course(part), seed=7, ordered=False)
    watches = {0: _clusters(data, 1), 1: _clusters(data, 2)}
    keeps = frozenset({2})
    return _followed(PARENTS, data, watches, lambda bounds: Constraints(clustered=bounds, keeps_no=keeps), part)


def figure9(*, part: float) -> Followed:
    data = made.many_parents(_count(part), _course(part), seed=8, ordered=True)
    watches = {0: _orders(data, 1), 1: _orders(data, 2)}
    keeps = frozenset({2})
    return _followed(PARENTS, data, watches, lambda bounds: Constraints(ordered_parents=bounds, keeps_no=keeps), part)


def _course(part: float) -> made.Course:
    return made.turning([(int(part * at), int(max(part, 0.5) * k)) for at, k in TURNS])


def _count(part: float) -> int:
    return int(part * TURNS[-1][0]) + 60_000


def _followed(
    graph: Graph,
    data: Interleaved,
    watches: Mapping[int, Watch],
    constraints: Callable[[Mapping[int, Bound]], Constraints],
    part: float,
) -> Followed:
    """Use what is counted on in the join, and count what it misses."""
    given = feed(graph, data, int(part * TURNS[-1][0]))
    join = SynopsisJoin.empty(graph, exact=False, watched=frozenset(watches))
    window = WindowJoin(graph)
    arrived, used, found, expected, sound = [0], [], [], [], True
    for batch, moment in given.batches(SIZE):
        adherence = {edge: watch.next() for edge, watch in watches.items()}
        bounds = {edge: Bound(each.k_used) for edge, each in adherence.items() if each.k_used is not None}
        arrived.append(moment.watermarks[0])
        for edge, watch in watches.items():
            watch.see(arrived[-2], arrived[-1], adherence[edge])
        ours = join.step(batch, moment, constraints(bounds)).combinations
        all_of_them = window.step(batch, moment.watermarks[0])
        sound &= bool(np.isin(_packed(ours), _packed(all_of_them)).all())
        used.append(adherence[0].k_used)
        found.append(len(ours))
        expected.append(len(all_of_them))
    blocks = np.arange(0, len(found), BLOCK // SIZE)
    total, have = np.add.reduceat(expected, blocks), np.add.reduceat(found, blocks)
    lost = np.where(total > 0, (total - have) / np.maximum(total, 1), 0.0)
    ends = np.array(arrived[1:])
    return Followed(ends, _course(part)(ends), used, lost.tolist(), int((total - have).sum()), int(total.sum()), sound)


def _packed(given: Combinations) -> Ints:
    """A number for each combination."""
    packed = given.rows[0]
    for rows in given.rows[1:]:
        packed = (packed << 21) | rows
    return packed

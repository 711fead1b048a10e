"""Running the methods: through the whole life of a set-up, or at moments of it, with answers compared.

The batch method and the paper's method live through everything. Scan, stabbing and the R-tree, which cost the same as
long as the same queries are live, are put into the state of some moments and count as many elements as they
can in a short while; what they cost between two moments is interpolated.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.baselines.rtree import RTreeTracker
from benchmarks.baselines.scan import ScanTracker
from benchmarks.baselines.stabbing import StabbingTracker
from benchmarks.baselines.tracking import DistributedTracker
from benchmarks.support.rts_setups import BATCH, Load, World
from tidegate.physical.common.arrays import Floats, Ints
from tidegate.physical.subscriptions.kernels.batch import BatchTracker
from tidegate.physical.subscriptions.kernels.model import (
    CompletedSubscriptions,
    RangeTracker,
    Subscriptions,
    WeightedElements,
)

SAMPLED = ("scan", "stabbing", "rtree")
FEWEST = 250
"""Elements after which a sampled method looks at the clock; then again after twice as many as before."""


def tracker_of(method: str, dimensions: int) -> RangeTracker:
    match method:
        case "scan":
            return ScanTracker()
        case "stabbing":
            return StabbingTracker()
        case "rtree":
            return RTreeTracker()
        case "tracking":
            return DistributedTracker()
        case _:
            return BatchTracker.empty(dimensions)


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """The processor's seconds that a method takes, at first and in each batch."""

    build: float
    absorb: Floats
    change: Floats
    """For terminations and registrations; of sampled methods nothing, which favours them."""

    @property
    def total(self) -> float:
        return self.build + float(self.absorb.sum() + self.change.sum())

    @property
    def per_element(self) -> float:
        """Microseconds for taking in an element, on average over the life."""
        return float(self.absorb.sum()) / (len(self.absorb) * BATCH) * 1e6


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """The live queries before a batch, and what each of them lacks."""

    batch: int
    ranges: Subscriptions
    missing: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Life:
    """What a method answered and what it cost, from the first batch to the last."""

    costs: Costs
    answers: CompletedSubscriptions
    """With positions among all elements."""
    operations: Ints
    """Elements, registrations, terminations and maturities: at first, and in each batch."""
    knew: bool
    """Whether all queries were known that were terminated."""
    moments: list[Moment]

    @property
    def batches(self) -> int:
        return len(self.costs.absorb)


class Clock:
    """The processor's time that pieces of work take."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._began = time.process_time()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.process_time() - self._began

    def taken(self) -> float:
        """The time since it was asked for last."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


def lived(world: World, method: str, moments: Collection[int] = ()) -> Life:
    """Let a method count until nothing is live or the stream has ended."""
    tracker, load, clock = tracker_of(method, world.setup.dimensions), Load(world), Clock()
    first = load.first()
    with clock:
        tracker = tracker.register(first)
    build, rows, found, seen, knew = clock.taken(), [], [], [], True
    for number in range(world.setup.batches):
        if number in moments:
            seen.append(Moment(number, *tracker.live_subscriptions()))
        with clock:
            tracker, matured = tracker.absorb(world.batch(number))
        absorb = clock.taken()
        leaving = load.leaving(number, matured.id)
        new = load.coming(number, len(matured) + len(leaving))
        with clock:
            tracker, known = tracker.terminate(leaving)
            tracker = tracker.register(new)
        rows.append((absorb, clock.taken(), BATCH + len(matured) + len(leaving) + len(new)))
        found.append(replace(matured, element=matured.element + number * BATCH))
        knew &= bool(known.all())
        if not load.live:
            break
    absorb_seconds, change, operations = (np.array(column) for column in zip(*rows, strict=True))
    costs = Costs(build, absorb_seconds, change)
    return Life(costs, _joined(found), np.concatenate(([len(first)], operations)), knew, seen)


def _joined(found: list[CompletedSubscriptions]) -> CompletedSubscriptions:
    columns = zip(*((part.id, part.element, part.total) for part in found), strict=True)
    return CompletedSubscriptions(*(np.concatenate(column) for column in columns))


def least(lives: list[Life]) -> Life:
    """Equal lives as one, of which everything took the least time that it took in any of them."""
    all_costs = [life.costs for life in lives]
    absorb = np.minimum.reduce([costs.absorb for costs in all_costs])
    change = np.minimum.reduce([costs.change for costs in all_costs])
    return replace(lives[0], costs=Costs(min(costs.build for costs in all_costs), absorb, change))


def same(one: Life, other: Life) -> bool:
    """Whether two methods gave the same answers, and knew the same queries."""
    return one.knew and other.knew and one.batches == other.batches and _equal(one.answers, other.answers)


def _equal(one: CompletedSubscriptions, other: CompletedSubscriptions) -> bool:
    pairs = ((one.id, other.id), (one.element, other.element), (one.total, other.total))
    return all(np.array_equal(mine, yours) for mine, yours in pairs)


@dataclass(frozen=True, slots=True)
class Sampled:
    """What a method costs if asked at some moments, on how many elements, and whether its answers are right."""

    costs: Costs
    elements: int
    answers: int
    equal: bool


def sampled(world: World, life: Life, method: str, patience: float) -> Sampled:
    """Count some elements from each moment of a life, and compare with what the life answered then."""
    build, prices, elements, answers, equal = 0.0, [], 0, 0, True
    for moment in life.moments:
        clock = Clock()
        with clock:
            tracker = tracker_of(method, world.setup.dimensions).resume(moment.ranges, moment.missing)
        build = build or clock.taken()
        seconds, done, found = _counted(tracker, world.batch(moment.batch), patience)
        prices.append(seconds / done)
        equal &= _equal(found, _between(life.answers, moment.batch * BATCH, done))
        elements, answers = elements + done, answers + len(found)
    # Queries leave at a steady rate: what they cost falls by equal factors in equal times.
    at = [moment.batch for moment in life.moments]
    absorb = BATCH * np.exp(np.interp(np.arange(life.batches), at, np.log(prices)))
    return Sampled(Costs(build, absorb, np.zeros(life.batches)), elements, answers, equal)


def _counted(
    tracker: RangeTracker, batch: WeightedElements, patience: float
) -> tuple[float, int, CompletedSubscriptions]:
    """The seconds for the first elements of a batch, how many they were, and what they completed."""
    clock, found, done, end = Clock(), [], 0, FEWEST
    while done < len(batch) and clock.seconds < patience:
        with clock:
            tracker, matured = tracker.absorb(batch.take(slice(done, end)))
        found.append(replace(matured, element=matured.element + done))
        done, end = end, min(3 * end, len(batch))
    return clock.seconds, done, _joined(found)


def _between(answers: CompletedSubscriptions, begin: int, count: int) -> CompletedSubscriptions:
    """The answers for elements from a position on, counted from there."""
    rows = slice(*np.searchsorted(answers.element, [begin, begin + count]))
    return CompletedSubscriptions(answers.id[rows], answers.element[rows] - begin, answers.total[rows])

"""The set-ups of the paper's section 8: what is registered, what arrives, and who leaves when.

Values are uniform over the integers to 100,000 in each dimension, weights normal around 100; ranges are
squares that hold a tenth of the volume and lie around the centre; all thresholds are equal. A live query is
terminated at any element with the probability that lets one in ten live until it should be complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tidegate.physical.common.arrays import Floats, Ints, Mask
from tidegate.physical.subscriptions.kernels.model import Subscriptions, WeightedElements

DOMAIN = 100_000
BATCH = 10_000
"""Elements of a batch; queries come and go at the ends of batches."""

SURVIVING = 0.1
"""The share of queries that live until they should be complete."""

Mode = Literal["static", "stochastic", "fixed load"]


@dataclass(frozen=True, slots=True)
class Setup:
    """So many queries at first, in one dimension or two, with one threshold."""

    dimensions: int
    queries: int
    threshold: int = 20_000_000
    mode: Mode = "static"
    inserting: float = 0.0
    """Stochastic: with which probability a query comes with an element, during the first two thirds."""
    elements: int = 0
    """How many arrive; static: until all queries have left."""

    @property
    def name(self) -> str:
        inserting = f" p {self.inserting:g}" if self.inserting else ""
        return f"{self.dimensions}D {self.mode}{inserting}, m {short(self.queries)}, tau {short(self.threshold)}"

    @property
    def lifetime(self) -> int:
        """Elements after which a query should be complete: one in ten is in its range, and weighs a hundred."""
        return self.threshold // 10

    @property
    def batches(self) -> int:
        return (self.elements or self.lifetime * 5 // 4) // BATCH


def short(number: float) -> str:
    """As people write it: 100 k, 2 M."""
    if number >= 1_000_000:
        return f"{number / 1e6:g} M"
    return f"{number / 1e3:g} k" if number >= 1_000 else f"{number:g}"


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """All queries that there may be, in order of registration, and all elements."""

    setup: Setup
    ranges: Subscriptions
    batches_to_live: Ints
    coming: Ints
    """Stochastic: how many queries come at the end of each batch."""
    stream: WeightedElements

    def batch(self, number: int) -> WeightedElements:
        return self.stream.take(slice(number * BATCH, (number + 1) * BATCH))


def world(setup: Setup) -> World:
    random = np.random.default_rng(8)
    coming = np.zeros(setup.batches, np.int64)
    if setup.mode == "stochastic":
        coming[: setup.batches * 2 // 3] = random.binomial(BATCH, setup.inserting, setup.batches * 2 // 3)
    count = setup.queries + int(coming.sum())
    if setup.mode == "fixed load":
        # Lives are exponential, but cut off where they should be complete; somewhat more than that will do.
        count += int(1.1 * setup.queries * setup.elements / setup.lifetime * -np.log(SURVIVING) / (1 - SURVIVING))
        count += BATCH
    ends = 1 - SURVIVING ** (1 / setup.lifetime)
    life = (random.geometric(ends, count) - 1) // BATCH
    stream = elements(setup.batches * BATCH, setup.dimensions, random)
    return World(setup, queries(setup, count, random), life, coming, stream)


def queries(setup: Setup, count: int, random: np.random.Generator) -> Subscriptions:
    side = DOMAIN * 0.1 ** (1 / setup.dimensions)
    centre = np.column_stack([_centres(count, side, random) for _ in range(setup.dimensions)])
    low = np.floor(centre - side / 2).astype(np.int64)
    closed = np.zeros(low.shape, np.bool_)
    return Subscriptions(np.arange(count), low, low + int(side), closed, closed, np.full(count, setup.threshold))


def _centres(count: int, side: float, random: np.random.Generator) -> Floats:
    found = np.empty(0)
    while len(found) < count:
        some = random.normal(DOMAIN / 2, 0.15 * DOMAIN / 2, count)
        found = np.concatenate((found, some[(some >= side / 2) & (some <= DOMAIN - side / 2)]))
    return found[:count]


def elements(count: int, dimensions: int, random: np.random.Generator) -> WeightedElements:
    value = random.integers(0, DOMAIN + 1, (count, dimensions))
    return WeightedElements(value, np.maximum(np.rint(random.normal(100, 15, count)), 1).astype(np.int64))


class Load:
    """Which queries are live as a run goes on, and who comes and goes at the end of a batch."""

    def __init__(self, given: World) -> None:
        self._world = given
        self._live: Mask = np.zeros(len(given.ranges), np.bool_)
        self._last: Ints = np.full(len(given.ranges), -1)
        """The batch at whose end each query is terminated."""
        self._registered = 0

    @property
    def live(self) -> int:
        return int(np.count_nonzero(self._live))

    def first(self) -> Subscriptions:
        """The queries that are registered before everything."""
        return self._register(self._world.setup.queries, 0)

    def leaving(self, number: int, matured: Ints) -> Ints:
        """Those to terminate at the end of a batch in which others have matured."""
        self._live[matured] = False
        gone = np.flatnonzero(self._live[: self._registered] & (self._last[: self._registered] == number))
        self._live[gone] = False
        return gone

    def coming(self, number: int, left: int) -> Subscriptions:
        """Those to register at the end of a batch in which so many have left."""
        wanted = left if self._world.setup.mode == "fixed load" else int(self._world.coming[number])
        return self._register(wanted, number + 1)

    def _register(self, wanted: int, number: int) -> Subscriptions:
        new = slice(self._registered, self._registered + wanted)
        assert new.stop <= len(self._live), "there are not enough queries"
        self._live[new] = True
        self._last[new] = number + self._world.batches_to_live[new]
        self._registered = new.stop
        return self._world.ranges.take(new)

"""Knowledge about a graph, on which its estimate depends: sources, steps, operators, and prices of work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from math import expm1, inf, log1p

from tidegate.algebra.plan import Validity
from tidegate.catalog.catalog import SourceStream
from tidegate.costs.characteristics import Characteristics
from tidegate.costs.estimates import NOTHING_KNOWN, SECOND, CostContext, Flow, OperatorKnowledge, Prices, Work
from tidegate.runtime.costs.prices import DEFAULT_PRICES, USUAL_PRICES, load_prices
from tidegate.runtime.job import Progress
from tidegate.time import BEGINNING, CHRONON, FOREVER
from tidegate.values import value

Place = tuple[int, int]
"""A stage, and the number of an operator in it."""

USUAL_SOURCE = Flow.of(Characteristics(1_000.0, 1.0))
"""Assumed of a source of which nothing is known: a thousand rows a second."""

USUAL_LENGTH = 60.0 * SECOND
"""Assumed length of the validities of rows that bring their own."""

USUAL_TABLE = 1_000.0
"""Assumed number of rows of a table."""

USUAL_STEP = SECOND
"""Assumed length of a step."""


@value
class Knowledge:
    """What is known of a graph."""

    sources: Mapping[str, Flow] = field(default_factory=dict)
    operators: Mapping[Place, OperatorKnowledge] = field(default_factory=dict)
    factors: Mapping[Place, float] = field(default_factory=dict)
    """Measured seconds of operators, relative to those that the prices say."""
    prices: Mapping[str, Prices] = field(default_factory=lambda: DEFAULT_PRICES)
    step: float = USUAL_STEP
    """Length of a step, in microseconds of application time."""
    elapsed: float = inf
    """How long streams have lasted, in microseconds; infinite for estimates of a steady state."""
    ages: Mapping[int, float] = field(default_factory=dict)
    """How long stages have got elements, of those that came later than the streams."""
    buckets: int = 1
    assumed: frozenset[str] = frozenset()
    """Streams of which nothing is known."""

    def source(self, stream: str) -> Flow:
        return self.sources.get(stream, USUAL_SOURCE)

    def context(self, place: Place, sizes: Mapping[str, float]) -> CostContext:
        """Return what an estimate of an operator depends on besides its inputs."""
        elapsed = min(self.elapsed, self.ages.get(place[0], inf))
        return CostContext(self.operators.get(place, NOTHING_KNOWN), self.step, elapsed, sizes)

    def seconds_of(self, place: Place, work: Work) -> float:
        """Return the processor seconds of an operator in a second of application time."""
        priced = self.prices.get(work.kind, USUAL_PRICES).seconds_of(self.count_buckets(work))
        return priced * self.factors.get(place, 1.0)

    def count_buckets(self, work: Work) -> Work:
        """Return the work of an operator in all buckets: its rows are spread, but each bucket has a step of its own."""
        share = min(work.busy / work.steps, 1.0 - 1e-12) if work.steps else 0.0
        busy = -work.steps * self.buckets * expm1(log1p(-share) / self.buckets)
        return replace(work, steps=work.steps * self.buckets, parts=work.parts * self.buckets, busy=busy)


def know_streams(streams: Mapping[str, SourceStream], runs: Iterable[Progress] = (), buckets: int = 1) -> Knowledge:
    """Return what runs know of source streams, and of their steps; what they do not know is assumed."""
    distances: dict[str, float] = {}
    tables: dict[str, float] = {}
    step, elapsed = USUAL_STEP, 0.0
    for run in runs:
        marks = []
        for name, each in run.distances.copy().items():
            distances |= {} if each.used is None else {name: each.used}
            marks += [each.watermark - each.since] if each.since > BEGINNING else []
        tables |= {name: float(each.rows) for name, each in run.sources.copy().items()}
        if max(marks, default=0) > 0:
            elapsed = max(elapsed, float(max(marks)))
            step = float(max(marks)) / max(run.steps, 1)
    sources = know_sources(streams, distances, tables)
    known = Knowledge(sources, prices=load_prices(), step=step, elapsed=elapsed or inf, buckets=buckets)
    return replace(known, assumed=frozenset(streams) - distances.keys() - tables.keys())


def know_sources(
    streams: Mapping[str, SourceStream], distances: Mapping[str, float], tables: Mapping[str, float]
) -> dict[str, Flow]:
    """Return the flows of source streams, given the distances of the elements of some, and the rows of some tables."""
    found = {}
    for name, stream in streams.items():
        match stream.validity:
            case Validity.RELATION:
                rows = max(tables.get(name, USUAL_TABLE), 1.0)
                found[name] = Flow.of(Characteristics(FOREVER / rows, float(FOREVER)), mark=-float(FOREVER))
                continue
            case Validity.INTERVAL:
                length = USUAL_LENGTH
            case Validity.INSTANT:
                length = float(CHRONON)
        distance = distances.get(name, USUAL_SOURCE.characteristics.distance)
        found[name] = Flow.of(Characteristics(distance, length)).with_distance(distance, float(stream.delay))
    return found

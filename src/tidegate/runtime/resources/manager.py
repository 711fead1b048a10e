"""The resource manager: after a step it compares what a run uses with its limits, and changes sizes where it must.

It learns what operators cost while they run. Nothing that it knows is recorded: only the sizes that it decides are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic

from tidegate.algebra.plan import Scan, walk
from tidegate.algebra.properties.validities import validity_bound
from tidegate.catalog.catalog import SourceStream
from tidegate.catalog.limits import NO_LIMITS
from tidegate.errors import TidegateWarning
from tidegate.physical.common.sizes import SizeHistory
from tidegate.runtime.adaptation import Adaptation, AdjustedWindow, AdjustedWindows
from tidegate.runtime.costs.estimate import estimate_graph, total_of
from tidegate.runtime.costs.knowledge import Knowledge, know_streams
from tidegate.runtime.costs.learn import NO_SAMPLE, RunSample, learn, learn_sources, span_between
from tidegate.runtime.figures import figures_of_operators
from tidegate.runtime.resources.choose_sizes import Sizes, nearest_size
from tidegate.runtime.resources.decide import (
    Corrections,
    Situation,
    SizeDecision,
    Steadiness,
    Usage,
    decide_sizes_within,
)
from tidegate.runtime.resources.fullness import Fullness
from tidegate.runtime.resources.knowledge import assume_unread, carry_knowledge, only_of_stages, smooth_rates
from tidegate.runtime.stage_graph import StageGraph
from tidegate.runtime.state import sizes_of_operators
from tidegate.time import BEGINNING, FOREVER

BUSY_SHARE, BUSY_AT_FIRST = 0.05, 1.0
"""Largest share of time that the manager itself takes, and seconds that it may take besides."""

SMOOTHING = 0.3
"""Weight of a new measurement in the averages of processor time and delay."""

SPAN_OF_RATES, SPAN_OF_FIRST_LEARNING, SPAN_OF_LEARNING = 1 / 20, 1 / 10, 1 / 4
"""Time over which rates are measured, and operators while windows fill and later, as parts of the longest window."""


MOST_EVIDENCE = 100.0
"""Results for which the selectivity of an operator counts that is known from before, at most."""


class ResourceManager:
    """Hook of a job that keeps it within limits. It remembers what it has learnt from step to step."""

    def __init__(self, buckets: int = 1, clock: Callable[[], float] = monotonic) -> None:
        self._buckets, self._clock = buckets, clock
        self._began, self._busy = clock(), 0.0
        """When the manager began, and for how many seconds it has decided since."""
        self._knowledge: Knowledge | None = None
        self._corrections = Corrections()
        self._steadiness = Steadiness()
        self._used, self._seconds = Usage(), 0.0
        self._rates_since, self._learns_since = NO_SAMPLE, NO_SAMPLE
        self._measured: frozenset[str] = frozenset()
        """Streams whose rates were measured."""
        self._graph: StageGraph | None = None
        self._fullness = Fullness()
        self._now: int | None = None
        """Newest application time of the step before."""
        self._learnt: frozenset[int] = frozenset()
        """Stages whose operators were learnt."""
        self._sizes: deque[tuple[int, int]] = deque()
        """Instants and sizes of the state, of which each is smaller than those before."""

    def __call__(self, seen: Adaptation) -> Mapping[str, SizeHistory]:
        """Return the histories that change after a step."""
        now = _application_time(seen.watermarks)
        if now is None:
            return {}
        if forced := _forced_sizes(seen):
            return _histories(seen, forced, "a query needs it" if seen.limits != NO_LIMITS else "there is no limit")
        if seen.limits == NO_LIMITS:
            return {}
        self._note_step(seen)
        if not seen.windows:
            if self._used.exceeds(seen.limits) is not None:
                seen.warn(_shortfall_warning())
            return {}
        began = self._clock()
        if not self._knows_rates(seen) or self._busy > BUSY_AT_FIRST + BUSY_SHARE * (began - self._began):
            return {}
        decided = self._decide(seen, now)
        before = {key: each.newest.size for key, each in seen.sizes.items()}
        changed = _histories(seen, decided.changes(before), decided.reason)
        self._busy += self._clock() - began
        return changed

    def estimate(self, graph: StageGraph, sizes: Sizes) -> Usage:
        """Return what a graph that runs would need with some sizes, by what was learnt of it."""
        return self._correct(total_of(estimate_graph(graph, self._knowledge or Knowledge(), sizes)))

    def _correct(self, needed: tuple[float, float]) -> Usage:
        size, seconds = needed
        return Usage(size * self._corrections.memory, seconds * self._corrections.cpu)

    def least_usage(
        self, graph: StageGraph, streams: Mapping[str, SourceStream], windows: AdjustedWindows
    ) -> Usage | None:
        """Return what a graph would need with the worst sizes; None if the rate of a stream was not measured yet."""
        unknown = [name for name, each in streams.items() if not each.is_table and name not in self._measured]
        if unknown or self._knowledge is None or self._graph is None:
            return None
        known = carry_knowledge(self._knowledge, self._graph, graph)
        sizes = {key: each.bounds.worst for key, each in windows.items()}
        return self._correct(total_of(estimate_graph(graph, known, sizes)))

    def _note_step(self, seen: Adaptation) -> None:
        """Update the rates of sources, and the averages of what steps use."""
        now = _newest_time(seen.watermarks)
        # What is new got its first elements after the step before.
        self._follow_graph(seen.graph, now if self._now is None else self._now)
        self._now, known = now, self._know_streams(seen)
        sample = RunSample(watermarks=dict(seen.watermarks), rows=dict(seen.arrived), steps=seen.step)
        span = span_between(self._rates_since, sample)
        delay, cpu = _smooth(self._used.delay, seen.seconds * 1e6), self._used.cpu
        self._seconds += seen.seconds
        if self._rates_since is NO_SAMPLE:
            self._rates_since, self._seconds = sample, 0.0
        elif span is not None and span.time >= _longest_effect(seen, known) * SPAN_OF_RATES:
            cpu = _smooth(cpu, self._seconds * 1e6 / span.time)
            learnt = smooth_rates(learn_sources(seen.graph, known, span), known, span, self._measured)
            self._knowledge = assume_unread(learnt, seen.graph.streams)
            # A stream that came in between was not read in the whole span.
            self._measured |= self._rates_since.rows.keys()
            self._fullness = self._fullness.with_load(now, self._rates())
            self._rates_since, self._seconds = sample, 0.0
        self._used = Usage(self._peak_of_memory(seen, known), cpu, delay)
        sizes = {key: each.newest.size for key, each in seen.sizes.items()}
        self._fullness = self._fullness.with_sizes(now, sizes, _longest_effect(seen, known))

    def _peak_of_memory(self, seen: Adaptation, known: Knowledge) -> float:
        """Return the largest size of the state in the time of the longest window: states grow until they are merged."""
        now, sizes = _application_time(seen.watermarks) or BEGINNING, self._sizes
        oldest = now - _longest_effect(seen, known)
        while sizes and sizes[-1][1] <= seen.state.bytes:
            sizes.pop()
        while sizes and sizes[0][0] < oldest:
            sizes.popleft()
        sizes.append((now, seen.state.bytes))
        return float(self._sizes[0][1])

    def _rates(self) -> dict[str, float]:
        """Return the rates of the streams that were measured."""
        sources = {} if self._knowledge is None else self._knowledge.sources
        return {name: each.rate for name, each in sources.items() if name in self._measured and each.mark > BEGINNING}

    def _follow_graph(self, graph: StageGraph, since: int) -> None:
        """Keep what is known of the operators that stay when queries come or go."""
        if self._graph is graph:
            return
        if self._graph is not None:
            if self._knowledge is not None:
                self._knowledge = carry_knowledge(self._knowledge, self._graph, graph)
            self._learns_since, self._learnt = NO_SAMPLE, self._learnt & graph.numbers
        self._graph, self._fullness = graph, self._fullness.in_graph(graph.numbers, since)

    def _know_streams(self, seen: Adaptation) -> Knowledge:
        """Return what is known; of new streams, what is assumed."""
        known = self._knowledge
        if known is None or not known.sources.keys() >= seen.streams.keys():
            first = know_streams(seen.streams, buckets=self._buckets)
            if known is None:
                known = first
            else:
                new = first.assumed - known.sources.keys()
                known = replace(known, sources={**first.sources, **known.sources}, assumed=known.assumed | new)
        self._knowledge = known
        return known

    def _knows_rates(self, seen: Adaptation) -> bool:
        return all(name in self._measured or each.is_table for name, each in seen.streams.items())

    def _decide(self, seen: Adaptation, now: int) -> SizeDecision:
        sizes = {key: each.newest.size for key, each in seen.sizes.items()}
        known = self._know_streams(seen)
        effect, (expected, _) = _longest_effect(seen, known), total_of(estimate_graph(seen.graph, known, sizes))
        self._steadiness = self._steadiness.after(expected, now)
        # The largest state of a window's length is steady when the last change had its full effect before that.
        steady_for = now - self._steadiness.changed_at
        may_grow, is_settled = steady_for >= effect, steady_for >= 2 * effect
        self._learn_operators(seen)
        known = self._know_streams(seen)

        def estimate(some: Sizes) -> Usage:
            return Usage(*total_of(estimate_graph(seen.graph, known, some)))

        bounds = {key: each.bounds for key, each in seen.windows.items()}
        is_learnt = self._learnt >= seen.graph.numbers
        situation = Situation(self._used, sizes, bounds, may_grow, is_settled, is_learnt)
        decided = decide_sizes_within(seen.limits, situation, estimate, self._corrections)
        self._corrections = decided.corrections
        if decided.shortfall is not None:
            seen.warn(_shortfall_warning())
        if decided.changes(sizes):
            self._steadiness = Steadiness(estimate(decided.sizes).memory, now)
        return decided

    def _learn_operators(self, seen: Adaptation) -> None:
        """Learn what operators give and cost, whether or not their windows are full: it is known how full they are."""
        now = _newest_time(seen.watermarks)
        sample, known = _sample(seen), self._know_streams(seen)
        span, effect = span_between(self._learns_since, sample), _longest_effect(seen, known)
        stages = self._fullness.learnable(seen.graph, now, effect)
        if span is None:
            self._learns_since = sample
            return
        fills = not stages <= self._learnt or self._fullness.ages(now, effect).keys() & stages
        if span.time >= effect * (SPAN_OF_FIRST_LEARNING if fills else SPAN_OF_LEARNING):
            middle = now - span.time / 2
            held = self._fullness.sizes_at(middle, {key: each.bounds for key, each in seen.windows.items()})
            filling = replace(known, ages=self._fullness.ages(middle, effect))
            figures = self._learns_since.figures.items()
            evidence = {place: min(float(each.rows_out), MOST_EVIDENCE) for place, each in figures}
            learnt = learn(seen.graph, filling, span, held, evidence=evidence)
            self._knowledge = replace(only_of_stages(learnt, known, stages), sources=known.sources, ages={})
            self._learnt, self._learns_since = self._learnt | stages, sample


def _forced_sizes(seen: Adaptation) -> dict[str, int]:
    """Return sizes that must change whatever is used: those that a query does not allow, and all without limits."""
    newest = {key: each.newest.size for key, each in seen.sizes.items()}
    if seen.limits == NO_LIMITS:
        wanted = {key: each.bounds.best for key, each in seen.windows.items()}
    else:
        wanted = {key: nearest_size(each.bounds, newest[key]) for key, each in seen.windows.items()}
    return {key: size for key, size in wanted.items() if newest[key] != size}


def _histories(seen: Adaptation, sizes: Sizes, reason: str) -> dict[str, SizeHistory]:
    """Return the histories of windows that get other sizes."""
    found = {key: seen.change(key, size, reason) for key, size in sizes.items()}
    return {key: each for key, each in found.items() if each != seen.sizes[key]}


def _shortfall_warning() -> TidegateWarning:
    message = "the limits cannot be kept, even with the smallest windows and coarsest granules that queries allow"
    hint = "raise the limits, allow more with RANGE MIN … MAX …, or drop queries; EXPLAIN COST shows what each needs"
    return TidegateWarning("W340", message, hint=hint)


def _sample(seen: Adaptation) -> RunSample:
    """Return what the run knows of itself now."""
    figures = figures_of_operators(seen.figures.copy())
    sizes = sizes_of_operators(seen.operator_sizes())
    return RunSample(figures, sizes, dict(seen.watermarks), dict(seen.arrived), seen.step)


def _application_time(watermarks: Mapping[str, int]) -> int | None:
    """Return how far all streams are; None before all have begun, and after all have ended."""
    known = [mark for mark in watermarks.values() if mark < FOREVER]
    now = min(known, default=BEGINNING)
    return None if now == BEGINNING else now


def _newest_time(watermarks: Mapping[str, int]) -> int:
    """Return how far the newest stream is. That is the clock of spans: a slow stream is late, and then jumps."""
    return max((mark for mark in watermarks.values() if mark < FOREVER), default=BEGINNING)


def _longest_effect(seen: Adaptation, known: Knowledge) -> int:
    """Return how long it takes until a change has its full effect: the longest validity of an adaptable window."""
    return max((_effect_of(each, known) for each in seen.windows.values()), default=0)


def _effect_of(window: AdjustedWindow, known: Knowledge) -> int:
    length = validity_bound(window.node)
    if length is not None:
        return length
    streams = {each.stream for each in walk(window.node) if isinstance(each, Scan)}
    distances = (known.source(stream).characteristics.distance for stream in streams)
    return round(window.bounds.best * max(distances)) if window.bounds.kind == "rows" else 0


def _smooth(known: float, new: float) -> float:
    return new if known == 0 else known + SMOOTHING * (new - known)

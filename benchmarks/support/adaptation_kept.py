"""What a run within a limit did, compared with the best that its cost model allows (PIPES, section 24.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from benchmarks.support.adaptation_runs import Moment, Watched
from tidegate.runtime.resources.choose_sizes import sizes_at
from tidegate.runtime.resources.decide import quality_of
from tidegate.runtime.resources.manager import ResourceManager

FRACTIONS = np.linspace(1.0, 0.0, 101)
GRANULES = np.linspace(1.0, 0.0, 5)


@dataclass(frozen=True, slots=True)
class Compared:
    """The quality at a moment, and what brute force finds on the cost model: the best that fits, the least memory."""

    quality: float
    best: float | None
    """None: nothing fits into the limit without its reserve."""
    least: float
    """The least memory of all sizes, relative to the limit."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a run in which queries and rates stay as they are; times are in seconds.

    Estimates vary with the rows that came last, and the best quality with them. So moments of the last window are
    compared, and averages count.
    """

    name: str
    begin: float
    end: float
    compared: tuple[Compared, ...]

    @property
    def quality(self) -> float:
        return fmean(each.quality for each in self.compared)

    @property
    def best(self) -> float:
        return fmean(each.best or 0.0 for each in self.compared)

    @property
    def least(self) -> float:
        return fmean(each.least for each in self.compared)

    @property
    def is_feasible(self) -> bool:
        """Return whether any sizes keep the limit."""
        return self.least <= 1.0

    @property
    def quality_vs_best(self) -> float | None:
        """Return the quality relative to the best one; None if nothing but the worst sizes fits at any moment."""
        return self.quality / self.best if self.best else None


@dataclass(slots=True)
class Kept:
    """What a managed run did: its moments, its limit, and the spans between changes of load or queries."""

    limit: float
    watched: Watched
    spans: list[Span] = field(default_factory=list)
    events: list[float] = field(default_factory=list)
    """When queries came or rates changed, in seconds."""
    warnings: int = 0

    @property
    def now(self) -> float:
        return self.watched.moments[-1].now if self.watched.moments else 0.0

    def end_span(self, name: str, compared: Sequence[Compared]) -> None:
        """Note what was reached since the last event."""
        self.spans.append(Span(name, self.events[-1], self.now, tuple(compared)))

    def is_steady(self, now: float, time: float) -> bool:
        """Return whether no event was in the time before."""
        return now >= time and not any(each <= now < each + time for each in self.events)

    def overshoot_in(self, span: Span, window: float) -> float:
        """Return the most memory relative to the limit in a span, from a window after its beginning on."""
        found = (each for each in self.watched.moments if span.begin <= each.now <= span.end)
        return max((each.memory / self.limit for each in found if self.is_steady(each.now, window)), default=0.0)

    def overshoot(self, window: float) -> float:
        """Return the most memory in all spans in which the limit can be kept."""
        return max((self.overshoot_in(each, window) for each in self.spans if each.is_feasible), default=0.0)

    def quality_vs_best(self) -> float:
        found = [each.quality_vs_best for each in self.spans]
        return min((each for each in found if each is not None), default=1.0)

    def missing_quality(self) -> float:
        """Return by how much quality is below the best one, at most."""
        return max(each.best - each.quality for each in self.spans)

    def changes_per_window(self, window: float) -> float:
        """Return how often sizes change in the time of the longest window while nothing else changes."""
        moments = self.watched.moments
        steady = [each.now for each in moments if self.is_steady(each.now, 2 * window)]
        step = moments[1].now - moments[0].now
        changed = [each for each in self.watched.changes if self.is_steady(each, 2 * window)]
        return len(changed) * window / (step * max(len(steady), 1))

    @property
    def largest(self) -> float:
        """Return the most memory at any time, relative to the limit."""
        return max(each.memory for each in self.moments) / self.limit

    @property
    def moments(self) -> list[Moment]:
        return self.watched.moments


def compare(manager: ResourceManager, watched: Watched) -> Compared:
    """Compare the sizes of now with all common fractions, of windows and of granules."""
    seen = watched.newest
    assert seen is not None
    bounds = {key: each.bounds for key, each in seen.windows.items()}
    planned, limit = seen.limits.without_reserve(), seen.limits.memory
    assert limit is not None
    best, least = -1.0, float("inf")
    chains = any(each.chain for each in bounds.values())
    for granules in GRANULES if chains else GRANULES[:1]:
        fixed = {key: size for key, size in sizes_at(bounds, float(granules)).items() if bounds[key].chain}
        tried = ({**sizes_at(bounds, float(windows)), **fixed} for windows in FRACTIONS)
        # From the best on, so the first that fits is the best of these; memory grows with windows.
        fits = (sizes for sizes in tried if manager.estimate(seen.graph, sizes).exceeds(planned) is None)
        if (first := next(fits, None)) is not None:
            best = max(best, quality_of(first, bounds))
        least = min(least, manager.estimate(seen.graph, {**sizes_at(bounds, 0.0), **fixed}).memory)
    quality = quality_of({key: watched.moments[-1].sizes[key] for key in bounds}, bounds)
    return Compared(quality, best if best >= 0.0 else None, least / limit)

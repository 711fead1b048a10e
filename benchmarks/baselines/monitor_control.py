"""Which distance a constraint is counted on to keep in the next batch, decided from what was observed.

The decision is a function of the last batches alone, each with what was counted on in it and what was observed
in it: whoever has the same records decides the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from tidegate.physical.keyed_join.kernels.monitor import UNLIMITED, Limits, Observations, sum_observations


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """How bold the monitor is.

    A distance is counted on if it was not exceeded in the last `batches` batches and these had `events` events,
    and a `margin` more: where distances are spread, now and then one is a little greater than all before it.
    What is farther than that is still observed, up to `factor` times that far and `slack` farther, in rows or
    microseconds; beyond that, for a `share` of the keys. A constraint of which more than `threshold` must be
    expected is not used. The slack should be what arrives in two batches: what is exceeded in one is answered
    in the next.
    """

    threshold: int
    margin: float = 0.04
    factor: float = 1.2
    slack: int = 0
    share: float = 0.01
    batches: int = 10
    events: int = 50


@dataclass(frozen=True, slots=True)
class Adherence:
    """The distance that is counted on, None if the constraint is not used, and how far is observed and kept."""

    k_used: int | None
    k_kept: int


@dataclass(frozen=True, slots=True)
class Record:
    """What was counted on in a batch, and what was observed in it, in all its parts together."""

    adherence: Adherence
    observed: Observations

    @property
    def exceeded(self) -> bool:
        """Whether it was wrong to count on the constraint."""
        return self.adherence.k_used is not None and self.observed.greatest > self.adherence.k_used


def decide(history: Sequence[Record], settings: MonitorSettings) -> Adherence:
    """What to count on in the next batch, from the records of those before it; more than the last are not looked at.

    Examples
    --------
    >>> settings = MonitorSettings(threshold=100, slack=5, batches=1, events=1)
    >>> start = decide([], settings)
    >>> start
    Adherence(k_used=None, k_kept=120)
    >>> decide([Record(start, Observed(events=3, greatest=40, histogram=(2, 0, 0, 0, 0, 0, 1)))], settings)
    Adherence(k_used=42, k_kept=51)
    """
    last = history[max(len(history) - settings.batches, 0) :]
    if len(last) < settings.batches or any(record.exceeded for record in last):
        return _adherence(None, settings)
    seen = sum_observations(record.observed for record in last)
    if seen.events < settings.events:
        # Nothing seen is no sign of order: what comes farther apart than is observed is not seen either.
        return _adherence(last[-1].adherence.k_used, settings)
    return _adherence(ceil((1 + settings.margin) * seen.greatest), settings)


def limits_in_force(adherence: Adherence, settings: MonitorSettings, window: int) -> Limits:
    """How far apart arrivals are observed in the next batch; nobody is observed longer than his window."""
    return Limits(min(adherence.k_kept, window), window, settings.share)


def _adherence(distance: int | None, settings: MonitorSettings) -> Adherence:
    used = None if distance is None or distance > settings.threshold else distance
    expected = settings.threshold if used is None else used
    farther = max(ceil(settings.factor * expected), expected + settings.slack)
    return Adherence(used, min(farther, UNLIMITED))

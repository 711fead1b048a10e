"""Decide after a step whether sizes change: smaller if a limit is in danger, larger again when there is room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tidegate.catalog.limits import ResourceLimits
from tidegate.optimizer.quality import SizeBounds
from tidegate.runtime.resources.choose_sizes import SizeChoice, Sizes, choose_sizes, sizes_at
from tidegate.time import BEGINNING
from tidegate.values import value

DANGER = 0.9
"""Share of a limit from which on sizes are reduced. They are then chosen for the limit without its reserve."""

LEAST_GAIN = 0.02
"""Fraction of quality that larger sizes must gain."""

STEADY = 0.15
"""Relative change of what is expected up to which a run counts as steady."""

SMOOTHING = 0.3
"""Weight of a new measurement in a correction of estimates."""


@value
class Usage:
    """What a run uses, or would use: bytes of state, processor seconds a second of application time, and delay."""

    memory: float = 0.0
    cpu: float = 0.0
    delay: float = 0.0

    def describe(self) -> str:
        """Describe memory and processor time.

        Examples
        --------
        >>> Usage(1_250_000, 0.034).describe()
        '1.2 MB of state and 3.4 % of a core'
        """
        return f"{self.memory / 1e6:,.1f} MB of state and {100 * self.cpu:.2g} % of a core"

    def exceeds(self, limits: ResourceLimits) -> str | None:
        """Return which limit is exceeded, in words; None if none is."""
        if limits.memory is not None and self.memory > limits.memory:
            return f"state of {self.memory / 1e6:,.1f} MB, at most {limits.memory / 1e6:,.1f} MB"
        if limits.cpu is not None and self.cpu > limits.cpu:
            return f"processor share of {self.cpu:.2f}, at most {limits.cpu:.2f}"
        if limits.delay is not None and self.delay > limits.delay:
            return f"delay of {self.delay / 1e6:.2f} s, at most {limits.delay / 1e6:.2f} s"
        return None


Estimate = Callable[[Sizes], Usage]
"""Function that returns the memory and processor time that sizes would need in a steady state, without a delay."""


@value
class Corrections:
    """Measured usage in a steady state, relative to what was estimated."""

    memory: float = 1.0
    cpu: float = 1.0


@value
class Steadiness:
    """How long a run has been in a steady state: what its sizes are expected to need has not changed since."""

    expected: float = 0.0
    """Memory that was expected when the run was last found to have changed."""
    changed_at: int = BEGINNING
    """The instant of that change."""

    def after(self, expected: float, now: int) -> Steadiness:
        """Return the steadiness at an instant."""
        if self.expected and abs(expected - self.expected) <= STEADY * self.expected:
            return self
        return Steadiness(expected, now)


@value
class Situation:
    """What a decision sees: what is used now, the sizes in force, what queries allow, and how steady the run is."""

    used: Usage
    sizes: Sizes
    bounds: Mapping[str, SizeBounds]
    may_grow: bool
    """Whether the last change, of sizes or of the load, has had its full effect."""
    is_settled: bool
    """Whether what is used now is also that of a steady state."""
    is_learnt: bool = True
    """Whether estimates follow from measurements of all operators."""


@value
class SizeDecision:
    """Sizes from now on, why they change, and the corrections of estimates that have been learnt.

    `shortfall` says which limit is exceeded even with the worst sizes.
    """

    sizes: Sizes
    reason: str
    corrections: Corrections
    fraction: float | None = None
    shortfall: str | None = None

    def changes(self, before: Sizes) -> dict[str, int]:
        """Return the sizes that differ from those before."""
        return {key: size for key, size in self.sizes.items() if before.get(key) != size}


def decide_sizes_within(
    limits: ResourceLimits, seen: Situation, estimate: Estimate, known: Corrections
) -> SizeDecision:
    """Return the sizes that keep a run within its limits at the best quality, or those of now if no change pays."""
    now = estimate(seen.sizes)
    corrections = _learn(known, seen.used, now) if seen.is_settled else known
    stay = SizeDecision(seen.sizes, "", corrections)

    def usage_of(sizes: Sizes) -> Usage:
        found = estimate(sizes)
        delay = seen.used.delay * found.cpu / now.cpu if now.cpu else seen.used.delay
        return Usage(found.memory * corrections.memory, found.cpu * corrections.cpu, delay)

    danger = _find_danger(limits, seen, usage_of(seen.sizes))
    if danger is not None and (seen.is_settled or not seen.is_learnt):
        # What is used says more than an average of measurements, if it is more.
        corrections = _at_least(corrections, seen.used, now)
    if danger is None and (not (seen.may_grow and seen.is_learnt) or seen.sizes == sizes_at(seen.bounds, 1.0)):
        return stay
    planned = limits.without_reserve()
    chosen = choose_sizes(seen.bounds, lambda sizes: usage_of(sizes).exceeds(planned) is None)
    if chosen is None:
        worst = sizes_at(seen.bounds, 0.0)
        shortfall = usage_of(worst).exceeds(limits)
        return SizeDecision(worst, danger or "", corrections, 0.0, shortfall)
    if danger is not None:
        return SizeDecision(_smaller(chosen, seen), danger, corrections, chosen.fraction)
    if quality_of(chosen.sizes, seen.bounds) < quality_of(seen.sizes, seen.bounds) + LEAST_GAIN:
        return stay
    return SizeDecision(chosen.sizes, "there is room", corrections, chosen.fraction)


def quality_of(sizes: Sizes, bounds: Mapping[str, SizeBounds]) -> float:
    """Return the average fraction of quality of some sizes: 1 if all are the best, 0 if all are the worst.

    Examples
    --------
    >>> quality_of({"a": 45, "b": 9}, {"a": SizeBounds(60, 30, "range"), "b": SizeBounds(9, 3, "rows")})
    0.75
    """
    shares = [
        (sizes[key] - each.worst) / (each.best - each.worst) for key, each in bounds.items() if each.best != each.worst
    ]
    return sum(shares) / len(shares) if shares else 1.0


def _find_danger(limits: ResourceLimits, seen: Situation, expected: Usage) -> str | None:
    """Return which limit is in danger, in words: by what is expected of the sizes now, or by what is used."""
    danger = ResourceLimits(
        None if limits.memory is None else int(limits.memory * DANGER),
        None if limits.cpu is None else limits.cpu * DANGER,
        None if limits.delay is None else int(limits.delay * DANGER),
    )
    if seen.is_learnt and (found := expected.exceeds(danger)) is not None:
        return f"expected {found}"
    # Until a change has had its effect, what is used says little about the sizes of now.
    used = seen.used.exceeds(danger) if seen.is_settled or not seen.is_learnt else None
    return None if used is None else f"used {used}"


def _smaller(chosen: SizeChoice, seen: Situation) -> Sizes:
    """Return the chosen sizes, none of which is better than now: a danger is no reason to enlarge a window."""
    return {
        key: max(size, seen.sizes[key]) if seen.bounds[key].chain else min(size, seen.sizes[key])
        for key, size in chosen.sizes.items()
    }


def _learn(known: Corrections, used: Usage, estimated: Usage) -> Corrections:
    return replace(
        known,
        memory=_smooth(known.memory, used.memory, estimated.memory),
        cpu=_smooth(known.cpu, used.cpu, estimated.cpu),
    )


def _at_least(known: Corrections, used: Usage, estimated: Usage) -> Corrections:
    """Return corrections with which estimates are not below what is used."""
    memory = used.memory / estimated.memory if estimated.memory else 0.0
    cpu = used.cpu / estimated.cpu if estimated.cpu else 0.0
    return Corrections(max(known.memory, memory), max(known.cpu, cpu))


def _smooth(known: float, used: float, estimated: float) -> float:
    """Return a correction with a new measurement in it; nothing is learnt of nothing."""
    if used <= 0 or estimated <= 0:
        return known
    return known + SMOOTHING * (used / estimated - known)

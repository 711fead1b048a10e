"""Report of the work that a join or an alert shed in a step, and since the beginning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.physical.common.operator import NO_FACTS, Facts

_CHANGES = 20
"""Number of remembered changes of the share that was compared."""

_CHANGE = 0.01


@dataclass(frozen=True, slots=True)
class SheddingCounts:
    """Counts of a step in all buckets together; `missed` estimates the results that were not found.

    `worth` and `worth_missed` are the utility of found and missed results, if they have one. `dropped` counts rows.
    """

    join: str
    policy: str
    comparisons: int
    volume: int
    found: int
    missed: float
    budget: float | None
    dropped: int = 0
    worth: float | None = None
    worth_missed: float = 0.0


def report_shedding(shed: SheddingCounts, step: int, before: Facts | None) -> dict[str, Any]:
    """Return the facts of a step, from its counts and the facts of the step before."""
    known = before or NO_FACTS
    now = _summed_counts(shed)
    so_far = {name: value for name, value in known.get("overall", NO_FACTS).items() if name in _ADDED}
    overall = {name: now[name] + so_far.get(name, 0) for name in _ADDED if now[name] is not None}
    history = known.get("history", [])
    return {
        "join": shed.join,
        "policy": shed.policy,
        "step": step,
        **_add_shares(now),
        "budget": shed.budget,
        "overall": _add_shares({**dict.fromkeys(_ADDED), **overall}),
        "history": _append_change(history, step, _share(shed.comparisons, shed.volume))
        if shed.volume
        else list(history),
    }


_ADDED = ("comparisons", "volume", "found", "missed", "dropped", "worth", "worth_missed")
"""Figures of a step that are added up since the beginning."""


def _summed_counts(shed: SheddingCounts) -> dict[str, Any]:
    return {name: getattr(shed, name) for name in _ADDED}


def _add_shares(figures: Facts) -> dict[str, Any]:
    """Add shares to the figures: of comparisons, of results, and of their utility."""
    worth = figures["worth"]
    return {
        "compared": _share(figures["comparisons"], figures["volume"]),
        "results": _share(figures["found"], figures["found"] + figures["missed"]),
        "utility": None if worth is None else _share(worth, worth + figures["worth_missed"]),
        **figures,
    }


def _append_change(history: list[list[float]], step: int, share: float) -> list[list[float]]:
    """Return the changes of a share, which is 1 at the beginning.

    Examples
    --------
    >>> _append_change([[3, 0.5]], 4, 0.505), _append_change([[3, 0.5]], 4, 0.52)
    ([[3, 0.5]], [[3, 0.5], [4, 0.52]])
    """
    last = history[-1][1] if history else 1.0
    changed = abs(share - last) > _CHANGE
    return [*history, [step, share]][-_CHANGES:] if changed else list(history)


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 1.0

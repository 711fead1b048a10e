"""Choose sizes of windows and granules that fit into limits: one common fraction for all (PIPES, chapter 23)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping

from tidegate.optimizer.quality import SizeBounds
from tidegate.values import value

Sizes = Mapping[str, int]
"""Sizes by the key of a window or granularity."""

STEPS = 20
"""Number of fractions that are tried for granules."""

HALVINGS = 20
"""Number of times that the fraction of windows is halved: that decides sizes to a millionth of their range."""


@value
class SizeChoice:
    """Sizes, and their fraction of quality: 1 for the best sizes, 0 for the worst that queries allow."""

    fraction: float
    sizes: Sizes


def choose_sizes(bounds: Mapping[str, SizeBounds], fits: Callable[[Sizes], bool]) -> SizeChoice | None:
    """Return the best sizes that fit, or None if not even the worst ones do.

    First the fraction falls in steps until the sizes fit, which decides the granules. Then the fraction of the windows
    rises again as far as it can.
    """
    for step in range(STEPS, -1, -1):
        fraction = step / STEPS
        sizes = sizes_at(bounds, fraction)
        if fits(sizes):
            return SizeChoice(fraction, sizes) if step == STEPS else _enlarge_windows(bounds, fits, fraction, sizes)
    return None


def sizes_at(bounds: Mapping[str, SizeBounds], fraction: float) -> dict[str, int]:
    """Return the sizes of a fraction of quality."""
    return {key: size_at(each, fraction) for key, each in bounds.items()}


def size_at(bounds: SizeBounds, fraction: float) -> int:
    """Return the allowed size that is nearest to a fraction of the range.

    Examples
    --------
    >>> size_at(SizeBounds(60, 30, "range"), 0.5)
    45
    >>> [size_at(SizeBounds(1, 12, "granularity", (1, 2, 4, 12)), f) for f in (1.0, 0.9, 0.5, 0.0)]
    [1, 2, 4, 12]
    """
    return nearest_size(bounds, bounds.worst + fraction * (bounds.best - bounds.worst))


def nearest_size(bounds: SizeBounds, wanted: float) -> int:
    """Return the allowed size that is nearest to a wanted one.

    Examples
    --------
    >>> nearest_size(SizeBounds(60, 30, "range"), 20)
    30
    """
    if not bounds.chain:
        return round(min(max(wanted, bounds.worst), bounds.best))
    at = bisect_left(bounds.chain, wanted)
    near = bounds.chain[max(at - 1, 0) : at + 1]
    return min(near, key=lambda size: (abs(size - wanted), -size))


def _enlarge_windows(
    bounds: Mapping[str, SizeBounds], fits: Callable[[Sizes], bool], fraction: float, sizes: Sizes
) -> SizeChoice:
    granules = {key: sizes[key] for key, each in bounds.items() if each.chain}
    windows = {key: each for key, each in bounds.items() if not each.chain}
    if not windows:
        return SizeChoice(fraction, sizes)
    low, high = fraction, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if fits({**sizes_at(windows, middle), **granules}):
            low = middle
        else:
            high = middle
    return SizeChoice(low, {**sizes_at(windows, low), **granules})

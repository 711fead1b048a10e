"""Which elements of a stream are extreme in some window, by definition: every window is looked at."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

Element = tuple[int, float]


def kept(elements: Sequence[Element], *, window: int, strict: bool, above: bool, below: bool) -> set[int]:
    """Positions of the elements that are greatest (`above`) or least (`below`) in some window.

    Windows begin anywhere, also between two microseconds. Elements whose value is not finite are
    kept, and are in no window.
    """
    found = {i for i, (_, value) in enumerate(elements) if not math.isfinite(value)}
    finite = [i for i in range(len(elements)) if i not in found]
    for members in _windows(elements, finite, window, strict=strict):
        values = [elements[i][1] for i in members]
        if above:
            found |= {i for i in members if elements[i][1] == max(values)}
        if below:
            found |= {i for i in members if elements[i][1] == min(values)}
    return found


def optimum(
    elements: Sequence[Element], *, window: int, strict: bool, above: bool, below: bool
) -> list[tuple[int, float | None]]:
    """The elements that are kept, in order and each of them once."""
    positions = kept(elements, window=window, strict=strict, above=above, below=below)
    return in_order(elements[i] for i in positions)


def in_order(elements: Iterable[Element]) -> list[tuple[int, float | None]]:
    """Elements by time and value, equal ones once; NaN is the greatest number, and equal to itself."""
    plain = {(int(t), None if math.isnan(v) else float(v) + 0.0) for t, v in elements}
    return sorted(plain, key=lambda e: (e[0], e[1] is None, e[1] or 0.0))


def _windows(elements: Sequence[Element], finite: Sequence[int], window: int, *, strict: bool) -> Iterator[list[int]]:
    """The members of every window; a step of half a microsecond meets them all."""
    if not finite:
        return
    times = [2 * elements[i][0] for i in finite]
    for start in range(min(times) - 2 * window - 1, max(times) + 2):
        end = start + 2 * window
        members = [
            i for i, time in zip(finite, times, strict=True) if (start < time < end if strict else start <= time <= end)
        ]
        if members:
            yield members

"""Alarms by definition: every combination is looked at. Shares no code with the operators."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import product

Element = tuple[Hashable, int, int]
"""A key, a time and a value."""

Combination = tuple[Element, ...]


@dataclass(frozen=True)
class Near:
    """How members must be in time: pairs with -before ≤ t(left) - t(right) ≤ after, open or not, or hopping windows."""

    pairs: tuple[tuple[int, int, int, int, bool, bool], ...]
    hop: tuple[int, int] | None = None

    def joins(self, times: Sequence[int]) -> bool:
        if self.hop is not None:
            step, length = self.hop
            starts = {t // step * step - k * step for t in times for k in range(length // step + 1)}
            return any(all(start <= t < start + length for t in times) for start in starts)
        for left, right, before, after, open_before, open_after in self.pairs:
            distance = times[left] - times[right]
            early = distance <= -before if open_before else distance < -before
            late = distance >= after if open_after else distance > after
            if early or late:
                return False
        return True


def alarms(
    streams: Sequence[Sequence[Element]], near: Near, crosses: Callable[[Sequence[int]], bool]
) -> set[Combination]:
    """All combinations of elements with one key, near each other, that cross the threshold."""
    return {
        combination
        for combination in product(*streams)
        if len({key for key, _, _ in combination}) == 1
        and near.joins([t for _, t, _ in combination])
        and crosses([v for _, _, v in combination])
    }


def needed(elements: Sequence[Element], window: int, *, strict: bool, above: bool, below: bool) -> set[Element]:
    """Elements that no pair of others makes superfluous: greatest (or smallest) in some window around them."""
    return {e for e in elements if not _is_superfluous(e, elements, window, strict=strict, above=above, below=below)}


def _is_superfluous(
    e: Element, elements: Sequence[Element], window: int, *, strict: bool, above: bool, below: bool
) -> bool:
    key, time, value = e
    sides = [[t for k, t, v in elements if k == key and v > value]] if above else []
    sides += [[t for k, t, v in elements if k == key and v < value]] if below else []
    return all(
        any(p <= time <= n and (n - p < window if strict else n - p <= window) for p in side for n in side)
        for side in sides
    )

"""Distance of the elements of a source: how far its watermark advances for each row (PIPES, section 22.2)."""

from __future__ import annotations

from math import exp

from tidegate.time import BEGINNING, FOREVER
from tidegate.values import value

SPAN = 60_000_000.0
"""Microseconds of application time after which a row counts a third (1/e) as much as a new one."""

THRESHOLD = 0.1
"""Relative change from which on another distance is used."""


@value
class ObservedDistance:
    """Average distance of the elements of a source, smoothed; and the one that is used until it differs clearly."""

    watermark: int = BEGINNING
    waiting: int = 0
    """Rows since the watermark has advanced."""
    rows: float = 0.0
    """Rows so far, each counted less the older it is."""
    time: float = 0.0
    """Advance of the watermark so far, counted likewise."""
    used: float | None = None
    since: int = BEGINNING
    """The first watermark."""

    def after(self, rows: int, watermark: int) -> ObservedDistance:
        """Return the distance after a step with these rows, which left this watermark.

        Examples
        --------
        >>> steady = ObservedDistance()
        >>> for second in range(100):
        ...     steady = steady.after(50, second * 1_000_000)
        >>> steady.used
        20000.0
        """
        if not BEGINNING < watermark < FOREVER:
            return self
        if self.watermark == BEGINNING:
            # The first rows go with a time that is unknown.
            return ObservedDistance(watermark, since=watermark)
        advance = watermark - self.watermark
        if advance <= 0:
            return ObservedDistance(self.watermark, self.waiting + rows, self.rows, self.time, self.used, self.since)
        kept = exp(-advance / SPAN)
        found = self.rows * kept + self.waiting + rows
        time = self.time * kept + advance
        used = replace_distance(self.used, time / found) if found else self.used
        return ObservedDistance(watermark, 0, found, time, used, self.since)


NO_DISTANCE = ObservedDistance()


def replace_distance(used: float | None, current: float) -> float:
    """Return the distance to use from now on: the current one if the used one differs from it by the threshold."""
    if used is None or abs(current - used) > THRESHOLD * used:
        return current
    return used

"""How long steps take by the number of rows that samples keep."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.physical.shedding.pace import ALIKE, FADING, LEAST, ROOM, fit_line

_SURPRISE = 1.5
"""Ratio of the measured to the expected time of a step, or its inverse, above which earlier steps are forgotten."""


@dataclass(frozen=True, slots=True)
class SamplePace:
    """Decayed sums of measurements of steps: rows kept and seconds."""

    steps: float = 0.0
    rows: float = 0.0
    seconds: float = 0.0
    squares: float = 0.0
    """Squares of rows."""
    products: float = 0.0
    """Products of rows and seconds."""
    usual: float | None = None
    """Seconds per row when steps last differed in rows."""
    is_warm: bool = False
    """Whether a step was seen; the first one also compiles and loads, so it says nothing."""

    def after_step(self, rows: float, seconds: float) -> SamplePace:
        """Return the pace after a step that kept rows and took seconds."""
        if not self.is_warm:
            return SamplePace(is_warm=True)
        before = SamplePace() if self._is_surprised_by(rows, seconds) else self
        after = SamplePace(
            FADING * before.steps + 1.0,
            FADING * before.rows + rows,
            FADING * before.seconds + seconds,
            FADING * before.squares + rows * rows,
            FADING * before.products + rows * seconds,
            before.usual,
            is_warm=True,
        )
        return replace(after, usual=after._line[1]) if after._has_line else after

    def rows_in(self, target: float) -> float | None:
        """Return how many rows a step may keep to take `target` seconds; None if that is not known.

        Where steps take about the same time whatever they keep, a sample saves nothing, and very many rows fit.

        Examples
        --------
        >>> pace = SamplePace().after_step(10, 9.0).after_step(100, 1.0).after_step(200, 1.9)
        >>> 80 < pace.rows_in(1.0) < 100
        True
        """
        if not self.steps:
            return None
        fixed, each = self._line
        return max(ROOM * target - fixed, LEAST * target) / each if each > 0 else float("inf")

    @property
    def _line(self) -> tuple[float, float]:
        return fit_line(self.steps, self.rows, self.seconds, self.squares, self.products, self.usual)

    def _is_surprised_by(self, rows: float, seconds: float) -> bool:
        """Return whether a step took far longer or shorter than others let expect, if they do."""
        if not self.steps or not self.rows:
            return False
        mean = self.rows / self.steps
        fixed, each = self._line
        expected = fixed + each * rows
        is_near = expected / _SURPRISE <= seconds <= expected * _SURPRISE
        return (self._has_line or abs(rows - mean) <= ALIKE * mean) and not is_near

    @property
    def _has_line(self) -> bool:
        """Return whether steps differ in rows, so that the time of a row can be told from that of a step."""
        mean = self.rows / self.steps
        return self.squares / self.steps - mean * mean > (ALIKE * mean) ** 2

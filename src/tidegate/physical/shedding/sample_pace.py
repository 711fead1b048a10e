"""How long steps take by the number of rows that samples keep."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.physical.shedding.pace import FADING, ROOM, fit_line


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
    is_warm: bool = False
    """Whether a step was seen; the first one also compiles and loads, so it says nothing."""

    def after_step(self, rows: float, seconds: float) -> SamplePace:
        """Return the pace after a step that kept rows and took seconds."""
        if not self.is_warm:
            return SamplePace(is_warm=True)
        return SamplePace(
            FADING * self.steps + 1.0,
            FADING * self.rows + rows,
            FADING * self.seconds + seconds,
            FADING * self.squares + rows * rows,
            FADING * self.products + rows * seconds,
            is_warm=True,
        )

    def rows_in(self, target: float) -> float | None:
        """Return how many rows a step may keep to take `target` seconds; None if that is not known.

        Where steps take the same time whatever they keep, a sample saves nothing, and all rows fit.

        Examples
        --------
        >>> pace = SamplePace().after_step(10, 9.0).after_step(100, 1.0).after_step(200, 1.9)
        >>> 90 < pace.rows_in(1.0) < 110
        True
        """
        if not self.steps:
            return None
        fixed, each = fit_line(self.steps, self.rows, self.seconds, self.squares, self.products)
        return max(ROOM * target - fixed, 0.0) / each if each > 0 else float("inf")

"""Limits on the resources of a run, from SET: its state, its processor time, and the delay of its results."""

from __future__ import annotations

from tidegate.values import value

RESERVE = 0.2
"""Share of every limit that is kept for bursts, and for the time until a change of sizes has its full effect."""


FEWEST_ROWS = 2_000
"""Rows of a stream that a step may read in any case."""

BYTES_PER_ROW = 500
"""Bytes of the memory limit for each row that a step reads of a stream: about twenty small rows."""


@value
class ResourceLimits:
    """What a run may use; None: as much as it needs."""

    memory: int | None = None
    """Bytes of state."""
    cpu: float | None = None
    """Processor seconds for each second of application time."""
    delay: int | None = None
    """Microseconds from the arrival of a row until its results are there."""

    def rows_per_step(self, usual: int) -> int:
        """Return how many rows a step may read of a stream: few enough that sizes can follow the load.

        Examples
        --------
        >>> ResourceLimits().rows_per_step(250_000), ResourceLimits(memory=2_000_000).rows_per_step(250_000)
        (250000, 4000)
        """
        return usual if self.memory is None else min(usual, max(FEWEST_ROWS, self.memory // BYTES_PER_ROW))

    def without_reserve(self) -> ResourceLimits:
        """Return the limits without their reserve."""
        return ResourceLimits(
            None if self.memory is None else int(self.memory * (1 - RESERVE)),
            None if self.cpu is None else self.cpu * (1 - RESERVE),
            None if self.delay is None else int(self.delay * (1 - RESERVE)),
        )


NO_LIMITS = ResourceLimits()

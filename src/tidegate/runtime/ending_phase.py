"""A phase of a live graph that ends."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.runtime.stage_graph import StageGraph
from tidegate.values import value


@value
class EndingPhase:
    """A phase that ends at an instant: its stages, and the watermarks at which all its results are known."""

    graph: StageGraph
    settled_at: Mapping[str, int]

    def is_over(self, watermarks: Mapping[str, int]) -> bool:
        return all(watermarks.get(stream, at - 1) >= at for stream, at in self.settled_at.items())

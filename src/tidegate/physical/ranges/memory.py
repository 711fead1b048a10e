"""What range thresholds remember: what waits for its time, who is registered, how far the totals are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.physical.batch import Batch, concat
from tidegate.physical.kernels.schedule import Schedule
from tidegate.physical.operator import Chunks
from tidegate.physical.ranges.following import Following, following_of, keep
from tidegate.physical.ranges.keys import KeyNumbers
from tidegate.physical.ranges.registry import Registry
from tidegate.physical.waiting import FIGURES, figures_chunk, figures_of
from tidegate.time import BEGINNING

if TYPE_CHECKING:
    from tidegate.physical.ranges.operator import RangeThresholdOperator

_WAITING = ("elements", "rows")
"""What waits of the two inputs."""


@dataclass(slots=True, eq=False)
class Memory:
    """The state of a step in the making; it becomes chunks at its end."""

    watermark: int
    futures: list[Schedule]
    registry: Registry
    keys: KeyNumbers
    following: Following
    is_changed: bool = False

    @staticmethod
    def load(operator: RangeThresholdOperator, chunks: Chunks) -> Memory:
        figures = figures_of(chunks)
        return Memory(
            figures.get("watermark", BEGINNING),
            [Schedule.load(name, chunks, figures) for name in _WAITING],
            Registry.load(operator.subscribed.id, chunks, figures),
            KeyNumbers.load(operator.keys, operator.subscriptions, chunks),
            following_of(operator.kind, chunks.get(FIGURES), chunks, figures),
        )

    def due(self, which: int, arrived: Batch, watermark: int) -> Batch:
        """The elements of an input whose time has come; the others wait."""
        now = arrived.start < watermark
        later = arrived.filter(~now)
        futures, come = self.futures[which].add(later.to_arrow()).take_before(watermark)
        self.is_changed |= futures is not self.futures[which]
        self.futures[which] = futures
        return concat([arrived.filter(now), *(Batch.from_arrow(rows) for rows in come)])

    def put_back(self, chunks: Chunks) -> None:
        """Let the tracker be remembered for the state that it was loaded for, which stays as it is."""
        if FIGURES in chunks:
            keep(chunks[FIGURES], self.following)

    def save(self) -> Chunks:
        figures: Mapping[str, int] = {
            "watermark": self.watermark,
            **{name: value for each in self.futures for name, value in each.figures().items()},
            **self.registry.figures(),
            **self.following.figures(),
        }
        chunks: dict[str, pa.RecordBatch] = {FIGURES: figures_chunk(figures)}
        for each in self.futures:
            chunks |= each.chunks()
        chunks |= {**self.registry.chunks(), **self.keys.chunks(), **self.following.chunks()}
        keep(chunks[FIGURES], self.following)
        return chunks

"""What range thresholds remember: what waits for its time, who is registered, how far the totals are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidegate.physical.common.batch import Batch, concat
from tidegate.physical.common.hold_back import FIGURES, figures_chunk, figures_of
from tidegate.physical.common.kernels.schedule import Schedule
from tidegate.physical.common.operator import Chunks
from tidegate.physical.subscriptions.keys import KeyColumns, KeyNumbers
from tidegate.physical.subscriptions.registry import Registry
from tidegate.physical.subscriptions.tracker import SubscriptionTracker, TrackerKind, keep, restore_tracker
from tidegate.schema import Schema
from tidegate.time import BEGINNING

_WAITING = ("elements", "rows")
"""What waits of the two inputs."""


@dataclass(slots=True, eq=False)
class SubscriptionsState:
    """The state of a step in the making; it becomes chunks at its end."""

    watermark: int
    futures: list[Schedule]
    registry: Registry
    keys: KeyNumbers
    tracker: SubscriptionTracker
    is_changed: bool = False

    @staticmethod
    def load(
        kind: TrackerKind, subscriptions: Schema, id_: str, keys: KeyColumns, chunks: Chunks
    ) -> SubscriptionsState:
        figures = figures_of(chunks)
        return SubscriptionsState(
            figures.get("watermark", BEGINNING),
            [Schedule.load(name, chunks, figures) for name in _WAITING],
            Registry.load(id_, chunks, figures),
            KeyNumbers.load(keys, subscriptions, chunks),
            restore_tracker(kind, chunks.get(FIGURES), chunks, figures),
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
            keep(chunks[FIGURES], self.tracker)

    def save(self) -> Chunks:
        figures: Mapping[str, int] = {
            "watermark": self.watermark,
            **{name: value for each in self.futures for name, value in each.figures().items()},
            **self.registry.figures(),
            **self.tracker.figures(),
        }
        chunks: dict[str, pa.RecordBatch] = {FIGURES: figures_chunk(figures)}
        for each in self.futures:
            chunks |= each.chunks()
        chunks |= {**self.registry.chunks(), **self.keys.chunks(), **self.tracker.chunks()}
        keep(chunks[FIGURES], self.tracker)
        return chunks

"""State of alerts with subscriptions: rows that wait for the watermark, the registry and the tracker."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.physical.common.batch import Batch
from tidegate.physical.common.hold_back import FIGURES, figures_of, split_due, waiting_chunks
from tidegate.physical.common.kernels.schedule import Schedule
from tidegate.physical.common.operator import Chunks
from tidegate.physical.subscriptions.keys import KeyColumns, KeyNumbers
from tidegate.physical.subscriptions.registry import Registry
from tidegate.physical.subscriptions.tracker import SubscriptionTracker, TrackerKind, cache_tracker, restore_tracker
from tidegate.schema import Schema
from tidegate.time import BEGINNING

_WAITING = ("elements", "rows")
"""Chunk names of the waiting rows of the two inputs."""


@dataclass(slots=True, eq=False)
class SubscriptionsState:
    """State that a step loads, changes in place, and saves as chunks."""

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

    def take_due(self, which: int, arrived: Batch, watermark: int) -> Batch:
        """Return the elements of an input that are before the watermark; the others wait."""
        futures, due = split_due(self.futures[which], arrived, watermark)
        self.is_changed |= futures is not self.futures[which]
        self.futures[which] = futures
        return due

    def put_back_tracker(self, chunks: Chunks) -> None:
        """Return the tracker to the state cache, under the unchanged state from which it was loaded."""
        if FIGURES in chunks:
            cache_tracker(chunks[FIGURES], self.tracker)

    def save(self) -> Chunks:
        figures = {"watermark": self.watermark, **self.registry.figures(), **self.tracker.figures()}
        chunks = waiting_chunks(figures, *self.futures)
        chunks |= {**self.registry.chunks(), **self.keys.chunks(), **self.tracker.chunks()}
        cache_tracker(chunks[FIGURES], self.tracker)
        return chunks

"""State of alerts with subscriptions: rows that wait for the watermark, the registry and the tracker."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.physical.common.batch import Batch
from tidegate.physical.common.hold_back import FIGURES, figures_chunk, figures_of, split_due, waiting_chunks
from tidegate.physical.common.kernels.schedule import Schedule
from tidegate.physical.common.operator import Chunks
from tidegate.physical.subscriptions.keys import KeyColumns, KeyNumbers
from tidegate.physical.subscriptions.registry import Registry
from tidegate.physical.subscriptions.table_rows import TableDifference, compare_tables
from tidegate.physical.subscriptions.tracker import (
    SubscriptionTracker,
    TrackerKind,
    cache_tracker,
    move_tracker,
    restore_tracker,
)
from tidegate.schema import Schema
from tidegate.time import BEGINNING

_WAITING = ("elements", "rows")
"""Chunk names of the waiting rows of the two inputs."""

_TABLE, _EXPECTED = "table", "table expected"


@dataclass(slots=True, eq=False)
class SubscriptionsState:
    """State that a step loads, changes in place, and saves as chunks."""

    watermark: int
    futures: list[Schedule]
    registry: Registry
    keys: KeyNumbers
    tracker: SubscriptionTracker
    table: pa.RecordBatch | None = None
    """Subscriptions in the table as it was last read, complete ones too."""
    is_table_expected: bool = False
    """Whether the table is read again in this step."""
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
            chunks.get(_TABLE),
            bool(figures.get(_EXPECTED)),
        )

    def take_due(self, which: int, arrived: Batch, watermark: int) -> Batch:
        """Return the elements of an input that are before the watermark; the others wait."""
        futures, due = split_due(self.futures[which], arrived, watermark)
        self.is_changed |= futures is not self.futures[which]
        self.futures[which] = futures
        return due

    def replace_table(self, rows: pa.RecordBatch) -> TableDifference:
        """Replace the rows of the table by those of a new reading, and return how they differ."""
        before, self.table, self.is_changed = self.table, rows, True
        return compare_tables(rows.slice(0, 0) if before is None else before, rows)

    def put_back_tracker(self, chunks: Chunks) -> None:
        """Return the tracker to the state cache, under the unchanged state from which it was loaded."""
        if FIGURES in chunks:
            cache_tracker(chunks[FIGURES], self.tracker)

    def save(self) -> Chunks:
        figures = {"watermark": self.watermark, **self.registry.figures(), **self.tracker.figures()}
        chunks = waiting_chunks(figures, *self.futures)
        chunks |= {**self.registry.chunks(), **self.keys.chunks(), **self.tracker.chunks()}
        chunks |= {} if self.table is None else {_TABLE: self.table}
        cache_tracker(chunks[FIGURES], self.tracker)
        return chunks


def expect_table(chunks: Chunks) -> Chunks:
    """Return the state before a step in which the table is read again."""
    if FIGURES not in chunks:
        return chunks
    figures = figures_chunk({**figures_of(chunks), _EXPECTED: 1})
    move_tracker(chunks[FIGURES], figures)
    return {**chunks, FIGURES: figures}

"""State of a group of alerts on totals: elements that wait for the watermark, known keys, and the tracker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.hold_back import FIGURES, figures_of, split_due, waiting_chunks
from tidegate.physical.common.kernels.groups import group_rows
from tidegate.physical.common.kernels.schedule import Schedule
from tidegate.physical.common.operator import Chunks
from tidegate.physical.subscriptions.tracker import SubscriptionTracker, TrackerKind, cache_tracker, restore_tracker
from tidegate.schema import Schema
from tidegate.time import BEGINNING

_FUTURES, _KEYS = "futures", "keys"


@dataclass(slots=True, eq=False)
class GroupedTotalsState:
    """State that a step loads, changes in place, and saves as chunks.

    Of each key: its number, the time of its last element (only if old elements stop counting), and a bit for each alert
    that has counted an element of it.
    """

    watermark: int
    futures: Schedule
    keys: tuple[pa.Array, ...]
    number: Ints
    last: Ints
    bits: Ints
    next_number: int
    tracker: SubscriptionTracker
    chunk: pa.RecordBatch | None = None
    """Chunk of the keys as they were loaded."""

    @staticmethod
    def load(
        kind: TrackerKind, elements: Schema, names: Sequence[str], words: int, chunks: Chunks
    ) -> GroupedTotalsState:
        figures = figures_of(chunks)
        number, last, bits = (np.empty(0, np.int64) for _ in range(3))
        keys, chunk = tuple(pa.array([], elements.type_of(k).arrow) for k in names), chunks.get(_KEYS)
        if chunk is not None:
            number, last = (np.array(column) for column in chunk.columns[:2])
            bits, keys = np.frombuffer(b"".join(chunk.column(2).to_pylist()), np.int64).copy(), tuple(chunk.columns[3:])
        tracker = restore_tracker(kind, chunks.get(FIGURES), chunks, figures)
        watermark, futures = figures.get("watermark", BEGINNING), Schedule.load(_FUTURES, chunks, figures)
        masks, next_number = bits.reshape(len(number), words), figures.get("numbers", 0)
        return GroupedTotalsState(watermark, futures, keys, number, last, masks, next_number, tracker, chunk)

    def take_due(self, arrived: Batch, watermark: int) -> Batch:
        """Return the elements that are before the watermark; the others wait."""
        self.futures, due = split_due(self.futures, arrived, watermark)
        return due

    def put_back_tracker(self, chunks: Chunks) -> None:
        """Return the tracker to the state cache, under the unchanged state from which it was loaded."""
        if FIGURES in chunks:
            cache_tracker(chunks[FIGURES], self.tracker)

    def places_of_keys(self, keys: Sequence[pa.Array], times: Ints) -> Ints:
        """Return the positions of the keys of elements in time order, and add new keys."""
        found = group_rows(self.keys, keys, groups=len(self.number), rows=len(times))
        new = len(found.founders)
        if new:
            founders = pa.array(found.founders)
            self.keys = tuple(pa.concat_arrays([a, b.take(founders)]) for a, b in zip(self.keys, keys, strict=True))
            self.number = np.append(self.number, np.arange(self.next_number, self.next_number + new))
            self.last = np.append(self.last, np.zeros(new, np.int64))
            self.bits = np.vstack([self.bits, np.zeros((new, self.bits.shape[1]), np.int64)])
            self.next_number += new
        if self.tracker.kind.within is not None:
            self.last[found.groups] = times  # the last time of each key counts
        return found.groups

    def forget_idle_keys(self, until: int, alerts: int) -> None:
        """Forget totals of keys without an element after `until`: no later element counts together with those.

        What is complete for good is not forgotten.
        """
        idle = np.flatnonzero(self.last <= until)
        if not len(idle):
            return
        bits = np.unpackbits(self.bits[idle].view(np.uint8), axis=1, bitorder="little")
        key, alert = np.nonzero(bits)
        ids = self.number[idle[key]] * alerts + alert
        live = self.tracker.are_live(ids)
        self.tracker.terminate(ids[live])
        bits[key[live], alert[live]] = 0
        self.bits[idle] = np.packbits(bits, axis=1, bitorder="little").view(np.int64)
        kept = (self.last > until) | self.bits.any(axis=1)
        if not kept.all():
            rows = pa.array(np.flatnonzero(kept))
            self.keys = tuple(key.take(rows) for key in self.keys)
            self.number, self.last, self.bits = self.number[kept], self.last[kept], self.bits[kept]

    def save(self) -> Chunks:
        figures = {"watermark": self.watermark, "numbers": self.next_number, **self.tracker.figures()}
        chunks = waiting_chunks(figures, self.futures)
        chunks |= self.tracker.chunks()
        if len(self.number):
            chunks[_KEYS] = self._keys_chunk()
        cache_tracker(chunks[FIGURES], self.tracker)
        return chunks

    def _keys_chunk(self) -> pa.RecordBatch:
        """Return a chunk of the keys; if nothing has changed, the one that was loaded."""
        size = self.bits.shape[1] * 8
        bits = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(size), len(self.number), [None, pa.py_buffer(np.ascontiguousarray(self.bits))]
        )
        names = ["number", "last", "bits", *(f"key.{place}" for place in range(len(self.keys)))]
        columns = [pa.array(self.number), pa.array(self.last), bits, *self.keys]
        chunk = pa.RecordBatch.from_arrays(columns, names)
        return self.chunk if self.chunk is not None and self.chunk.equals(chunk) else chunk

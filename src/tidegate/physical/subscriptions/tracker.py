"""Tracker of totals, held in the state cache between steps and saved as chunks in the state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.chunks import chunk_of_columns, columns_of_chunk
from tidegate.physical.common.operator import Chunks
from tidegate.physical.common.state_cache import StateCache
from tidegate.physical.subscriptions.kernels.batch import BatchTracker
from tidegate.physical.subscriptions.kernels.model import (
    CompletedSubscriptions,
    RangeTracker,
    Subscriptions,
    WeightedElements,
)
from tidegate.physical.subscriptions.kernels.sliding import SlidingTracker

_PREFIX = "tracker."
_ROOM = 2**61
"""Weight that can be counted before totals might exceed 64-bit integers."""


@dataclass(frozen=True, slots=True)
class TrackerKind:
    """Parameters of a tracker; `within` is None if elements count for ever."""

    dimensions: int
    keyed: bool
    within: int | None
    repeats: bool


@dataclass(slots=True, eq=False)
class SubscriptionTracker:
    """Tracker, the weight that it has counted, and the chunks in which its parts were last saved."""

    kind: TrackerKind
    tracker: RangeTracker | SlidingTracker
    counted_weight: int = 0
    saved: dict[str, tuple[Columns, pa.RecordBatch]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tracker)

    def are_live(self, numbers: Ints) -> Mask:
        return self.tracker.are_live(numbers)

    def terminate(self, numbers: Ints) -> None:
        if len(numbers):
            self.tracker, _ = self.tracker.terminate(numbers)

    def absorb(
        self, elements: WeightedElements, time: Ints, ranges: Subscriptions, position: Ints
    ) -> CompletedSubscriptions:
        """Count elements, and register ranges among them, each before the element at its position."""
        if isinstance(self.tracker, SlidingTracker):  # it drops old elements, so its totals stay small
            self.tracker, matured = self.tracker.absorb_with(elements, time, ranges, position)
            return matured
        found = [
            CompletedSubscriptions(matured.id, matured.element + begin, matured.total)
            for begin, end, here in self._split_into_pieces(elements, position)
            for matured in [
                self._absorb_piece(elements.take(slice(begin, end)), ranges.take(here), position[here] - begin)
            ]
        ]
        if len(found) == 1:
            return found[0]
        columns = ([m.id for m in found], [m.element for m in found], [m.total for m in found])
        return CompletedSubscriptions(*(np.concatenate([np.empty(0, np.int64), *parts]) for parts in columns))

    def _absorb_piece(
        self, elements: WeightedElements, ranges: Subscriptions, position: Ints
    ) -> CompletedSubscriptions:
        assert not isinstance(self.tracker, SlidingTracker)
        self.tracker, matured = self.tracker.absorb_with(elements, ranges, position)
        return matured

    def _split_into_pieces(self, elements: WeightedElements, position: Ints) -> Iterator[tuple[int, int, slice]]:
        """Split the elements into pieces, with a new tracker before each whose totals start at zero.

        There is nearly always a single piece, which needs no new tracker.
        """
        rows = len(elements)
        weight = np.cumsum(elements.weight, dtype=np.float64)
        if self.counted_weight + (weight[-1] if rows else 0) < _ROOM:
            self.counted_weight += int(elements.weight.sum())
            yield 0, rows, slice(0, len(position))
            return
        begin = 0
        while begin < rows:
            self.tracker, self.counted_weight = self._renew_tracker(), 0
            before = weight[begin - 1] if begin else 0.0
            end = max(begin + 1, int(np.searchsorted(weight, before + _ROOM)))
            first = int(np.searchsorted(position, begin)) if begin else 0
            last = int(np.searchsorted(position, end)) if end < rows else len(position)
            self.counted_weight = int(elements.weight[begin:end].sum())
            yield begin, end, slice(first, last)
            begin = end

    def _renew_tracker(self) -> RangeTracker:
        """Return a tracker with the same subscriptions whose totals start at zero."""
        assert not isinstance(self.tracker, SlidingTracker)
        ranges, missing = self.tracker.live_subscriptions()
        return _batch_tracker(self.kind).resume(ranges, missing)

    def chunks(self) -> Chunks:
        """Return the parts of the tracker as chunks; an unchanged part is the same chunk as before."""
        saved: dict[str, tuple[Columns, pa.RecordBatch]] = {}
        for name, part in self.tracker.to_columns().items():
            known = self.saved.get(name)
            saved[name] = known if known is not None and known[0] is part else (part, chunk_of_columns(part))
        self.saved = saved
        return {f"{_PREFIX}{name}": chunk for name, (_, chunk) in saved.items()}

    def figures(self) -> dict[str, int]:
        return {"counted": self.counted_weight}


_TRACKERS: StateCache[SubscriptionTracker] = StateCache()
"""Trackers by a chunk of the state to which they belong."""


def cache_tracker(chunk: pa.RecordBatch, following: SubscriptionTracker) -> None:
    """Put the tracker into the state cache, under a chunk of its state."""
    _TRACKERS.put(chunk, following)


def move_tracker(chunk: pa.RecordBatch, to: pa.RecordBatch) -> None:
    """Move the tracker in the state cache, if there is one, to a chunk of a new state."""
    tracker = _TRACKERS.take(chunk)
    if tracker is not None:
        _TRACKERS.put(to, tracker)


def restore_tracker(
    kind: TrackerKind, chunk: pa.RecordBatch | None, chunks: Chunks, figures: Mapping[str, int]
) -> SubscriptionTracker:
    """Return the tracker of a state, from the state cache or else from the chunks."""
    kept = _TRACKERS.take(chunk)
    if kept is not None and kept.kind == kind:
        return kept
    own = {name.removeprefix(_PREFIX): c for name, c in chunks.items() if name.startswith(_PREFIX)}
    parts = {name: columns_of_chunk(c) for name, c in own.items()}
    saved = {name: (parts[name], own[name]) for name in own}
    tracker = _load_tracker(kind, parts) if parts else _empty_tracker(kind)
    return SubscriptionTracker(kind, tracker, figures.get("counted", 0), saved)


def _empty_tracker(kind: TrackerKind) -> RangeTracker | SlidingTracker:
    if kind.within is not None:
        return SlidingTracker.empty(kind.dimensions, kind.within, keyed=kind.keyed, repeats=kind.repeats)
    return _batch_tracker(kind)


def _batch_tracker(kind: TrackerKind) -> RangeTracker:
    """Return an empty tracker for which elements count for ever."""
    return BatchTracker.empty(kind.dimensions, keyed=kind.keyed, repeats=kind.repeats)


def _load_tracker(kind: TrackerKind, parts: Mapping[str, Columns]) -> RangeTracker | SlidingTracker:
    return BatchTracker.from_columns(parts) if kind.within is None else SlidingTracker.from_columns(parts)

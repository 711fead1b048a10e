"""The tracker that follows totals: kept in memory from step to step, and as chunks in the state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.physical.kernels.ranges.batch import BatchTracker
from tidegate.physical.kernels.ranges.choice import Method, better_method, moved
from tidegate.physical.kernels.ranges.model import Columns, Elements, Ints, Mask, Matured, Ranges, RangeTracker
from tidegate.physical.kernels.ranges.sliding import SlidingTracker
from tidegate.physical.kernels.ranges.tracking import DistributedTracker
from tidegate.physical.operator import Chunks
from tidegate.physical.ranges.beside import Beside

_PREFIX = "tracker."
_ROOM = 2**61
"""So much weight can be counted before totals might not be 64-bit integers any more."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What is followed: `within` is None where elements count for ever, `method` where any will do."""

    dimensions: int
    keyed: bool
    within: int | None
    repeats: bool
    method: Method | None = None


@dataclass(slots=True, eq=False)
class Following:
    """A tracker, how much it has counted, and the chunks that its parts were saved as."""

    kind: Kind
    tracker: RangeTracker | SlidingTracker
    counted: int = 0
    saved: dict[str, tuple[Columns, pa.RecordBatch]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tracker)

    def known(self, numbers: Ints) -> Mask:
        return self.tracker.known(numbers)

    def terminate(self, numbers: Ints) -> None:
        if len(numbers):
            self.tracker, _ = self.tracker.terminate(numbers)

    def absorb(self, elements: Elements, time: Ints, ranges: Ranges, position: Ints) -> Matured:
        """Count elements, and register ranges among them: each before the element at its position."""
        self._choose(len(elements))
        found = [
            Matured(matured.id, matured.element + begin, matured.total)
            for begin, end, here in self._pieces(elements, position)
            for matured in [self._absorb(elements, time, ranges.taken(here), position[here], begin, end)]
        ]
        if len(found) == 1:
            return found[0]
        columns = ([m.id for m in found], [m.element for m in found], [m.total for m in found])
        return Matured(*(np.concatenate([np.empty(0, np.int64), *parts]) for parts in columns))

    def _absorb(self, elements: Elements, time: Ints, ranges: Ranges, position: Ints, begin: int, end: int) -> Matured:
        part, position = elements.taken(slice(begin, end)), position - begin
        match self.tracker:
            case SlidingTracker() as sliding:
                self.tracker, matured = sliding.absorb_with(part, time[begin:end], ranges, position)
            case tracker:
                self.tracker, matured = tracker.absorb_with(part, ranges, position)
        return matured

    def _pieces(self, elements: Elements, position: Ints) -> Iterator[tuple[int, int, slice]]:
        """The elements in pieces between which totals begin anew from zero; nearly always that is one."""
        rows = len(elements)
        weight = np.cumsum(elements.weight, dtype=np.float64)
        if self.counted + (weight[-1] if rows else 0) < _ROOM:
            self.counted += int(elements.weight.sum())
            yield 0, rows, slice(0, len(position))
            return
        begin = 0
        while begin < rows:
            self.tracker, self.counted = self._renewed(), 0
            before = weight[begin - 1] if begin else 0.0
            end = max(begin + 1, int(np.searchsorted(weight, before + _ROOM)))
            first = int(np.searchsorted(position, begin)) if begin else 0
            last = int(np.searchsorted(position, end)) if end < rows else len(position)
            self.counted = int(elements.weight[begin:end].sum())
            yield begin, end, slice(first, last)
            begin = end

    def _renewed(self) -> RangeTracker | SlidingTracker:
        """The same queries in a tracker whose totals begin at zero; one with a window forgets by itself."""
        if isinstance(self.tracker, SlidingTracker):
            return self.tracker
        ranges, missing = self.tracker.rest()
        return _nobody(self.kind, self._method).resume(ranges, missing)

    @property
    def _method(self) -> Method:
        return Method.TRACKING if isinstance(self.tracker, DistributedTracker) else Method.BATCH

    def _choose(self, batch: int) -> None:
        """Go over to the other method if that is much better for what there is."""
        if isinstance(self.tracker, SlidingTracker) or self.kind.method is not None:
            return
        better = better_method(len(self.tracker), batch, self._method)
        if better is not self._method:
            self.tracker, self.counted = moved(self.tracker, _nobody(self.kind, better)), 0

    def chunks(self) -> Chunks:
        """The parts of the tracker; what has not changed is the same chunk as before."""
        saved: dict[str, tuple[Columns, pa.RecordBatch]] = {}
        for name, part in self.tracker.to_columns().items():
            known = self.saved.get(name)
            saved[name] = known if known is not None and known[0] is part else (part, _chunk(part))
        self.saved = saved
        return {f"{_PREFIX}{name}": chunk for name, (_, chunk) in saved.items()}

    def figures(self) -> dict[str, int]:
        return {"counted": self.counted, "method": self._method.value}


_KEPT: Beside[Following] = Beside()
"""Trackers by a chunk of the state that they belong to."""


def keep(chunk: pa.RecordBatch, following: Following) -> None:
    """Remember the tracker of a state, which has the chunk."""
    _KEPT.put(chunk, following)


def following_of(kind: Kind, chunk: pa.RecordBatch | None, chunks: Chunks, figures: Mapping[str, int]) -> Following:
    """The tracker of a state: the one that is remembered, else one made from the chunks."""
    kept = _KEPT.take(chunk)
    if kept is not None and kept.kind == kind:
        return kept
    own = {name.removeprefix(_PREFIX): c for name, c in chunks.items() if name.startswith(_PREFIX)}
    parts = {name: _columns(c) for name, c in own.items()}
    saved = {name: (parts[name], own[name]) for name in own}
    method = Method(figures.get("method", (kind.method or Method.BATCH).value))
    tracker = _loaded(kind, method, parts) if parts else _empty(kind, method)
    return Following(kind, tracker, figures.get("counted", 0), saved)


def _empty(kind: Kind, method: Method) -> RangeTracker | SlidingTracker:
    if kind.within is not None:
        return SlidingTracker.empty(kind.dimensions, kind.within, keyed=kind.keyed, repeats=kind.repeats)
    return _nobody(kind, method)


def _nobody(kind: Kind, method: Method) -> RangeTracker:
    """A tracker for which elements count for ever."""
    if method is Method.TRACKING:
        return DistributedTracker(repeats=kind.repeats)
    return BatchTracker.empty(kind.dimensions, keyed=kind.keyed, repeats=kind.repeats)


def _loaded(kind: Kind, method: Method, parts: Mapping[str, Columns]) -> RangeTracker | SlidingTracker:
    if kind.within is not None:
        return SlidingTracker.from_columns(parts)
    if method is Method.TRACKING:
        return DistributedTracker.from_columns(parts, repeats=kind.repeats)
    return BatchTracker.from_columns(parts)


def _chunk(part: Columns) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(column) for column in part.values()], list(part))


def _columns(chunk: pa.RecordBatch) -> Columns:
    arrays: dict[str, np.ndarray[Any, Any]] = {
        name: column.to_numpy(zero_copy_only=False)
        for name, column in zip(chunk.schema.names, chunk.columns, strict=True)
    }
    return arrays

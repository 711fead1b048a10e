"""Cache of decoded state; it can always be rebuilt from the state."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

import pyarrow as pa

T = TypeVar("T")


class StateCache(Generic[T]):
    """Values by chunk; a value is dropped when its chunk is garbage collected."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[pa.RecordBatch], T]] = {}

    def put(self, chunk: pa.RecordBatch, value: T) -> None:
        place = id(chunk)
        self._known[place] = (weakref.ref(chunk, lambda _: self._known.pop(place, None)), value)

    def get(self, chunk: pa.RecordBatch | None) -> T | None:
        reference, value = self._known.get(id(chunk), (None, None))
        return value if reference is not None and reference() is chunk else None

    def take(self, chunk: pa.RecordBatch | None) -> T | None:
        """Remove the value from the cache and return it, so that the caller may change it."""
        value = self.get(chunk)
        self._known.pop(id(chunk), None)
        return value

"""What is remembered beside the state, to save time: it can be made anew from the state at any moment."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

import pyarrow as pa

T = TypeVar("T")


class StateCache(Generic[T]):
    """Values by chunk; they go when the chunk does."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[pa.RecordBatch], T]] = {}

    def put(self, chunk: pa.RecordBatch, value: T) -> None:
        place = id(chunk)
        self._known[place] = (weakref.ref(chunk, lambda _: self._known.pop(place, None)), value)

    def get(self, chunk: pa.RecordBatch | None) -> T | None:
        reference, value = self._known.get(id(chunk), (None, None))
        return value if reference is not None and reference() is chunk else None

    def take(self, chunk: pa.RecordBatch | None) -> T | None:
        """The value, which is then no longer known: who takes it may change it."""
        value = self.get(chunk)
        self._known.pop(id(chunk), None)
        return value

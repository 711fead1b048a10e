"""Numbers of the keys of subscriptions; a key keeps its number as long as a subscription has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.kernels.groups import canonical, group_rows
from tidegate.physical.common.operator import Chunks
from tidegate.schema import Schema

_KEYS = "keys"


KeyColumns = tuple[tuple[str, ...], tuple[str, ...]]
"""Columns that must be equal: of elements, and of subscriptions."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyNumbers:
    """Numbers of the known keys; without key columns, all rows have the number 0."""

    names: KeyColumns
    number: Ints
    columns: tuple[pa.Array, ...]
    chunk: pa.RecordBatch | None = None
    """Chunk with the same content, if nothing has changed since it was loaded."""

    @staticmethod
    def load(names: KeyColumns, schema: Schema, chunks: Chunks) -> KeyNumbers:
        if _KEYS not in chunks:
            none = tuple(pa.array([], schema.type_of(name).arrow) for name in names[1])
            return KeyNumbers(names, np.empty(0, np.int64), none)
        number, *columns = chunks[_KEYS].columns
        return KeyNumbers(names, np.array(number), tuple(columns), chunks[_KEYS])

    def chunks(self) -> Chunks:
        if not self.names[1] or not len(self.number):
            return {}
        names = ["number", *(f"key.{place}" for place in range(len(self.columns)))]
        chunk = self.chunk or pa.RecordBatch.from_arrays([pa.array(self.number), *self.columns], names)
        return {_KEYS: chunk}

    def of_elements(self, batch: Batch) -> Ints:
        """Return the numbers of the elements' keys, or -1 for keys that no subscription has."""
        if not self.names[0]:
            return np.zeros(len(batch), np.int64)
        found = group_rows(
            self.columns, self._canonical_columns(batch, self.names[0]), groups=len(self.number), rows=len(batch)
        )
        return np.append(self.number, np.full(len(found.founders), -1))[found.groups]

    def with_keys_of(self, batch: Batch) -> tuple[KeyNumbers, Ints]:
        """Return these numbers with the keys of new subscriptions added, and the numbers of the latter."""
        if not self.names[1]:
            return self, np.zeros(len(batch), np.int64)
        new = self._canonical_columns(batch, self.names[1])
        found = group_rows(self.columns, new, groups=len(self.number), rows=len(batch))
        if not len(found.founders):
            return self, self.number[found.groups]
        first = int(self.number.max(initial=-1)) + 1
        number = np.append(self.number, np.arange(first, first + len(found.founders)))
        founders = pa.array(found.founders)
        columns = tuple(pa.concat_arrays([old, c.take(founders)]) for old, c in zip(self.columns, new, strict=True))
        return KeyNumbers(self.names, number, columns), number[found.groups]

    def restrict_to(self, numbers: Ints) -> KeyNumbers:
        """Return only the keys with these numbers; they keep their numbers."""
        kept = np.flatnonzero(np.isin(self.number, numbers))
        if len(kept) == len(self.number):
            return self
        return KeyNumbers(self.names, self.number[kept], tuple(c.take(pa.array(kept)) for c in self.columns))

    def _canonical_columns(self, batch: Batch, names: Sequence[str]) -> list[pa.Array]:
        return [canonical(batch.column(name)) for name in names]

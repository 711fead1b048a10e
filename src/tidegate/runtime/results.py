"""Results that are kept in memory."""

from __future__ import annotations

import pyarrow as pa

from tidegate.physical.deadletters import DEAD_LETTER
from tidegate.runtime.port import DEAD_LETTERS
from tidegate.runtime.shedding import SHED_ROWS, SHEDDING
from tidegate.schema import Schema


class Results:
    """Rows in memory, by output."""

    def __init__(self) -> None:
        self.batches: dict[str, list[pa.RecordBatch]] = {}

    def add(self, name: str, rows: pa.RecordBatch) -> None:
        self.batches.setdefault(name, []).append(rows)

    def table(self, name: str, schema: Schema) -> pa.Table:
        validity = [pa.field("valid_from", pa.int64()), pa.field("valid_to", pa.int64())]
        return pa.Table.from_batches(self.batches.get(name, []), schema=pa.schema([*validity, *schema.arrow]))

    def shed(self) -> pa.Table:
        return pa.Table.from_batches(self.batches.get(SHEDDING, []), schema=SHED_ROWS)

    def dead(self) -> pa.Table:
        return pa.Table.from_batches(self.batches.get(DEAD_LETTERS, []), schema=DEAD_LETTER)

"""Results kept in memory."""

from __future__ import annotations

import pyarrow as pa

from tidegate.catalog.catalog import Query
from tidegate.runtime.job import DEAD_LETTERS
from tidegate.runtime.outputs import dead_letter_schema, query_schema
from tidegate.runtime.quality import QUALITY, quality_schema
from tidegate.runtime.shedding import SHEDDING, SHEDDING_SCHEMA
from tidegate.time import TimeFormat


class Results:
    """Rows in memory, by output."""

    def __init__(self, times: TimeFormat = "iso") -> None:
        self.times: TimeFormat = times
        self.batches: dict[str, list[pa.RecordBatch]] = {}

    def add(self, name: str, rows: pa.RecordBatch) -> None:
        self.batches.setdefault(name, []).append(rows)

    def table(self, query: Query) -> pa.Table:
        return pa.Table.from_batches(self.batches.get(query.name, []), schema=query_schema(query, self.times))

    def shedding_table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches.get(SHEDDING, []), schema=SHEDDING_SCHEMA)

    def quality_table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches.get(QUALITY, []), schema=quality_schema(self.times))

    def dead_letter_table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches.get(DEAD_LETTERS, []), schema=dead_letter_schema(self.times))

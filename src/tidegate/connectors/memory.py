"""Tables in memory as sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.decode import Decoder
from tidegate.connectors.formats import Format
from tidegate.connectors.ranges import Point, SourcePosition, SourceRange, split_rows
from tidegate.connectors.typed_columns import check_schema, typed_decoder


@dataclass(frozen=True, slots=True, eq=False)
class MemorySource:
    """Source of the rows of an Arrow table, in their order."""

    stream: SourceStream
    table: pa.Table

    format: ClassVar[Format] = Format.DATAFRAME
    counts_bytes: ClassVar[bool] = False

    def check(self) -> None:
        check_schema(self.stream, self.table.schema, f"the DataFrame '{self.stream.name}'")

    def decoder(self, columns: frozenset[str]) -> Decoder:
        return typed_decoder(self.stream, columns)

    def find_ranges(self, position: SourcePosition, *, growing: bool) -> list[SourceRange]:
        begin = position.of_part("").point
        return [SourceRange("", begin, self.table.num_rows)] if begin.offset < self.table.num_rows else []

    def split_range(self, whole: SourceRange, parts: int) -> list[SourceRange]:
        return split_rows(whole, parts, end=whole.end or self.table.num_rows)

    def read_range(
        self, part: SourceRange, rows: int, *, columns: frozenset[str] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Point]]:
        row = part.begin.offset
        end = self.table.num_rows if part.end is None else part.end
        for batch in self.table.slice(row, end - row).to_batches(max_chunksize=rows):
            if batch.num_rows:
                row += batch.num_rows
                yield batch, Point(row)

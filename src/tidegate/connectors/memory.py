"""Tables in memory as sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.decode import Decoder
from tidegate.connectors.formats import Format, Position
from tidegate.connectors.typed_columns import check_schema, typed_decoder


@dataclass(frozen=True, slots=True, eq=False)
class MemorySource:
    """Source of the rows of an Arrow table, in their order."""

    stream: SourceStream
    table: pa.Table

    @property
    def format(self) -> Format:
        return Format.DATAFRAME

    def check(self) -> None:
        check_schema(self.stream, self.table.schema, f"the DataFrame '{self.stream.name}'")

    def decoder(self, columns: frozenset[str]) -> Decoder:
        return typed_decoder(self.stream, columns)

    def read(
        self, position: Position | None, rows: int, *, columns: frozenset[str] | None = None, growing: bool = False
    ) -> Iterator[tuple[pa.RecordBatch, Position]]:
        row: int = (position or {}).get("row", 0)
        for batch in self.table.slice(row).to_batches(max_chunksize=rows):
            if batch.num_rows:
                row += batch.num_rows
                yield batch, {"row": row}

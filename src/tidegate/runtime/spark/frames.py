"""Spark streaming DataFrames as sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.decode import Decoder
from tidegate.connectors.formats import Format
from tidegate.connectors.typed_columns import typed_decoder
from tidegate.errors import InternalError


@dataclass(frozen=True, slots=True, eq=False)
class FrameSource:
    """Source of a streaming DataFrame; only Spark can read it."""

    stream: SourceStream
    frame: DataFrame
    format: Format = Format.DATAFRAME

    def check(self) -> None:
        """Do nothing: the stream has the schema of the frame."""

    def decoder(self, columns: frozenset[str]) -> Decoder:
        return typed_decoder(self.stream, columns)

    def read(
        self, position: Any, rows: int, *, columns: frozenset[str] | None = None, growing: bool = False
    ) -> Iterator[tuple[pa.RecordBatch, Any]]:
        raise InternalError("I302", "a streaming DataFrame is read by Spark alone")


def arrow_schema(frame: DataFrame) -> pa.Schema:
    return to_arrow_schema(frame.schema, timezone="UTC")

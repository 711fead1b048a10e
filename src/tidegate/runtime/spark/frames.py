"""Spark streaming DataFrames as sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.decode import Decoder
from tidegate.connectors.formats import Format
from tidegate.connectors.ranges import Point, SourcePosition, SourceRange
from tidegate.connectors.typed_columns import typed_decoder
from tidegate.errors import InternalError


@dataclass(frozen=True, slots=True, eq=False)
class FrameSource:
    """Source of a streaming DataFrame; only Spark can read it. A run reads what Spark puts into an inbox."""

    stream: SourceStream
    frame: DataFrame

    format: ClassVar[Format] = Format.DATAFRAME
    counts_bytes: ClassVar[bool] = False

    def check(self) -> None:
        """Do nothing: the stream has the schema of the frame."""

    def decoder(self, columns: frozenset[str]) -> Decoder:
        return typed_decoder(self.stream, columns)

    def find_ranges(self, position: SourcePosition, *, growing: bool) -> list[SourceRange]:
        raise _not_readable_error()

    def split_range(self, whole: SourceRange, parts: int) -> list[SourceRange]:
        raise _not_readable_error()

    def read_range(
        self, part: SourceRange, rows: int, *, columns: frozenset[str] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Point]]:
        raise _not_readable_error()


def _not_readable_error() -> InternalError:
    return InternalError("I302", "a streaming DataFrame is read by Spark alone")


def arrow_schema(frame: DataFrame) -> pa.Schema:
    return to_arrow_schema(frame.schema, timezone="UTC")

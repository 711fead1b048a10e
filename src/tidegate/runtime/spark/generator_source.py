"""The deterministic generator as a Spark streaming data source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, ReadAllAvailable, ReadLimit
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.generator import Recipe, generate
from tidegate.runtime.spark.rows import TRAVELLING, PayloadKind, batch_row, write_rows
from tidegate.schema import Field, Schema, Type
from tidegate.time import TimeUnit

NAME = "tidegate_generator"
ROWS_PER_PARTITION = 50_000


class SparkGeneratorSource(DataSource):
    """Data source whose rows are already travelling rows."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return TRAVELLING

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's names
        return _Reader(_decode_stream(self.options["stream"]))


@dataclass
class _Slice(InputPartition):
    first: int
    count: int


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, stream: SourceStream) -> None:
        self.stream, self.recipe = stream, Recipe.of(stream)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.recipe.batch)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        if isinstance(limit, ReadAllAvailable):
            return {"row": self.recipe.rows}
        return {"row": min(self.recipe.rows, start["row"] + self.recipe.batch)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing, because no rows are ever added."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        firsts = range(start["row"], end["row"], ROWS_PER_PARTITION)
        return [_Slice(first, min(ROWS_PER_PARTITION, end["row"] - first)) for first in firsts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Slice)
        batch = generate(self.stream, partition.first, partition.count)
        yield from write_rows([batch_row(0, PayloadKind.ELEMENTS, 0, batch)])


def encode_stream(stream: SourceStream) -> dict[str, str]:
    """Encode a stream as options of the data source; `_decode_stream` is the inverse."""
    content: dict[str, Any] = {
        "name": stream.name,
        "schema": [[f.name, f.type.name] for f in stream.schema],
        "location": stream.location,
        "time_column": stream.time_column,
        "options": stream.options,
        "unit": stream.unit.value if stream.unit is not None else None,
    }
    return {"stream": json.dumps(content)}


def _decode_stream(text: str) -> SourceStream:
    content = json.loads(text)
    types = {name: Type.from_name(type_) for name, type_ in content["schema"]}
    schema = Schema(tuple(Field(name, type_) for name, type_ in types.items() if type_ is not None))
    pairs = tuple((key, value) for key, value in content["options"])
    unit = TimeUnit(content["unit"]) if content["unit"] is not None else None
    return SourceStream(content["name"], schema, content["location"], content["time_column"], options=pairs, unit=unit)

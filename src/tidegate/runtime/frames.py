"""DataFrames and tables as source streams."""

from __future__ import annotations

import posixpath
import secrets
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.connectors.source import Source, open_source
from tidegate.errors import DataError, nearest
from tidegate.schema import Field, Schema, Type


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Data that a user holds in Python, to be read as a stream."""

    name: str
    data: Any
    time: str
    delay: int


def frame_source(frame: Frame, *, folder: str | None) -> Source:
    """A source over the frame; `folder` is where Spark may keep files of it, None without Spark."""
    if hasattr(frame.data, "isStreaming"):
        return _spark_frame(frame, folder)
    table = _table(frame.data)
    if folder is None:
        stream = source_stream(frame, _schema(table.schema, frame.name), f"dataframe://{frame.name}")
        return MemorySource(stream, table)
    path = posixpath.join(folder, f"{frame.name}-{secrets.token_hex(4)}.parquet")
    pq.write_table(table, path)
    return open_source(source_stream(frame, _schema(table.schema, frame.name), path))


def source_stream(frame: Frame, schema: Schema, location: str) -> SourceStream:
    if frame.time not in schema:
        raise DataError(
            "D105", f"stream '{frame.name}' has no column '{frame.time}'", hint=nearest(frame.time, schema.names)
        )
    if schema.type_of(frame.time) not in (Type.TIMESTAMP, Type.BIGINT):
        raise DataError("D105", f"the time column '{frame.time}' must be a timestamp or integer microseconds")
    return SourceStream(frame.name, schema, location, frame.time, frame.delay)


def _spark_frame(frame: Frame, folder: str | None) -> Source:
    if folder is None:
        raise DataError("D105", f"stream '{frame.name}' is a Spark DataFrame", hint='use Session(runtime="spark")')
    if not frame.data.isStreaming:
        return frame_source(Frame(frame.name, frame.data.toArrow(), frame.time, frame.delay), folder=folder)
    from tidegate.runtime.spark.frames import FrameSource, arrow_schema

    schema = _schema(arrow_schema(frame.data), frame.name)
    return FrameSource(source_stream(frame, schema, f"dataframe://{frame.name}"), frame.data)


def _table(data: Any) -> pa.Table:
    """Anything that speaks Arrow, or a pandas frame, as a table."""
    if isinstance(data, pa.Table):
        return data
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    return pa.Table.from_pandas(data, preserve_index=False)


def _schema(arrow: pa.Schema, name: str) -> Schema:
    """The columns whose types the language has; others are left out."""
    found = [(f.name, _type(f.type)) for f in arrow]
    fields = tuple(Field(n, t) for n, t in found if t is not None)
    if not fields:
        raise DataError("D105", f"stream '{name}' has no column of a type that can be used")
    return Schema(fields)


def _type(arrow: pa.DataType) -> Type | None:
    if pa.types.is_dictionary(arrow):
        return _type(arrow.value_type)
    if pa.types.is_timestamp(arrow) or pa.types.is_date(arrow):
        return Type.TIMESTAMP
    if pa.types.is_integer(arrow):
        return Type.INT if arrow.bit_width < 32 or arrow == pa.int32() else Type.BIGINT
    if pa.types.is_large_string(arrow) or pa.types.is_string(arrow) or pa.types.is_string_view(arrow):
        return Type.STRING
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return _made_of(arrow.value_type)
    if pa.types.is_map(arrow):
        return _made_of(arrow.key_type, arrow.item_type)
    return Type.of_arrow(arrow)


def _made_of(*parts: pa.DataType) -> Type | None:
    """The array or map of these, if the language has it."""
    types = [_type(part) for part in parts]
    return Type.made_of(*(type_ for type_ in types if type_ is not None)) if None not in types else None

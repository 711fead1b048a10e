"""DataFrames and Arrow tables as source streams."""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.connectors.ranges import Source
from tidegate.connectors.source import open_source
from tidegate.errors import DataError, TidegateWarning, suggest_name
from tidegate.schema import Field, Schema, Type
from tidegate.time import TimeUnit


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Python data to be read as a stream."""

    name: str
    data: Any
    time: str
    delay: int
    unit: TimeUnit | None = None


def frame_source(frame: Frame, *, folder: str | None) -> tuple[Source, tuple[TidegateWarning, ...]]:
    """Return a source for the frame, and warnings about its columns.

    In the Spark runtime, data that is not streaming is written to a file in `folder`; embedded, `folder` is None.
    """
    if hasattr(frame.data, "isStreaming"):
        return _spark_frame(frame, folder)
    table = _to_table(frame.data)
    schema, warned = _usable_schema(table.schema, frame.name), tuple(_column_warnings(table.schema, frame.name))
    table = table.select(list(schema.names))
    if folder is None:
        return MemorySource(source_stream(frame, schema, f"dataframe://{frame.name}"), table), warned
    path = posixpath.join(folder, f"{frame.name}-{secrets.token_hex(4)}.parquet")
    pq.write_table(table, path)
    return open_source(source_stream(frame, schema, path)), warned


def source_stream(frame: Frame, schema: Schema, location: str) -> SourceStream:
    if frame.time not in schema:
        raise DataError(
            "D105", f"stream '{frame.name}' has no column '{frame.time}'", hint=suggest_name(frame.time, schema.names)
        )
    _check_time_type(frame, schema.type_of(frame.time))
    return SourceStream(frame.name, schema, location, frame.time, frame.delay, unit=frame.unit)


def _check_time_type(frame: Frame, type_: Type) -> None:
    if type_ is Type.TIMESTAMP and frame.unit is not None:
        message = f"the time column '{frame.time}' has timestamps, which have no unit"
        raise DataError("D105", message, hint="remove `unit`")
    if type_ in (Type.TIMESTAMP, Type.BIGINT) or (type_ is Type.INT and frame.unit is not None):
        return
    message = f"the time column '{frame.time}' must be a timestamp or integer microseconds"
    hint = 'say what the integers count, for example unit="seconds"' if type_ is Type.INT else _TIME_HINT
    raise DataError("D105", message, hint=hint)


_TIME_HINT = "convert it, for example with pandas.to_datetime(frame['at'], unit='s', utc=True)"


def _spark_frame(frame: Frame, folder: str | None) -> tuple[Source, tuple[TidegateWarning, ...]]:
    if folder is None:
        raise DataError("D105", f"stream '{frame.name}' is a Spark DataFrame", hint='use Session(runtime="spark")')
    if not frame.data.isStreaming:
        return frame_source(replace(frame, data=frame.data.toArrow()), folder=folder)
    from tidegate.runtime.spark.frames import FrameSource, arrow_schema

    arrow = arrow_schema(frame.data)
    stream = source_stream(frame, _usable_schema(arrow, frame.name), f"dataframe://{frame.name}")
    return FrameSource(stream, frame.data), tuple(_column_warnings(arrow, frame.name))


def _to_table(data: Any) -> pa.Table:
    """Convert Arrow-compatible data or a pandas frame to a table."""
    if isinstance(data, pa.Table):
        return data
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    return pa.Table.from_pandas(data, preserve_index=False)


def _usable_schema(arrow: pa.Schema, name: str) -> Schema:
    """Return the schema of the columns whose types the language has; omit the others."""
    found = [(f.name, _language_type(f.type)) for f in arrow]
    fields = tuple(Field(n, t) for n, t in found if t is not None)
    if not fields:
        raise DataError("D105", f"stream '{name}' has no column of a supported type")
    return Schema(fields)


def _column_warnings(arrow: pa.Schema, name: str) -> Iterator[TidegateWarning]:
    """Yield a warning for each column that is omitted or whose values may be rounded."""
    for each in arrow:
        if _language_type(each.type) is None:
            message = f"stream '{name}': column '{each.name}' is left out: no query can read a column of {each.type}"
            yield TidegateWarning("W313", message, hint="drop it, or cast it to a type of the language first")
        elif _has_decimals(each.type):
            message = f"stream '{name}': column '{each.name}' of {each.type} is read as DOUBLE, which may round values"
            hint = "cast it to DOUBLE, or to BIGINT in the smallest unit, such as cents, to keep exact values"
            yield TidegateWarning("W312", message, hint=hint)


def _has_decimals(arrow: pa.DataType) -> bool:
    parts = [arrow.field(i).type for i in range(arrow.num_fields)]
    parts += [arrow.value_type] if pa.types.is_dictionary(arrow) else []
    return bool(pa.types.is_decimal(arrow)) or any(_has_decimals(part) for part in parts)


def _language_type(arrow: pa.DataType) -> Type | None:
    if pa.types.is_dictionary(arrow):
        return _language_type(arrow.value_type)
    if pa.types.is_timestamp(arrow) or pa.types.is_date(arrow):
        return Type.TIMESTAMP
    if pa.types.is_integer(arrow):
        return Type.INT if arrow.bit_width < 32 or arrow == pa.int32() else Type.BIGINT
    if pa.types.is_decimal(arrow):
        return Type.DOUBLE
    if pa.types.is_duration(arrow):
        return Type.INTERVAL
    if pa.types.is_large_string(arrow) or pa.types.is_string(arrow) or pa.types.is_string_view(arrow):
        return Type.STRING
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return _collection_type(arrow.value_type)
    if pa.types.is_map(arrow):
        return _collection_type(arrow.key_type, arrow.item_type)
    return Type.of_arrow(arrow)


def _collection_type(*parts: pa.DataType) -> Type | None:
    """Return the array or map type with these parts, if the language has it."""
    types = [_language_type(part) for part in parts]
    return Type.of_parts(*(type_ for type_ in types if type_ is not None)) if None not in types else None

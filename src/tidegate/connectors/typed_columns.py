"""Decode raw batches with typed columns (Parquet, DataFrames, generators) by casts that keep values exact.

A single value that does not fit the declared type is bad. A column whose type is incompatible with the
declared type is an error of the whole source. There are three conventions: times finer than a microsecond
are rounded down, times without a zone are in UTC, and numbers that a REAL or DOUBLE cannot hold exactly
are rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from tidegate.arrays import Mask
from tidegate.catalog.catalog import SourceStream
from tidegate.collection_entries import Entries, entries_of, rows_with_repeated_keys, without_rows
from tidegate.connectors.decode import Decoder, ParsedColumn, ParsedRows, make_decoder, parse_texts, requested_schema
from tidegate.connectors.formats import find_name, no_such_column
from tidegate.errors import DataError
from tidegate.schema import Field, Type
from tidegate.time import MICROSECONDS


@dataclass(frozen=True, slots=True)
class TypedParser:
    """Parser of typed columns, which it finds by name."""

    stream: SourceStream
    fields: tuple[Field, ...]

    def parse(self, raw: pa.RecordBatch) -> ParsedRows:
        columns = {f.name: self._parse_column(raw, f) for f in self.fields}
        shown = pa.RecordBatch.from_arrays([c.given for c in columns.values()], list(columns))
        return ParsedRows(shown, columns, {})

    def _parse_column(self, raw: pa.RecordBatch, field: Field) -> ParsedColumn:
        place = check_column(self.stream, raw.schema, field, "a batch")
        values = _decode_dictionary(raw.column(place))
        return cast_column(values, field.type, is_time=field.name in self.stream.times)


def typed_decoder(stream: SourceStream, columns: frozenset[str]) -> Decoder:
    """Return a decoder of raw batches with typed columns."""
    return make_decoder(stream, columns, TypedParser(stream, requested_schema(stream, columns, time=True).fields))


def check_schema(stream: SourceStream, schema: pa.Schema, place: str) -> None:
    """Raise an error unless a source has all declared columns, each with a compatible type."""
    for field in stream.schema:
        check_column(stream, schema, field, place)


def check_column(stream: SourceStream, schema: pa.Schema, field: Field, place: str) -> int:
    """Return the position of a declared column in a source; raise an error if it is missing or incompatible."""
    found = find_name(field.name, schema.names)
    if found is None:
        raise no_such_column(stream, place, field.name, schema.names)
    given = schema.types[found]
    # A timestamp has its own unit. Read as a number, it would be taken to be in the declared unit.
    may_be_timestamp = field.name in stream.times and stream.unit is None
    if not is_compatible(given, field.type, is_time=may_be_timestamp):
        message = f"stream '{stream.name}': column '{field.name}' of {place} is {given}, declared {field.type.name}"
        raise DataError("D103", message, hint=_declare_hint(given))
    return found


def is_compatible(given: pa.DataType, type_: Type, *, is_time: bool) -> bool:
    """Return whether a column of an Arrow type can hold values of a declared type."""
    given = given.value_type if kinds.is_dictionary(given) else given
    if kinds.is_null(given) or _is_text(given):
        return True
    match type_:
        case Type.BOOLEAN:
            return bool(kinds.is_boolean(given))
        case Type.BIGINT if is_time and kinds.is_timestamp(given):
            return True
        case Type.INT | Type.BIGINT | Type.REAL | Type.DOUBLE:
            return _is_number(given)
        case Type.TIMESTAMP:
            return bool(kinds.is_timestamp(given) or kinds.is_date(given))
        case Type.INTERVAL:
            return bool(kinds.is_duration(given))
        case _ if type_.is_array:
            return _is_list(given) and is_compatible(given.value_type, type_.parts[0], is_time=False)
        case _ if type_.is_map and kinds.is_map(given):
            pairs = zip((given.key_type, given.item_type), type_.parts, strict=True)
            return all(is_compatible(one, part, is_time=False) for one, part in pairs)
    return False


def cast_column(values: pa.Array, type_: Type, *, is_time: bool) -> ParsedColumn:
    """Cast a column of a compatible type to the declared type."""
    if _is_text(values.type):
        return parse_texts(values.cast(pa.string()), type_, is_time=is_time)
    if kinds.is_null(values.type) or (values.type == type_.arrow and not type_.is_map):
        return ParsedColumn(values.cast(type_.arrow), np.zeros(len(values), np.bool_), values)
    if type_.parts:
        return _cast_entries(values, type_)
    cast, fits = _CASTS[type_](values)
    bad = _to_mask(pc.and_(values.is_valid(), pc.invert(fits)))
    return ParsedColumn(cast if not bad.any() else _null_where(cast, bad), bad, values)


def _cast_entries(values: pa.Array, type_: Type) -> ParsedColumn:
    """Cast arrays or maps entry by entry; a row is bad if one of its entries is bad or a key is repeated."""
    found = entries_of(values if kinds.is_map(values.type) else _as_lists(values))
    items = cast_column(_decode_dictionary(found.values), type_.parts[-1], is_time=False)
    keys = None if found.keys is None else cast_column(_decode_dictionary(found.keys), type_.parts[0], is_time=False)
    bad = np.zeros(found.rows, np.bool_)
    bad[found.owners[items.bad if keys is None else items.bad | keys.bad]] = True
    made = Entries(found.bounds, items.values, None if keys is None else keys.values, found.missing)
    made = without_rows(made, bad)
    repeated = rows_with_repeated_keys(made)
    return ParsedColumn(without_rows(made, repeated).column(type_.arrow), bad | repeated, values)


def _as_lists(values: pa.Array) -> pa.Array:
    return values if kinds.is_list(values.type) else values.cast(pa.list_(values.type.value_type))


def _to_integer(values: pa.Array, arrow: pa.DataType) -> tuple[pa.Array, pa.Array]:
    if kinds.is_timestamp(values.type):
        values, fits = _to_micros(values)
        return values.cast(arrow), fits
    if not kinds.is_integer(values.type):
        return _whole_to_integer(values, arrow)
    cast = values.cast(arrow, safe=False)
    # A value that does not fit changes when it is cast back, or changes its sign.
    back = pc.equal(cast.cast(values.type, safe=False), values)
    return cast, pc.and_(back, pc.equal(pc.less(cast, 0), pc.less(values, pa.scalar(0, values.type))))


def _whole_to_integer(values: pa.Array, arrow: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Cast whole floating or decimal numbers to integers; others do not fit."""
    limit = 2 ** (arrow.bit_width - 1)
    if kinds.is_decimal(values.type):
        exact = values.to_pylist()
        fits = [v is None or (v == v.to_integral_value() and -limit <= v < limit) for v in exact]
        whole = [int(v) if v is not None and fit else None for v, fit in zip(exact, fits, strict=True)]
        return pa.array(whole, arrow), pa.array(fits)
    wide = values.cast(pa.float64())
    inside = pc.and_(pc.greater_equal(wide, float(-limit)), pc.less(wide, float(limit)))
    fits = pc.and_(inside, pc.equal(pc.floor(wide), wide))
    return pc.if_else(fits, wide, None).cast(arrow, safe=False), fits


def _to_floating(values: pa.Array, arrow: pa.DataType) -> tuple[pa.Array, pa.Array]:
    cast = values.cast(pa.float64(), safe=False).cast(arrow, safe=False)
    if not kinds.is_floating(values.type):
        return cast, _all_true(values)
    return cast, pc.or_(pc.is_finite(cast), pc.invert(pc.is_finite(values)))


def _to_timestamp(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    if kinds.is_date(values.type):
        values = values.cast(pa.timestamp("s" if kinds.is_date32(values.type) else "ms"))
    micros, fits = _to_micros(values)
    return micros.cast(Type.TIMESTAMP.arrow), fits


_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _to_micros(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Convert timestamps or durations to microseconds; those out of range do not fit."""
    counts, per_second = values.cast(pa.int64()), _PER_SECOND[values.type.unit]
    if per_second > MICROSECONDS["second"]:
        return _floor_divide(counts, per_second // MICROSECONDS["second"]), _all_true(values)
    factor = MICROSECONDS["second"] // per_second
    limit = (2**63 - 1) // factor
    fits = pc.and_(pc.greater_equal(counts, -limit), pc.less_equal(counts, limit))
    return pc.multiply(pc.if_else(fits, counts, 0), factor), fits


def _floor_divide(counts: pa.Array, divisor: int) -> pa.Array:
    quotients = np.floor_divide(counts.fill_null(0).to_numpy(), divisor)
    return pa.array(quotients, mask=_to_mask(counts.is_null()))


def _to_interval(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    micros, fits = _to_micros(values)
    return micros.cast(Type.INTERVAL.arrow), fits


_CASTS: dict[Type, Callable[[pa.Array], tuple[pa.Array, pa.Array]]] = {
    Type.INT: lambda values: _to_integer(values, pa.int32()),
    Type.BIGINT: lambda values: _to_integer(values, pa.int64()),
    Type.REAL: lambda values: _to_floating(values, pa.float32()),
    Type.DOUBLE: lambda values: _to_floating(values, pa.float64()),
    Type.TIMESTAMP: _to_timestamp,
    Type.INTERVAL: _to_interval,
}


def _is_text(given: pa.DataType) -> bool:
    return bool(kinds.is_string(given) or kinds.is_large_string(given) or kinds.is_string_view(given))


def _is_list(given: pa.DataType) -> bool:
    return bool(kinds.is_list(given) or kinds.is_large_list(given) or kinds.is_fixed_size_list(given))


def _is_number(given: pa.DataType) -> bool:
    return bool(kinds.is_integer(given) or kinds.is_floating(given) or kinds.is_decimal(given))


def _decode_dictionary(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if kinds.is_dictionary(values.type) else values


def _all_true(values: pa.Array) -> pa.Array:
    return pa.array(np.ones(len(values), np.bool_))


def _to_mask(flags: pa.Array) -> Mask:
    return flags.fill_null(fill_value=False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _null_where(values: pa.Array, bad: Mask) -> pa.Array:
    return pc.if_else(pa.array(bad), pa.scalar(None, values.type), values)


def _declare_hint(given: pa.DataType) -> str | None:
    """Return a hint with the types as which a column of this Arrow type can be declared."""
    fitting = [t.name for t in Type if t is not Type.NULL and is_compatible(given, t, is_time=False)]
    return f"declare it {' or '.join(fitting)}" if fitting else None

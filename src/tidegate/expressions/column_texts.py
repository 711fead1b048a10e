"""Values as text, column by column.

Times are ISO 8601 in UTC. JSON has no NaN and no infinity: they are written as the strings "NaN", "Infinity" and
"-Infinity", which the reader accepts for a DOUBLE or REAL column. Arrays and maps are JSON; keys of maps are strings.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.collection_entries import entries_of, is_collection
from tidegate.expressions.parse.times import format_intervals, format_timestamps
from tidegate.schema import Type


def column_texts(values: pa.Array) -> pa.Array:
    """Return the values as strings; NULL stays NULL.

    Examples
    --------
    >>> column_texts(pa.array([1.5, float("nan"), None])).to_pylist()
    ['1.5', 'NaN', None]
    >>> column_texts(pa.array([["a", None], []])).to_pylist()
    ['["a", null]', '[]']
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    match values.type:
        case t if pa.types.is_floating(t):
            return _float_texts(values)
        case t if pa.types.is_timestamp(t) or pa.types.is_duration(t):
            return _time_texts(values)
        case t if is_collection(t):
            return _collection_texts(values)
        case t if _is_opaque(t):
            dumped = [None if v is None else json.dumps(v, default=str) for v in values.to_pylist()]
            return pa.array(dumped, pa.string())
    return values.cast(pa.string())


def json_texts(values: pa.Array) -> pa.Array:
    """Return the values as JSON."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    texts = column_texts(values)
    match values.type:
        case t if pa.types.is_floating(t):
            texts = pc.if_else(pc.is_finite(values), texts, pc.binary_join_element_wise('"', texts, '"', ""))
        case t if is_text(t):
            texts = _json_strings(texts)
        case t if not (pa.types.is_integer(t) or pa.types.is_boolean(t) or _is_opaque(t)):
            texts = pc.binary_join_element_wise('"', texts, '"', "")
    return texts.fill_null("null")


def json_rows(rows: pa.RecordBatch) -> pa.Array:
    """Return each row as a JSON object on one line; integers are exact.

    Examples
    --------
    >>> json_rows(pa.RecordBatch.from_pydict({"a": [1], "b": ["x"]})).to_pylist()
    ['{"a": 1, "b": "x"}']
    """
    pieces: list[pa.Array | str] = []
    for i, (name, column) in enumerate(zip(rows.schema.names, rows.columns, strict=True)):
        opening = ", " if i else "{"
        pieces += [f"{opening}{json.dumps(name, ensure_ascii=False)}: ", json_texts(column)]
    if not pieces:
        return pa.array(["{}"] * rows.num_rows, pa.string())
    return pc.binary_join_element_wise(*pieces, "}", "")


def is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _is_opaque(type_: pa.DataType) -> bool:
    """Return whether values have no text form of their own, so that they are shown as JSON."""
    return bool(pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_))


def _collection_texts(values: pa.Array) -> pa.Array:
    found = entries_of(values)
    entries, (opening, closing) = json_texts(found.values), "[]"
    if found.keys is not None:
        keys, (opening, closing) = _json_strings(column_texts(found.keys)), "{}"
        entries = pc.binary_join_element_wise(keys, entries, ": ")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(found.bounds, pa.int32()), entries), ", ")
    texts = pc.binary_join_element_wise(opening, joined, closing, "")
    return pc.if_else(pa.array(found.missing), pa.scalar(None, pa.string()), texts)


def _float_texts(values: pa.Array) -> pa.Array:
    texts = values.cast(pa.string())
    texts = pc.if_else(pc.equal(texts, "-0"), "-0.0", texts)  # as an integer it would lose its sign
    special = pc.invert(pc.is_finite(values))
    if pc.any(special, min_count=0).as_py():
        infinite = pc.if_else(pc.greater(values, 0), "Infinity", "-Infinity")
        texts = pc.if_else(special, pc.if_else(pc.is_nan(values), "NaN", infinite), texts)
    return texts


def _time_texts(values: pa.Array) -> pa.Array:
    """Format timestamps and intervals of any unit; as plain counts if one exceeds the range of microseconds."""
    is_fine, is_instant = values.type.unit == "ns", pa.types.is_timestamp(values.type)
    unit = pa.timestamp("us", values.type.tz) if is_instant else pa.duration("us")
    try:
        micros = values.cast(unit, safe=not is_fine).cast(pa.int64())
    except pa.ArrowInvalid:
        return values.cast(pa.int64()).cast(pa.string())
    return format_timestamps(micros.cast(Type.TIMESTAMP.arrow)) if is_instant else _interval_texts(micros)


def _interval_texts(micros: pa.Array) -> pa.Array:
    distinct = micros.cast(Type.INTERVAL.arrow).dictionary_encode()
    return format_intervals(distinct.dictionary).take(distinct.indices)


def _json_strings(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(texts, r'[\x00-\x1f"\\]'), min_count=0).as_py():
        dumped = [None if t is None else json.dumps(t, ensure_ascii=False) for t in texts.to_pylist()]
        return pa.array(dumped, pa.string())
    return pc.binary_join_element_wise('"', texts, '"', "")

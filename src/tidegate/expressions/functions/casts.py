"""CAST between types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.collection_entries import Entries, entries_of, without_rows
from tidegate.errors import InternalError
from tidegate.expressions.column_texts import column_texts
from tidegate.expressions.columns import Outcome, Value, make_column, make_outcome, null_mask, numbers
from tidegate.expressions.failures import Failure, errors_where, merge
from tidegate.expressions.parse.times import format_intervals, format_timestamps
from tidegate.expressions.parse.values import parse_column
from tidegate.schema import Type


def cast(arguments: Sequence[Value], target: Type) -> Outcome:
    """Cast the only argument to another type."""
    (values,) = arguments
    source = Type.of_arrow(values.type)
    match source, target:
        case _ if source is target:
            return values, None
        case (Type.NULL, _):
            return values.cast(target.arrow), None
        case (Type.STRING, _):
            return _parse_texts(values, target)
        case _ if source is not None and source.parts:
            return (column_texts(values), None) if target is Type.STRING else _cast_entries(values, target)
        case (Type.TIMESTAMP, Type.STRING):
            return format_timestamps(values), None
        case (Type.INTERVAL, Type.STRING):
            return format_intervals(values), None
        case ((Type.REAL | Type.DOUBLE), (Type.INT | Type.BIGINT)):
            return _truncate(values, target)
        case (Type.BIGINT, Type.INT):
            return _narrow_to_int(values)
        case ((Type.BOOLEAN | Type.INT | Type.BIGINT | Type.REAL | Type.DOUBLE), _) if not _is_time(target):
            return values.cast(target.arrow, safe=False), None
    raise InternalError("I120", f"no cast from {values.type} to {target.name}")


def _cast_entries(values: pa.Array, target: Type) -> Outcome:
    """Cast arrays and maps entry by entry; a row fails if one of its entries does."""
    found = entries_of(values)
    items, failed = cast([found.values], target.parts[-1])
    keys = None if found.keys is None else cast([found.keys], target.parts[0])[0]
    made = Entries(found.bounds, items, keys, found.missing)
    if failed is None:
        return made.column(target.arrow), None
    errors = np.zeros(found.rows, np.int8)
    for failure in sorted(Failure, reverse=True)[:-1]:  # the smallest number counts
        errors[found.owners[failed == failure]] = failure
    return without_rows(made, errors != 0).column(target.arrow), errors


def _is_time(type_: Type) -> bool:
    return type_ in (Type.TIMESTAMP, Type.INTERVAL)


def _parse_texts(texts: pa.Array, target: Type) -> Outcome:
    values, bad = parse_column(texts, target)
    return values, errors_where(bad, Failure.INVALID_CAST)


def _narrow_to_int(values: pa.Array) -> Outcome:
    try:
        return values.cast(pa.int32()), None
    except pa.ArrowInvalid:
        wide = numbers(values)
        bad = (wide < -(2**31)) | (wide >= 2**31)
        return make_outcome(wide, null_mask(values), bad, Failure.OVERFLOW, Type.INT)


def _truncate(values: pa.Array, target: Type) -> Outcome:
    """Truncate towards zero first, because Arrow's safe cast refuses fractions."""
    try:
        return pc.trunc(values).cast(target.arrow), None
    except pa.ArrowInvalid:
        return _truncate_each(values, target)


def _truncate_each(values: pa.Array, target: Type) -> Outcome:
    missing, whole = null_mask(values), np.trunc(numbers(values).astype(np.float64))
    limit = 2.0**31 if target is Type.INT else 2.0**63
    strange = ~np.isfinite(whole)
    large = ~strange & ((whole < -limit) | (whole >= limit))
    errors = merge(
        errors_where(strange & ~missing, Failure.INVALID_CAST), errors_where(large & ~missing, Failure.OVERFLOW)
    )
    fine = np.where(strange | large, 0.0, whole).astype(np.int64)
    return make_column(fine, missing | strange | large, target), errors

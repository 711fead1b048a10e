"""Strict parsing of values from text, a whole column at a time.

White space around a value is ignored. A text that is no value of the type makes its row bad, never an exception; NULL
stays NULL and is not bad. The patterns accept everything that the fast paths accept, so that a row's value never
depends on the rows around it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import Mask
from tidegate.expressions.bisect_errors import apply_by_halves
from tidegate.expressions.parse.collections import parse_collections
from tidegate.expressions.parse.times import parse_intervals, parse_timestamps
from tidegate.schema import Type

_INTEGER = r"\A[+-]?[0-9]+\z"
_FLOATING = r"\A[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:nan|inf|infinity))\z"
_SURELY_64_BITS = 18
"""Integers with this number of characters fit in 64 bits, whatever the digits are."""

_TRUE, _FALSE = pa.array(["true", "t", "1"]), pa.array(["false", "f", "0"])


def parse_column(texts: pa.Array, type_: Type) -> tuple[pa.Array, Mask]:
    """Parse values of a type from text, and return the mask of invalid rows (those are NULL).

    Examples
    --------
    >>> values, bad = parse_column(pa.array(["7", " +8 ", "x", None]), Type.INT)
    >>> values.to_pylist(), bad.tolist()
    ([7, 8, None, None], [False, False, True, False])
    """
    match type_:
        case Type.STRING:
            return texts, np.zeros(len(texts), np.bool_)
        case Type.NULL:
            return _with_bad_mask(texts, pa.nulls(len(texts)))
        case Type.BOOLEAN:
            return _with_bad_mask(texts, _parse_booleans(_trim(texts)))
        case Type.INT | Type.BIGINT:
            return _with_bad_mask(texts, _parse_integers(texts, type_))
        case Type.REAL | Type.DOUBLE:
            return _with_bad_mask(texts, _parse_floats(texts, type_))
        case Type.TIMESTAMP:
            return _with_bad_mask(texts, parse_timestamps(texts))
        case Type.INTERVAL:
            return _with_bad_mask(texts, parse_intervals(_trim(texts)))
        case _:
            return _with_bad_mask(texts, parse_collections(texts, type_, parse_column))


def _with_bad_mask(texts: pa.Array, values: pa.Array) -> tuple[pa.Array, Mask]:
    """Mark as bad the rows whose text became NULL."""
    if values.null_count == texts.null_count:
        return values, np.zeros(len(texts), np.bool_)
    return values, np.asarray(pc.and_(values.is_null(), texts.is_valid()).to_numpy(zero_copy_only=False))


def _trim(texts: pa.Array) -> pa.Array:
    return pc.utf8_trim_whitespace(texts)


def _keep_matching(texts: pa.Array, pattern: str) -> pa.Array:
    """Keep the texts that match; the others become NULL."""
    return pc.if_else(pc.match_substring_regex(texts, pattern), texts, pa.scalar(None, pa.string()))


def _parse_booleans(texts: pa.Array) -> pa.Array:
    lower = pc.utf8_lower(texts)
    true, false = pc.is_in(lower, value_set=_TRUE), pc.is_in(lower, value_set=_FALSE)
    return pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))


def _parse_integers(texts: pa.Array, type_: Type) -> pa.Array:
    def fast(part: pa.Array) -> pa.Array:
        if _may_be_hexadecimal(part):
            raise pa.ArrowInvalid("Arrow would read 0x10 as 16")
        return part.cast(type_.arrow)

    return apply_by_halves(texts, fast, lambda part: _parse_integers_carefully(part, type_))


def _parse_integers_carefully(texts: pa.Array, type_: Type) -> pa.Array:
    plain = pc.replace_substring_regex(_keep_matching(_trim(texts), _INTEGER), r"\A\+?(-?)0*([0-9])", r"\1\2")
    short = pc.less_equal(pc.utf8_length(plain), _SURELY_64_BITS)
    values = pc.if_else(short, plain, pa.scalar(None, pa.string())).cast(pa.int64())
    return _narrow_to_type(_with_long_ones(values, plain, short), type_)


def _with_long_ones(values: pa.Array, plain: pa.Array, short: pa.Array) -> pa.Array:
    # Nearly all numbers are short, so the long ones are read one at a time.
    rows = np.flatnonzero(pc.invert(short).fill_null(False).to_numpy(zero_copy_only=False))  # noqa: FBT003
    if not len(rows):
        return values
    read = [_parse_if_64_bits(text) for text in plain.take(pa.array(rows)).to_pylist()]
    mask = np.zeros(len(values), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(values, pa.array(mask), pa.array(read, pa.int64()))


def _parse_if_64_bits(text: str) -> int | None:
    if len(text) > _SURELY_64_BITS + 2:
        return None
    return value if -(2**63) <= (value := int(text)) < 2**63 else None


def _narrow_to_type(values: pa.Array, type_: Type) -> pa.Array:
    if type_ is Type.BIGINT:
        return values
    fits = pc.and_(pc.greater_equal(values, -(2**31)), pc.less(values, 2**31))
    return pc.if_else(fits, values, pa.scalar(None, pa.int64())).cast(pa.int32())


def _may_be_hexadecimal(texts: pa.Array) -> bool:
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return False
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    letters = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return bool(((letters | 0x20) == ord("x")).any())


def _parse_floats(texts: pa.Array, type_: Type) -> pa.Array:
    return apply_by_halves(
        texts,
        lambda part: part.cast(type_.arrow),
        lambda part: _keep_matching(_trim(part), _FLOATING).cast(type_.arrow),
    )

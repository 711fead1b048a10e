"""Codes: values of any ordered type as 64-bit integers in the same order, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.collection_entries import identity_bytes, is_collection, normalize
from tidegate.physical.common.arrays import Flags, Ints, Mask

Decode = Callable[[Ints, Mask | None], pa.Array]

_ALL_BUT_SIGN = np.int64(2**63 - 1)


@dataclass(frozen=True, slots=True, eq=False)
class CodedColumns:
    """Codes of several columns (arbitrary where NULL), and a function that decodes them."""

    codes: tuple[Ints, ...]
    decode: Decode


def order_codes(columns: Sequence[pa.Array]) -> CodedColumns:
    """Code columns of one type: a code is smaller, equal or greater as its value is.

    Codes of strings are valid among these columns only. NaN is the greatest float; -0.0 equals 0.0. Arrays and maps
    have no order in SQL; here they get one that depends only on their values.

    Examples
    --------
    >>> import pyarrow as pa
    >>> coded = order_codes([pa.array(["b", "c"]), pa.array(["a", "c"])])
    >>> [c.tolist() for c in coded.codes]
    [[1, 2], [0, 2]]
    >>> coded.decode(coded.codes[1], None).to_pylist()
    ['a', 'c']
    """
    kind = columns[0].type
    if is_collection(kind):
        return _collection_ranks(columns)
    if pa.types.is_string(kind):
        return _string_ranks(columns)
    if pa.types.is_floating(kind):
        return CodedColumns(tuple(_float_codes(c) for c in columns), partial(_decode_floats, kind))
    return CodedColumns(tuple(integers(c) for c in columns), partial(_decode_integers, kind))


def integers(column: pa.Array) -> Ints:
    """Return a column of integers, booleans, times or durations as 64-bit integers; 0 where NULL."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    whole = column.cast(pa.int64())
    return np.array(whole.fill_null(0) if whole.null_count else whole)


def doubles(column: pa.Array) -> npt.NDArray[np.float64]:
    """Return a column of numbers as doubles; 0 where NULL."""
    wide = column.cast(pa.float64())
    return np.array(wide.fill_null(0.0) if wide.null_count else wide)


def presence(column: pa.Array) -> Flags:
    """Return 1 where the column has a value, 0 where it is NULL."""
    if not column.null_count:
        return np.ones(len(column), np.uint8)
    return column.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)


def row_order_by_codes(keys: Sequence[Ints]) -> Ints:
    """Return the order of rows by several codes, the most important first; ties may be in any order.

    Sorting by the first code alone is much faster, and often leaves few rows to sort by the others.

    Examples
    --------
    >>> import numpy as np
    >>> row_order_by_codes([np.array([2, 1, 2]), np.array([5, 4, 3])]).tolist()
    [1, 2, 0]
    """
    order = np.argsort(keys[0])
    equal = np.diff(keys[0][order]) == 0
    if len(keys) == 1 or not equal.any():
        return order
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    rows = order[tied]
    order[tied] = rows[np.lexsort([key[rows] for key in reversed(keys)])]
    return order


def equality_classes(order: Ints, keys: Sequence[Ints]) -> Ints:
    """Return a number for each row, the same for rows with equal codes; `order` sorts the rows by the codes.

    Examples
    --------
    >>> import numpy as np
    >>> equality_classes(np.array([1, 2, 0]), [np.array([2, 1, 1])]).tolist()
    [1, 0, 0]
    """
    number = np.zeros(len(order), np.int64)
    if len(order) and keys:
        differs = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
        number[order] = np.concatenate([[0], np.cumsum(differs)])
    return number


def _string_ranks(columns: Sequence[pa.Array]) -> CodedColumns:
    encoded = pa.concat_arrays(columns).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)  # by bytes, which in UTF-8 is by code point
    rank = np.zeros(len(order) + 1, np.int64)
    rank[np.array(order)] = np.arange(len(order))
    codes = rank[np.array(encoded.indices.fill_null(len(order)))]
    bounds = np.cumsum([len(c) for c in columns])[:-1]
    return CodedColumns(tuple(np.split(codes, bounds)), partial(_decode_ranks, encoded.dictionary.take(order)))


def _collection_ranks(columns: Sequence[pa.Array]) -> CodedColumns:
    coded = _string_ranks([identity_bytes(column) for column in columns])
    every, codes = normalize(pa.concat_arrays(columns)), np.concatenate(coded.codes)
    example = np.zeros(codes.max(initial=-1) + 1, np.int64)
    example[codes] = np.arange(len(codes))
    return CodedColumns(coded.codes, partial(_decode_ranks, every.take(pa.array(example))))


def _float_codes(column: pa.Array) -> Ints:
    numbers = doubles(column) + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return _flip_negative(numbers.view(np.int64))


def _decode_floats(kind: pa.DataType, codes: Ints, nulls: Mask | None) -> pa.Array:
    return pa.array(_flip_negative(codes).view(np.float64), mask=nulls).cast(kind)


def _flip_negative(bits: Ints) -> Ints:
    """Turn the bits of floats into ordered integers; its own inverse."""
    return np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)


def _decode_integers(kind: pa.DataType, codes: Ints, nulls: Mask | None) -> pa.Array:
    return pa.array(codes.astype(np.bool_) if pa.types.is_boolean(kind) else codes, mask=nulls).cast(kind)


def _decode_ranks(ordered: pa.Array, codes: Ints, nulls: Mask | None) -> pa.Array:
    return ordered.take(pa.array(codes, mask=nulls))

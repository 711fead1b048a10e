"""Entries of columns of arrays and maps: the elements of arrays, the keys and values of maps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import Ints, Mask


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """All entries of a column in sequence; row i has those from bounds[i] to bounds[i + 1].

    Arrays have no `keys`; their elements are the `values`. A row that is NULL has no entries.
    """

    bounds: Ints
    values: pa.Array
    keys: pa.Array | None
    missing: Mask

    def __len__(self) -> int:
        return len(self.values)

    @property
    def rows(self) -> int:
        return len(self.missing)

    @property
    def owners(self) -> Ints:
        """Row of each entry."""
        return np.repeat(np.arange(self.rows), np.diff(self.bounds))

    def column(self, kind: pa.DataType) -> pa.Array:
        """Build the column of a type that has these entries."""
        ends = pa.array(self.bounds, pa.int32())
        mask = pa.array(self.missing) if self.missing.any() else None
        if self.keys is None:
            return pa.ListArray.from_arrays(ends, self.values, mask=mask).cast(kind)
        return pa.MapArray.from_arrays(ends, self.keys, self.values, mask=mask).cast(kind)


def is_collection(kind: pa.DataType) -> bool:
    """Return whether columns of a type have entries."""
    return bool(pa.types.is_list(kind) or pa.types.is_map(kind))


def entries_of(column: pa.Array) -> Entries:
    """Return the entries of a column of arrays or maps.

    Examples
    --------
    >>> found = entries_of(pa.array([[1, 2], None, [3]]))
    >>> found.bounds.tolist(), found.values.to_pylist()
    ([0, 2, 2, 3], [1, 2, 3])
    """
    missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False))
    ends = np.asarray(column.offsets, np.int64)
    sizes = np.where(missing, 0, np.diff(ends))
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    parts = (column.items, column.keys) if pa.types.is_map(column.type) else (column.values, None)
    if bounds[-1] == ends[-1] - ends[0]:
        values, keys = (None if part is None else part.slice(ends[0], bounds[-1]) for part in parts)
    else:  # NULL rows have hidden entries, which must be skipped
        places = pa.array(np.arange(bounds[-1]) + np.repeat(ends[:-1] - bounds[:-1], sizes))
        values, keys = (None if part is None else part.take(places) for part in parts)
    return Entries(bounds, values, keys, missing)


def rows_with_repeated_keys(found: Entries) -> Mask:
    """Return a mask of the rows in which a key is repeated."""
    repeated = np.zeros(found.rows, np.bool_)
    if found.keys is None or not len(found):
        return repeated
    codes, size = codes_of(found.keys)
    pairs = np.sort(found.owners * size + codes)
    repeated[pairs[1:][pairs[1:] == pairs[:-1]] // size] = True
    return repeated


def without_rows(found: Entries, rows: Mask) -> Entries:
    """Set some rows to NULL and drop their entries."""
    if not rows.any():
        return found
    kept = pa.array(~rows[found.owners])
    bounds = np.concatenate([[0], np.cumsum(np.where(rows, 0, np.diff(found.bounds)))])
    keys = None if found.keys is None else found.keys.filter(kept)
    return Entries(bounds, found.values.filter(kept), keys, found.missing | rows)


def normalize(column: pa.Array) -> pa.Array:
    """Normalize a column so that equal values look equal: one NaN, one zero, and maps sorted by key."""
    found = entries_of(column)
    if found.keys is None:
        return column if not pa.types.is_floating(column.type.value_type) else _normal_column(found, column.type)
    pairs = found.owners * len(found) + _ranks(found.keys)
    if (pairs[1:] > pairs[:-1]).all():
        return _normal_column(found, column.type)
    places = pa.array(np.argsort(pairs))
    by_key = Entries(found.bounds, found.values.take(places), found.keys.take(places), found.missing)
    return _normal_column(by_key, column.type)


def identity_bytes(column: pa.Array) -> pa.Array:
    """Return bytes for each row that are equal exactly if the values are; NULL for rows that are NULL.

    NULL entries are equal to each other. Arrays are equal if their elements are equal one by one, maps if
    they have the same value for every key. The bytes must never change, because hashes are made from them.
    """
    found = entries_of(normalize(column))
    words = _encode_values(found.values)
    if found.keys is not None:
        words = pc.binary_join_element_wise(_encode_values(found.keys), words, b"")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(found.bounds, pa.int32()), words), b"")
    return pc.if_else(pa.array(found.missing), pa.scalar(None, pa.binary()), joined)


def normalize_floats(values: pa.Array) -> pa.Array:
    """Normalize floats to one NaN and one zero, so that equal values look equal."""
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False) + np.dtype(values.type.to_pandas_dtype()).type(0)
    numbers[np.isnan(numbers)] = np.nan
    nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(numbers, values.type, mask=nulls)


def codes_of(values: pa.Array) -> tuple[Ints, int]:
    """Return a code for each value, equal for equal values and -1 for NULL, and the number of codes."""
    plain = normalize_floats(values) if pa.types.is_floating(values.type) else values
    encoded = plain.dictionary_encode()
    return np.asarray(encoded.indices.fill_null(-1), np.int64), len(encoded.dictionary)


def _normal_column(found: Entries, kind: pa.DataType) -> pa.Array:
    values = normalize_floats(found.values) if pa.types.is_floating(found.values.type) else found.values
    return Entries(found.bounds, values, found.keys, found.missing).column(kind)


def _ranks(keys: pa.Array) -> Ints:
    """Return the rank of each key in sort order; no key may be NULL."""
    encoded = keys.dictionary_encode()
    rank = np.empty(len(encoded.dictionary), np.int64)
    rank[np.asarray(pc.sort_indices(encoded.dictionary))] = np.arange(len(rank))
    ranks: Ints = rank[np.asarray(encoded.indices)]
    return ranks


def _encode_values(values: pa.Array) -> pa.Array:
    """Encode each value as bytes that are equal if the values are, and never a prefix of another encoding."""
    present = np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
    if pa.types.is_string(values.type):
        texts = values.fill_null("").cast(pa.binary())
        sizes = np.asarray(pc.binary_length(texts), "<i4")
        return pc.binary_join_element_wise(_encode_numbers(present, sizes), texts, b"")
    if pa.types.is_floating(values.type):
        bits = np.asarray(values.cast(pa.float64()).fill_null(0.0), "<f8").view("<i8")
    else:
        whole = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
        bits = np.asarray(whole.cast(pa.int64()).fill_null(0), "<i8")
    return _encode_numbers(present, bits)


def _encode_numbers(present: Mask, numbers: npt.NDArray[np.integer]) -> pa.Array:
    """Encode each number as a byte that says whether it is present, then the bytes of the number."""
    width = 1 + numbers.itemsize
    content = np.empty((len(numbers), width), np.uint8)
    content[:, 0] = present
    content[:, 1:] = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), width - 1)
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * np.int32(width)
    return pa.BinaryArray.from_buffers(pa.binary(), len(numbers), [None, pa.py_buffer(ends), pa.py_buffer(content)])

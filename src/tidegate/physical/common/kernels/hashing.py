"""Hashes of rows that are the same in every process, on every machine and in every version.

State in checkpoints is laid out by these hashes and rows are distributed over buckets by them, so the results must
never change. Values that are equal in SQL have equal hashes: 0.0 and -0.0, all NaN, and integers of either width.

The upper half of a hash orders the groups of a join's run (see `runs`), the lower half chooses the bucket. So within
one bucket, the upper half is still evenly distributed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.collection_entries import identity_bytes, is_collection
from tidegate.physical.common.arrays import Array, Bytes, Positions, Words
from tidegate.physical.common.kernels.compiled import compiled, inlined

Hashes = Words

NULL_HASH = 0x9AE16A3B2F90404F
"""Hash of NULL in every column."""


def hash_columns(columns: Sequence[pa.Array]) -> Hashes:
    """Return one hash for each row of the columns; there must be at least one column.

    The hash of a single column of integers, floats, booleans or times without NULL is a bijection of its values: rows
    are equal exactly if their hashes are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> one = hash_columns([pa.array([7, 8], pa.int32())])
    >>> two = hash_columns([pa.array([7, 8], pa.int64())])
    >>> bool((one == two).all()), bool(one[0] == one[1])
    (True, False)
    """
    first, *others = columns
    hashes = _hash_column(first)
    for column in others:
        hashes = _combine_hashes(hashes, _hash_column(column))
    return hashes


def bucket_of(hashes: Hashes, buckets: int) -> npt.NDArray[np.int32]:
    """Return the bucket, 0 to `buckets` - 1, of each hash."""
    low = hashes & np.uint64(0xFFFFFFFF)
    return ((low * np.uint64(buckets)) >> np.uint64(32)).astype(np.int32)


def fixed_width_values(column: pa.Array, dtype: type[np.generic]) -> Array:
    """Return the values of a column of fixed width as they lie in memory; arbitrary where NULL."""
    if not len(column):
        return read_only(np.empty(0, dtype))
    width = column.type.bit_width // 8
    return read_only(np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * width))


def _hash_column(column: pa.Array) -> Hashes:
    hashes = _hash_values(column)
    if column.null_count:
        hashes[column.is_null().to_numpy(zero_copy_only=False)] = NULL_HASH
    return hashes


def _hash_values(column: pa.Array) -> Hashes:
    """Return hashes of the values; arbitrary where NULL."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), NULL_HASH, np.uint64)
    if is_collection(kind):
        return _hash_strings(identity_bytes(column))
    if pa.types.is_string(kind):
        return _hash_strings(column)
    if pa.types.is_boolean(kind):
        return _hash_integers(read_only(column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64)))  # noqa: FBT003 - Arrow's API
    if pa.types.is_floating(kind):
        return _hash_floats(fixed_width_values(column, np.float32 if kind == pa.float32() else np.float64))
    return _hash_integers(fixed_width_values(column, np.int32 if kind == pa.int32() else np.int64))


def _hash_strings(column: pa.Array) -> Hashes:
    _, offsets, data = column.buffers()
    if not len(column):
        return np.empty(0, np.uint64)
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return _hash_texts(read_only(ends), read_only(content))


def read_only(values: Array) -> Array:
    """Return a read-only view; to the compiler of kernels, writable arrays are another type."""
    if values.flags.writeable:
        values = values.view()
        values.flags.writeable = False
    return values


@inlined
def mix(bits: np.uint64) -> np.uint64:
    """Mix 64 bits bijectively so that every bit depends on every other (the finaliser of SplitMix64)."""
    bits = np.uint64(bits) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@compiled
def _hash_integers(values: npt.NDArray[np.integer]) -> Hashes:
    hashes = np.empty(len(values), np.uint64)
    for row in range(len(values)):
        hashes[row] = mix(np.uint64(np.int64(values[row])))
    return hashes


@compiled
def _hash_floats(values: npt.NDArray[np.floating]) -> Hashes:
    doubles = values.astype(np.float64)
    bits = doubles.view(np.uint64)
    hashes = np.empty(len(values), np.uint64)
    for row in range(len(values)):
        value = doubles[row]
        if value != value:  # noqa: PLR0124 - NaN
            hashes[row] = mix(np.uint64(0x7FF8000000000000))
        elif value == 0.0:
            hashes[row] = mix(np.uint64(0))
        else:
            hashes[row] = mix(bits[row])
    return hashes


@compiled
def _hash_texts(ends: Positions, content: Bytes) -> Hashes:
    """Hash eight bytes at a time; the length is included because the last word is padded with zeros."""
    hashes = np.empty(len(ends) - 1, np.uint64)
    for row in range(len(hashes)):
        at, end = np.uint64(ends[row]), np.uint64(ends[row + 1])
        state = mix(end - at)
        while at + np.uint64(8) <= end:
            word = np.uint64(0)
            for byte in range(8):
                word |= np.uint64(content[at + np.uint64(byte)]) << np.uint64(8 * byte)
            state = mix(state ^ word)
            at += np.uint64(8)
        word, shift = np.uint64(0), np.uint64(0)
        while at < end:
            word |= np.uint64(content[at]) << shift
            shift += np.uint64(8)
            at += np.uint64(1)
        hashes[row] = mix(state ^ word)
    return hashes


@compiled
def _combine_hashes(hashes: Hashes, others: Hashes) -> Hashes:
    """Combine hashes of rows with those of a further column; the order of the columns matters."""
    combined = np.empty(len(hashes), np.uint64)
    for row in range(len(hashes)):
        combined[row] = mix((hashes[row] * np.uint64(0xD6E8FEB86659FD93)) ^ others[row])
    return combined

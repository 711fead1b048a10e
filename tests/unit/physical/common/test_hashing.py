"""Hashes: what must be equal, what must differ, and that they never change."""

from __future__ import annotations

import math
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from tidegate.physical.common.kernels.hashing import NULL_HASH, bucket_of, hash_columns

TEXTS = ["", "a", "b", "ab", "ba", "a\0", "12345678", "123456789", "éö", "12345678\0", None]


def hashes(*columns: pa.Array) -> list[int]:
    return hash_columns(columns).tolist()


def test_hashes_never_change() -> None:
    """State in checkpoints is laid out by them."""
    assert hashes(pa.array([0, 1, -1, 2**63 - 1])) == [
        16294208416658607535,
        10451216379200822465,
        16490336266968443936,
        3055647633038352039,
    ]
    assert hashes(pa.array(["", "a", "tidegate", "continuous queries"])) == [
        12035550249420947055,
        6774081908283191102,
        3974814852612649690,
        11984863149150976940,
    ]
    assert hashes(pa.array([0.5, math.nan, 0.0])) == [17606427253252083309, 14351126860892846918, 16294208416658607535]
    assert hashes(pa.array([True, False])) == [10451216379200822465, 16294208416658607535]
    assert hashes(pa.array([1]), pa.array(["a"])) == [12531014563602373909]


def test_hashes_are_the_same_in_another_process() -> None:
    program = (
        "import pyarrow as pa; from tidegate.physical.common.kernels.hashing import hash_columns;"
        "print(hash_columns([pa.array(['x', 'yy', None]), pa.array([1.5, None, 2.5])]).tolist())"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == str(hashes(pa.array(["x", "yy", None]), pa.array([1.5, None, 2.5])))


def test_equal_values_have_equal_hashes() -> None:
    zeros = pa.array([0.0, -0.0])
    nans = pa.array(np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001], np.uint64).view(np.float64))
    assert len(set(hashes(zeros))) == 1
    assert len(set(hashes(nans))) == 1
    assert hashes(pa.array([1, -5, None], pa.int32())) == hashes(pa.array([1, -5, None], pa.int64()))
    assert hashes(pa.array([0.5, math.inf, None], pa.float32())) == hashes(pa.array([0.5, math.inf, None]))


def test_times_hash_as_their_microseconds() -> None:
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=7)
    expected = hashes(pa.array([7]))
    assert hashes(pa.array([instant], pa.timestamp("us", tz="UTC"))) == expected
    assert hashes(pa.array([timedelta(microseconds=7)], pa.duration("us"))) == expected


def test_null_hashes_to_a_constant_in_every_column() -> None:
    for type_ in (pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.null()):
        assert hashes(pa.array([None], type_)) == [NULL_HASH]


def test_different_texts_have_different_hashes() -> None:
    assert len(set(hashes(pa.array(TEXTS)))) == len(TEXTS)


def test_the_order_and_the_cut_of_columns_count() -> None:
    a, b, ab, empty = (pa.array([text]) for text in ("a", "b", "ab", ""))
    assert len({hashes(a, b)[0], hashes(b, a)[0], hashes(ab, empty)[0], hashes(empty, ab)[0], hashes(ab)[0]}) == 5


@pytest.mark.parametrize(
    "column",
    [
        pa.array(TEXTS),
        pa.array([1, None, 3, 4, 5], pa.int32()),
        pa.array([1.5, None, -0.0, math.nan]),
        pa.array([True, None, False, True]),
    ],
)
def test_slices_hash_like_the_whole(column: pa.Array) -> None:
    for begin in range(len(column)):
        for length in range(len(column) - begin + 1):
            assert hashes(column.slice(begin, length)) == hashes(column)[begin : begin + length]


def test_one_column_of_numbers_is_hashed_without_collisions() -> None:
    """The hash is a bijection: undo it."""
    values = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 1000)
    assert unmix(hash_columns([pa.array(values)])).tolist() == values.tolist()


def unmix(hashes_: np.ndarray) -> np.ndarray:
    def back(bits: np.ndarray, shift: int) -> np.ndarray:
        result = bits
        for _ in range(64 // shift + 1):
            result = bits ^ (result >> np.uint64(shift))
        return result

    with np.errstate(over="ignore"):
        bits = back(hashes_, 31) * np.uint64(pow(0x94D049BB133111EB, -1, 2**64))
        bits = back(bits, 27) * np.uint64(pow(0xBF58476D1CE4E5B9, -1, 2**64))
        return (back(bits, 30) - np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


@pytest.mark.parametrize("buckets", [1, 2, 3, 7, 64])
def test_buckets_are_evenly_filled_and_leave_the_upper_half_of_the_hash_even(buckets: int) -> None:
    found = hash_columns([pa.array(np.arange(64_000))])
    bucket = bucket_of(found, buckets)
    assert bucket.dtype == np.int32
    counts = np.bincount(bucket, minlength=buckets)
    assert len(counts) == buckets
    assert counts.min() > 0.8 * 64_000 / buckets
    slots = np.bincount(
        ((found[bucket == 0] >> np.uint64(32)) * np.uint64(8) >> np.uint64(32)).astype(int), minlength=8
    )
    assert slots.min() > 0.8 * slots.mean()


def test_no_rows_have_no_hashes() -> None:
    for type_ in (pa.bool_(), pa.int32(), pa.float64(), pa.string()):
        assert hashes(pa.array([], type_)) == []
        assert len(bucket_of(hash_columns([pa.array([], type_)]), 4)) == 0

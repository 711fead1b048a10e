"""Samples by definition: which rows are kept, and what is estimated from them."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction

_ALL = 2**64 - 1
_NULL = 0x9AE16A3B2F90404F
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

SEED = 0x5A3B1C9D
MILLION = 10**6


def is_kept(values: Sequence[object], start: int, rate: int) -> bool:
    """Whether a row is in the sample of a rate in millionths."""
    number = 0
    for position, each in enumerate([*values, start ^ SEED]):
        number = hash_of(each) if position == 0 else mixed((number * 0xD6E8FEB86659FD93 & _ALL) ^ hash_of(each))
    return Fraction(number >> 11, 2**53) * MILLION < rate


def hash_of(value: object) -> int:
    """The hash of one value; times hash as their microseconds."""
    match value:
        case None:
            return _NULL
        case bool() | int():
            return mixed(int(value) & _ALL)
        case float():
            return mixed(_bits(value))
        case str():
            return _hash_of_text(value.encode())
        case datetime():
            return mixed((value - _EPOCH) // _MICROSECOND & _ALL)
        case timedelta():
            return mixed(value // _MICROSECOND & _ALL)
    raise AssertionError(value)


def _bits(number: float) -> int:
    if math.isnan(number):
        return 0x7FF8000000000000
    return int.from_bytes(struct.pack("<d", number + 0.0), "little")


def _hash_of_text(text: bytes) -> int:
    state, whole = mixed(len(text)), len(text) // 8 * 8
    for at in range(0, whole, 8):
        state = mixed(state ^ int.from_bytes(text[at : at + 8], "little"))
    return mixed(state ^ int.from_bytes(text[whole:], "little"))


def mixed(bits: int) -> int:
    bits = bits + 0x9E3779B97F4A7C15 & _ALL
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & _ALL
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & _ALL
    return bits ^ (bits >> 31)


# ---- estimates


Estimate = tuple[float | None, float | None, float | None]
"""An estimate, and the ends of its interval."""

QUANTILE = 1.959963984540054
"""Standard deviations from the mean within which 95 % of the normal distribution lie."""


def estimated_count(kept: Sequence[int], members: int) -> Estimate:
    """The number of rows that kept rows of some rates stand for; no fewer than are kept."""
    total, variance = sum((Fraction(MILLION, p) for p in kept), Fraction(0)), _variance([1] * len(kept), kept)
    low, high = _interval(float(total), variance)
    return (float(total), max(low, float(members)), high)


def estimated_sum(values: Sequence[float], rates: Sequence[int]) -> Estimate:
    """The sum of the values of all rows; NULL without any value."""
    if not values:
        return (None, None, None)
    total = sum(Fraction(x) * Fraction(MILLION, p) for x, p in zip(values, rates, strict=True))
    return (float(total), *_interval(float(total), _variance(values, rates)))


def estimated_average(values: Sequence[float], rates: Sequence[int]) -> Estimate:
    """The average of the values of all rows: a ratio, whose variance is that of its residuals."""
    if not values:
        return (None, None, None)
    weights = [Fraction(MILLION, p) for p in rates]
    average = sum(Fraction(x) * w for x, w in zip(values, weights, strict=True)) / sum(weights)
    variance = _variance([Fraction(x) - average for x in values], rates) / sum(weights) ** 2
    return (float(average), *_interval(float(average), variance))


def _variance(values: Sequence[float | Fraction], rates: Sequence[int]) -> Fraction:
    """Horvitz and Thompson's estimate: the sum of (1 - p) / p² · x² over the rows kept."""
    shares = [Fraction(rate, MILLION) for rate in rates]
    return sum(((1 - p) / p**2 * Fraction(x) ** 2 for x, p in zip(values, shares, strict=True)), Fraction(0))


def _interval(estimate: float, variance: Fraction) -> tuple[float, float]:
    half = QUANTILE * math.sqrt(variance)
    return estimate - half, estimate + half

"""Exact sums: numbers as digits of 32 bits in 64-bit integers, added and subtracted without error.

A sum is a row of digits: digit k weighs 2^(32 k - 1074) for doubles, 2^(32 k) for integers. Digits are signed and have
31 spare bits, so carries can wait until `normalise`: up to 2^30 numbers may be added or subtracted in between. A row
covers only the digits [low, low + size) that its numbers use.

Nothing is rounded before the end, so a result depends on the numbers alone, never on their order: it equals
`math.fsum`. NaN and the infinities are counted separately.
"""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Flags, Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined

LOWEST_EXPONENT = -1074
"""Exponent of the smallest double: the unit of digit 0."""

INTEGER_DIGITS = 2
"""Digits of a sum of 64-bit integers; the upper one has room for 2^31 of them."""

SPECIALS = 3
"""Counters of a sum of doubles: NaN, infinity, minus infinity."""

_DIGITS_OF_DOUBLE = 3
_MASK = 0xFFFFFFFF
_FRACTION = (1 << 52) - 1
_NOT_FINITE = 0x7FF
_GREATEST_EXPONENT = 1023


@compiled
def digits_needed(doubles: Ints, present: Flags) -> tuple[int, int]:
    """Return the digits [low, high) that the doubles, given by their bits, are made of; (0, 0) for none."""
    low, high = 64, -1
    for row in range(len(doubles)):
        exponent = (doubles[row] >> 52) & _NOT_FINITE
        if present[row] and exponent != _NOT_FINITE and doubles[row] << 1 != 0:
            digit = (max(exponent, 1) - 1) >> 5
            low, high = min(low, digit), max(high, digit)
    return (low, high + _DIGITS_OF_DOUBLE) if high >= 0 else (0, 0)


@inlined
def add_integer(sums: Ints, group: int, at: int, number: int, sign: int) -> None:
    """Add an integer (sign 1) to the digits from `at` of a group's row, or subtract it (sign -1)."""
    sums[group, at] += sign * (number & _MASK)
    sums[group, at + 1] += sign * (number >> 32)


@inlined
def add_double(sums: Ints, group: int, at: int, low: int, specials: int, double: int, sign: int) -> None:
    """Add a double, given by its bits (sign 1), to a group's row, or subtract it (sign -1)."""
    exponent = (double >> 52) & _NOT_FINITE
    fraction = double & _FRACTION
    if exponent == _NOT_FINITE:
        sums[group, specials + (0 if fraction != 0 else 1 if double >= 0 else 2)] += sign
    elif double << 1 != 0:  # zero uses no digits, so the row may have none for it
        place = max(exponent, 1) - 1
        signed = -sign if double < 0 else sign
        if exponent > 0:
            fraction |= 1 << 52
        lower = (fraction & _MASK) << (place & 31)
        upper = (fraction >> 32) << (place & 31)
        first = at + (place >> 5) - low
        sums[group, first] += signed * (lower & _MASK)
        sums[group, first + 1] += signed * ((lower >> 32) + (upper & _MASK))
        sums[group, first + 2] += signed * (upper >> 32)


@compiled
def normalise(sums: Ints, at: int, size: int) -> None:
    """Carry in every row, so that all digits but the last lie in [-2^31, 2^31).

    Digits are signed, so a small negative sum has zeros above it, like a small positive one.
    """
    for group in range(len(sums)):
        for k in range(at, at + size - 1):
            carry = (sums[group, k] + (1 << 31)) >> 32
            sums[group, k] -= carry << 32
            sums[group, k + 1] += carry


@inlined
def integer_of(sums: Ints, group: int, at: int) -> tuple[int, bool]:
    """Return the sum of integers, and whether it fits into 64 bits; if not, the number is meaningless."""
    upper = sums[group, at + 1] + (sums[group, at] >> 32)
    fits = -(1 << 31) <= upper < (1 << 31)
    return (upper << 32) | (sums[group, at] & _MASK), fits


@inlined
def double_of(sums: Ints, group: int, at: int, size: int, unit: int, scratch: Ints) -> float:
    """Return the sum of digits that weigh 2^(unit + 32 k), rounded once: half to even, to infinity if too large.

    `scratch` has room for two digits more than the sum.
    """
    negative = write_magnitude(sums, group, at, size, scratch)
    top = size + 1
    while top > 0 and scratch[top] == 0:
        top -= 1
    second = scratch[top - 1] if top > 0 else np.int64(0)
    third = scratch[top - 2] if top > 1 else np.int64(0)
    # Take the 64 bits from the leading one on; the exponent of the top digit as a double gives its length.
    shift = min(1054 - int(np.float64(scratch[top]).view(np.int64) >> 52), 31)
    window = (np.uint64(scratch[top]) << np.uint64(32)) | np.uint64(second)
    window = (window << np.uint64(shift)) | np.uint64((third << shift) >> 32)
    exponent = unit + 32 * top + 31 - shift
    dropped = np.uint64(11 + max(0, -1022 - exponent))
    kept = window >> dropped
    rest = window & ((np.uint64(1) << dropped) - np.uint64(1))
    half = np.uint64(1) << (dropped - np.uint64(1))
    if rest == half and ((third << shift) & _MASK != 0 or _any_below(scratch, top - 2)):
        rest += np.uint64(1)
    kept += np.uint64(rest > half) | (np.uint64(rest == half) & kept & np.uint64(1))
    # The leading bit of a normal number adds one to the exponent, and so does a carry out of rounding.
    bits = np.int64(kept) + (np.int64(max(exponent + 1022, 0)) << 52)
    double = float(np.int64(bits).view(np.float64))
    if scratch[top] == 0:
        double = 0.0
    elif exponent > _GREATEST_EXPONENT:
        double = np.inf
    return -double if negative else double


@inlined
def special_of(sums: Ints, group: int, at: int) -> float:
    """Return the value that NaN and infinities give the sum; zero if there are none."""
    special = 0.0
    if sums[group, at + 1] > 0:
        special += np.inf
    if sums[group, at + 2] > 0:
        special -= np.inf
    if sums[group, at] > 0:
        special = np.nan
    return special


@inlined
def write_magnitude(sums: Ints, group: int, at: int, size: int, scratch: Ints) -> bool:
    """Write the absolute value as digits from 0 to 2^32 - 1; return whether the sum is negative."""
    carry = np.int64(0)
    for k in range(size):
        digit = sums[group, at + k] + carry
        scratch[k] = digit & _MASK
        carry = digit >> 32
    scratch[size] = carry & _MASK
    scratch[size + 1] = (carry >> 32) & _MASK
    if carry < 0:
        borrow = np.int64(1)
        for k in range(size + 2):
            digit = (scratch[k] ^ _MASK) + borrow
            scratch[k] = digit & _MASK
            borrow = digit >> 32
    return bool(carry < 0)


@inlined
def _any_below(digits: Ints, limit: int) -> bool:
    found = False
    for k in range(limit):
        found = found or digits[k] != 0
    return found

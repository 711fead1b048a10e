"""Wide integers as digits of 32 bits in 64-bit integers, for exact variances and quantiles.

A number is a magnitude, the place of its lowest bit and a sign; place 0 of a double is that of the smallest double.
Digits may be negative or too large until they are carried, as in `exact_sum`.
"""

from __future__ import annotations

import numpy as np

from tidegate.physical.aggregate.kernels.exact_sum import LOWEST_EXPONENT, double_of, write_magnitude
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined

_MASK = 0xFFFFFFFF
_FRACTION = (1 << 52) - 1
_NOT_FINITE = 0x7FF

_FINER = 5
"""Digits after the point of a quotient: with them, a quotient by any divisor up to 2^62 has at least 96 bits."""


@inlined
def is_finite(bits: int) -> bool:
    """Return whether the double with these bits is finite."""
    return (bits >> 52) & _NOT_FINITE != _NOT_FINITE


@inlined
def split_number(number: int, is_double: bool) -> tuple[np.uint64, int, int]:  # noqa: FBT001 - Numba takes it by position
    """Return magnitude, place and sign of a finite double, given by its bits, or of an integer."""
    sign = -1 if number < 0 else 1
    if is_double:
        exponent = (number >> 52) & _NOT_FINITE
        fraction = number & _FRACTION
        if exponent > 0:
            fraction |= 1 << 52
        return np.uint64(fraction), max(exponent, 1) - 1, sign
    whole = np.uint64(number)
    return (np.uint64(0) - whole if number < 0 else whole), 0, sign


@compiled
def extreme_places(numbers: Ints, is_double: bool) -> tuple[int, int]:  # noqa: FBT001 - Numba takes it by position
    """Return the lowest and the highest place of the finite nonzero doubles; (0, 0) if none, or for integers."""
    low, high = 1 << 20, -1
    if not is_double:
        return 0, 0
    for number in numbers:
        if is_finite(number) and number << 1 != 0:
            _, place, _ = split_number(number, is_double)
            low, high = min(low, place), max(high, place)
    return (low, high) if high >= 0 else (0, 0)


@inlined
def add(digits: Ints, low: int, whole: np.uint64, place: int, sign: int) -> None:
    """Add a number to digits of which the first is digit `low`, or subtract it."""
    if whole != 0:  # zero uses no digits, so there may be none for it
        shift, at = np.uint64(place & 31), (place >> 5) - low
        lower = (whole & np.uint64(_MASK)) << shift
        upper = (whole >> np.uint64(32)) << shift
        digits[at] += sign * np.int64(lower & np.uint64(_MASK))
        digits[at + 1] += sign * (np.int64(lower >> np.uint64(32)) + np.int64(upper & np.uint64(_MASK)))
        digits[at + 2] += sign * np.int64(upper >> np.uint64(32))


@inlined
def add_square(digits: Ints, low: int, whole: np.uint64, place: int, sign: int) -> None:
    """Add the square of a number, or subtract it."""
    lower, upper = whole & np.uint64(_MASK), whole >> np.uint64(32)
    add(digits, low, lower * lower, 2 * place, sign)
    add(digits, low, lower * upper, 2 * place + 32, sign)
    add(digits, low, lower * upper, 2 * place + 32, sign)
    add(digits, low, upper * upper, 2 * place + 64, sign)


@inlined
def add_product(digits: Ints, low: int, whole: np.uint64, place: int, sign: int, weight: int) -> None:
    """Add a number `weight` times; the weight is less than 2^31."""
    add(digits, low, (whole & np.uint64(_MASK)) * np.uint64(weight), place, sign)
    add(digits, low, (whole >> np.uint64(32)) * np.uint64(weight), place + 32, sign)


@inlined
def significant_digits(digits: Ints, size: int) -> int:
    """Return the number of digits without leading zeros."""
    while size > 0 and digits[size - 1] == 0:
        size -= 1
    return size


@inlined
def quotient(row: Ints, size: int, first: int, second: int, unit: int, scratch: Ints) -> float:
    """Return the number in the carried digits of a row, divided by two divisors below 2^31, rounded once.

    `row` is an array of one row with room for the digits after the point, which come before the others; `scratch` has
    room for two digits more. Digit 0 of the number weighs 2^unit.
    """
    digits = row[0]
    for at in range(size - 1, -1, -1):
        digits[at + _FINER] = digits[at]
    digits[:_FINER] = 0
    rest = _divide(digits, size + _FINER, first) | _divide(digits, size + _FINER, second)
    if rest != 0:  # a remainder below the last digit, which still matters for rounding
        digits[0] |= 1
    length = significant_digits(digits, size + _FINER)
    if length == 0:
        return 0.0
    lowest = unit - 32 * _FINER
    top = lowest + 32 * (length - 1) + int(np.float64(digits[length - 1]).view(np.int64) >> 52) - 1023
    if top < LOWEST_EXPONENT:  # below all doubles: the nearest is zero, or the smallest double
        half = top == LOWEST_EXPONENT - 1
        more = digits[length - 1] & (digits[length - 1] - 1) != 0 or significant_digits(digits, length - 1) > 0
        return 5e-324 if half and more else 0.0
    return double_of(row, 0, 0, length, lowest, scratch)


@inlined
def room_of_quotient(size: int) -> int:
    """Return how many digits a row needs for the quotient of a number with `size` digits."""
    return size + _FINER


@inlined
def _divide(digits: Ints, size: int, divisor: int) -> int:
    """Divide in place, and return the remainder."""
    rest = 0
    for at in range(size - 1, -1, -1):
        both = (rest << 32) | digits[at]
        digits[at] = both // divisor
        rest = both - digits[at] * divisor
    return rest


@inlined
def write_scaled_variance(
    first_sum: Ints, first_size: int, second_sum: Ints, second_size: int, count: int, row: Ints, scratch: Ints,
) -> int:  # fmt: skip
    """Write count times the sum of squares, minus the square of the sum, into a row; return its number of digits."""
    digits = row[0]
    write_magnitude(second_sum, 0, 0, second_size, scratch)
    length = significant_digits(scratch, second_size + 2)
    digits[:] = 0
    carry = np.uint64(0)
    for at in range(length):
        product = np.uint64(scratch[at]) * np.uint64(count) + carry
        digits[at] = np.int64(product & np.uint64(_MASK))
        carry = product >> np.uint64(32)
    digits[length] = np.int64(carry)
    length += 1
    write_magnitude(first_sum, 0, 0, first_size, scratch)
    size = significant_digits(scratch, first_size + 2)
    for i in range(size):
        carry = np.uint64(0)
        borrow = np.int64(0)
        for j in range(size):
            product = np.uint64(scratch[i]) * np.uint64(scratch[j]) + carry
            carry = product >> np.uint64(32)
            digit = digits[i + j] - np.int64(product & np.uint64(_MASK)) + borrow
            digits[i + j] = digit & _MASK
            borrow = digit >> 32
        # The square of a sum is at most count times the sum of squares, so the borrow ends within the digits.
        at = i + size
        digit = digits[at] - np.int64(carry) + borrow
        digits[at] = digit & _MASK
        borrow = digit >> 32
        while borrow != 0 and at + 1 < len(digits):
            at += 1
            digit = digits[at] + borrow
            digits[at] = digit & _MASK
            borrow = digit >> 32
    return significant_digits(digits, len(digits))

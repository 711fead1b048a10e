"""Loops of condition programs over the numbers in a block.

A lane whose value is NULL holds an arbitrary number, so no loop may trap on any number. Loops that can fail return
whether a lane did; they are short and without branches where that is the rare case, so that they can be vectorised.
"""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Bytes, Floats, Int, Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined

DIVISION_BY_ZERO, OVERFLOW, INVALID_CAST, DOMAIN = range(1, 5)
"""Failures of a lane; the numbers are those of the failures of expressions."""

_FAR = 1.5 * 2.0**63
"""Magnitude up to which an integer that wraps around changes its sign."""


@compiled
def add_floats(a: Floats, b: Floats, out: Floats, lanes: int) -> None:
    for i in range(lanes):
        out[i] = a[i] + b[i]


@compiled
def subtract_floats(a: Floats, b: Floats, out: Floats, lanes: int) -> None:
    for i in range(lanes):
        out[i] = a[i] - b[i]


@compiled
def multiply_floats(a: Floats, b: Floats, out: Floats, lanes: int) -> None:
    for i in range(lanes):
        out[i] = a[i] * b[i]


@compiled
def divide_floats(a: Floats, b: Floats, out: Floats, lanes: int) -> bool:
    """Divide; return whether a divisor is 0."""
    zeros = 0
    for i in range(lanes):
        out[i] = a[i] / b[i]
        zeros += b[i] == 0.0
    return zeros > 0


@compiled
def remainder_floats(a: Floats, b: Floats, out: Floats, lanes: int) -> bool:
    """Compute remainders with the sign of the dividend; return whether a divisor is 0."""
    zeros = 0
    for i in range(lanes):
        out[i] = np.fmod(a[i], b[i])
        zeros += b[i] == 0.0
    return zeros > 0


@compiled
def negate_floats(a: Floats, out: Floats, lanes: int) -> None:
    for i in range(lanes):
        out[i] = -a[i]


@compiled
def magnitude_floats(a: Floats, out: Floats, lanes: int) -> None:
    for i in range(lanes):
        out[i] = abs(a[i])


@compiled
def root_floats(a: Floats, out: Floats, lanes: int) -> bool:
    """Compute square roots; return whether a number is negative."""
    negative = 0
    for i in range(lanes):
        out[i] = np.sqrt(a[i])
        negative += a[i] < 0.0
    return negative > 0


@compiled
def floor_floats(a: Floats, out: Floats, lanes: int) -> None:
    for i in range(lanes):
        out[i] = np.floor(a[i])


@compiled
def ceil_floats(a: Floats, out: Floats, lanes: int) -> None:
    for i in range(lanes):
        out[i] = np.ceil(a[i])


@compiled
def add_ints(a: Ints, b: Ints, out: Ints, lanes: int, low: Int, high: Int) -> bool:
    """Add; return whether a sum is outside of [low, high] or of 64 bits."""
    wrong = 0
    for i in range(lanes):
        out[i] = wrapping_sum(a[i], b[i])
        wrong += sum_overflows(a[i], b[i], low, high)
    return wrong > 0


@compiled
def subtract_ints(a: Ints, b: Ints, out: Ints, lanes: int, low: Int, high: Int) -> bool:
    """Subtract; return whether a difference is outside of [low, high] or of 64 bits."""
    wrong = 0
    for i in range(lanes):
        out[i] = wrapping_difference(a[i], b[i])
        wrong += difference_overflows(a[i], b[i], low, high)
    return wrong > 0


@compiled
def multiply_ints(a: Ints, b: Ints, out: Ints, lanes: int, low: Int, high: Int) -> bool:
    """Multiply; return whether a product is outside of [low, high] or of 64 bits."""
    wrong = 0
    for i in range(lanes):
        out[i] = _wrapping_product(a[i], b[i])
        wrong += product_overflows(a[i], b[i], low, high)
    return wrong > 0


@inlined
def sum_overflows(a: Int, b: Int, low: Int, high: Int) -> bool:
    sum_ = wrapping_sum(a, b)
    return bool((((a ^ sum_) & (b ^ sum_)) < 0) | (sum_ < low) | (sum_ > high))


@inlined
def difference_overflows(a: Int, b: Int, low: Int, high: Int) -> bool:
    difference = wrapping_difference(a, b)
    return bool((((a ^ b) & (a ^ difference)) < 0) | (difference < low) | (difference > high))


@inlined
def product_overflows(a: Int, b: Int, low: Int, high: Int) -> bool:
    product, about = _wrapping_product(a, b), abs(np.float64(a) * np.float64(b))
    # A product that is not much too large shows by its sign that it wrapped around.
    wraps = (a != 0) & (b != 0) & ((product < 0) != ((a < 0) != (b < 0)))
    return bool(wraps | (about > _FAR) | (product < low) | (product > high))


# Signed numbers that overflow are undefined for the compiler, which would simplify the tests above.


@inlined
def limits_of(bits: int) -> tuple[Int, Int]:
    """Return the least and the greatest integer of 32 or 64 bits."""
    greatest = np.int64(2**31 - 1) if bits == 32 else np.int64(2**63 - 1)
    return -greatest - 1, greatest


@inlined
def wrapping_sum(a: Int, b: Int) -> Int:
    return np.int64(np.uint64(a) + np.uint64(b))


@inlined
def wrapping_difference(a: Int, b: Int) -> Int:
    return np.int64(np.uint64(a) - np.uint64(b))


@inlined
def _wrapping_product(a: Int, b: Int) -> Int:
    return np.int64(np.uint64(a) * np.uint64(b))


@compiled
def divide_ints(a: Ints, b: Ints, out: Ints, lanes: int, low: Int) -> bool:
    """Divide, towards zero; return whether a divisor is 0 or a quotient does not fit."""
    wrong = 0
    for i in range(lanes):
        is_wrong = (b[i] == 0) | ((b[i] == -1) & (a[i] == low))
        wrong += is_wrong
        divisor = np.int64(1) if is_wrong or b[i] == -1 else b[i]
        rest = _remainder(a[i], divisor)
        out[i] = wrapping_difference(0, a[i]) if b[i] == -1 else (a[i] - rest) // divisor
    return wrong > 0


@compiled
def remainder_ints(a: Ints, b: Ints, out: Ints, lanes: int) -> bool:
    """Compute remainders with the sign of the dividend; return whether a divisor is 0."""
    zeros = 0
    for i in range(lanes):
        zeros += b[i] == 0
        out[i] = _remainder(a[i], np.int64(1) if b[i] in (0, -1) else b[i])
    return zeros > 0


@inlined
def _remainder(a: Int, b: Int) -> Int:
    """Return the remainder with the sign of the dividend; the divisor is neither 0 nor -1."""
    rest = a % b  # with the sign of the divisor
    return rest - b if rest != 0 and (a < 0) != (b < 0) else rest


@compiled
def negate_ints(a: Ints, out: Ints, lanes: int, low: Int) -> bool:
    """Negate; return whether a number is the least one, which overflows."""
    wrong = 0
    for i in range(lanes):
        out[i] = wrapping_difference(0, a[i])
        wrong += a[i] == low
    return wrong > 0


@compiled
def magnitude_ints(a: Ints, out: Ints, lanes: int, low: Int) -> bool:
    """Compute magnitudes; return whether a number is the least one, which overflows."""
    wrong = 0
    for i in range(lanes):
        out[i] = a[i] if a[i] >= 0 else wrapping_difference(0, a[i])
        wrong += a[i] == low
    return wrong > 0


@compiled
def narrow_ints(a: Ints, out: Ints, lanes: int, low: Int, high: Int) -> bool:
    """Copy; return whether a number is outside of [low, high]."""
    wrong = 0
    for i in range(lanes):
        out[i] = a[i]
        wrong += (a[i] < low) | (a[i] > high)
    return wrong > 0


@compiled
def ints_to_floats(a: Ints, out: Floats, lanes: int) -> None:
    for i in range(lanes):
        out[i] = np.float64(a[i])


@compiled
def floats_to_ints(a: Floats, out: Ints, lanes: int, limit: float) -> bool:
    """Truncate towards zero; return whether a number is not below the limit in magnitude, or not a number."""
    wrong = 0
    for i in range(lanes):
        fits = truncation_fits(a[i], limit)
        out[i] = np.int64(a[i]) if fits else np.int64(0)
        wrong += not fits
    return wrong > 0


@inlined
def truncation_fits(value: float, limit: float) -> bool:
    whole = np.trunc(value)
    return whole >= -limit and whole < limit


@compiled
def less_floats(a: Floats, b: Floats, out: Bytes, lanes: int) -> None:
    """Compare; NaN is greater than all numbers."""
    for i in range(lanes):
        out[i] = (a[i] < b[i]) | ((b[i] != b[i]) & (a[i] == a[i]))


@compiled
def equal_floats(a: Floats, b: Floats, out: Bytes, lanes: int) -> None:
    """Compare; NaN equals NaN."""
    for i in range(lanes):
        out[i] = (a[i] == b[i]) | ((b[i] != b[i]) & (a[i] != a[i]))


@compiled
def less_ints(a: Ints, b: Ints, out: Bytes, lanes: int) -> None:
    for i in range(lanes):
        out[i] = a[i] < b[i]


@compiled
def equal_ints(a: Ints, b: Ints, out: Bytes, lanes: int) -> None:
    for i in range(lanes):
        out[i] = a[i] == b[i]

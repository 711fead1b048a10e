"""Exact sums, averages and variances of the values that are live in each slot."""

from __future__ import annotations

import numpy as np

from tidegate.physical.aggregate.kernels import exact_sum, wide
from tidegate.physical.aggregate.kernels.exact_sum import INTEGER_DIGITS, SPECIALS, digits_needed
from tidegate.physical.aggregate.kernels.slots import SlotEvents, Spans, events_by_slot
from tidegate.physical.common.arrays import Floats, Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled, inlined


def integer_sums(numbers: Ints, spans: Spans, count: int) -> tuple[Ints, Mask]:
    """Return the sum in each slot, and whether it fits into 64 bits."""
    return _integer_sums(numbers, events_by_slot(spans, count))


def double_sums(numbers: Ints, spans: Spans, count: int, *, is_double: bool) -> Floats:
    """Return the sum in each slot as a double; the numbers are integers, or doubles by their bits."""
    low, high = digits_needed(numbers, np.ones(len(numbers), np.uint8)) if is_double else (0, 0)
    size = high - low + 1 if is_double else INTEGER_DIGITS
    return _double_sums(numbers, is_double, low, max(size, 1), events_by_slot(spans, count))


def variances(numbers: Ints, spans: Spans, count: int, *, is_double: bool, sample: bool) -> tuple[Floats, Mask]:
    """Return the variance in each slot, of a sample or of the population, and where there is none."""
    low, high = wide.extreme_places(numbers, is_double)
    return _variances(numbers, is_double, low >> 5, high, sample, events_by_slot(spans, count))


@compiled
def _integer_sums(numbers: Ints, events: SlotEvents) -> tuple[Ints, Mask]:
    start_bounds, start_order, end_bounds, end_order = events
    slots = len(start_bounds) - 2
    result, fits = np.zeros(slots, np.int64), np.ones(slots, np.bool_)
    sums = np.zeros((1, INTEGER_DIGITS), np.int64)
    for slot in range(slots):
        for at in range(start_bounds[slot], start_bounds[slot + 1]):
            exact_sum.add_integer(sums, 0, 0, numbers[start_order[at]], 1)
        for at in range(end_bounds[slot], end_bounds[slot + 1]):
            exact_sum.add_integer(sums, 0, 0, numbers[end_order[at]], -1)
        result[slot], fits[slot] = exact_sum.integer_of(sums, 0, 0)
    return result, fits


@compiled
def _double_sums(
    numbers: Ints, is_double: bool, low: int, size: int, events: SlotEvents,  # noqa: FBT001 - Numba takes it by position
) -> Floats:  # fmt: skip
    start_bounds, start_order, end_bounds, end_order = events
    slots = len(start_bounds) - 2
    result = np.zeros(slots, np.float64)
    sums, scratch = np.zeros((1, SPECIALS + size), np.int64), np.empty(size + 2, np.int64)
    unit = 32 * low + exact_sum.LOWEST_EXPONENT if is_double else 0
    for slot in range(slots):
        for at in range(start_bounds[slot], start_bounds[slot + 1]):
            _add_number(sums, is_double, low, numbers[start_order[at]], 1)
        for at in range(end_bounds[slot], end_bounds[slot + 1]):
            _add_number(sums, is_double, low, numbers[end_order[at]], -1)
        special = exact_sum.special_of(sums, 0, 0)
        finite = exact_sum.double_of(sums, 0, SPECIALS, size, unit, scratch)
        result[slot] = finite if special == 0.0 else special
    return result


@inlined
def _add_number(sums: Ints, is_double: bool, low: int, number: int, sign: int) -> None:  # noqa: FBT001 - as above
    if is_double:
        exact_sum.add_double(sums, 0, SPECIALS, low, 0, number, sign)
    else:
        exact_sum.add_integer(sums, 0, SPECIALS, number, sign)


@compiled
def _variances(
    numbers: Ints, is_double: bool, low: int, highest: int, sample: bool, events: SlotEvents,  # noqa: FBT001 - as above
) -> tuple[Floats, Mask]:  # fmt: skip
    start_bounds, start_order, end_bounds, end_order = events
    slots = len(start_bounds) - 2
    result, missing = np.zeros(slots, np.float64), np.zeros(slots, np.bool_)
    # A number reaches two digits above that of its place, its square four; one more is for carries.
    size, squares_size = (highest >> 5) + 4 - low, (highest >> 4) + 6 - 2 * low
    sums, squares = np.zeros((1, size), np.int64), np.zeros((1, squares_size), np.int64)
    most = max(squares_size, 2 * size + 2) + 3
    row = np.zeros((1, wide.room_of_quotient(most)), np.int64)
    scratch = np.zeros(wide.room_of_quotient(most) + 2, np.int64)
    unit = 64 * low + 2 * exact_sum.LOWEST_EXPONENT if is_double else 0
    count, wild = 0, 0
    for slot in range(slots):
        for side in range(2):
            bounds, order, sign = (start_bounds, start_order, 1) if side == 0 else (end_bounds, end_order, -1)
            for at in range(bounds[slot], bounds[slot + 1]):
                number = numbers[order[at]]
                count += sign
                if is_double and not wide.is_finite(number):
                    wild += sign
                else:
                    whole, place, negative = wide.split_number(number, is_double)
                    wide.add(sums[0], low, whole, place, sign * negative)
                    wide.add_square(squares[0], 2 * low, whole, place, sign)
        divisor = count - 1 if sample else count
        if divisor <= 0:
            missing[slot] = True
        elif wild > 0:
            result[slot] = np.nan
        elif count > 1:
            length = wide.write_scaled_variance(sums, size, squares, squares_size, count, row, scratch)
            result[slot] = wide.quotient(row, length, count, divisor, unit, scratch)
    return result, missing

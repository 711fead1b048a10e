"""Condition programs over bounds: what can be of the elements of a stretch, from the least and greatest.

A lane is a stretch of consecutive elements of the last member. Of numbers the program computes bounds, of truth
values the possible outcomes. Rounding is monotone, so bounds that are computed as the numbers are, in doubles, hold for
all numbers between them. What is not finite, or unknown for another reason, is a doubt, and bounds say nothing then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray

from tidegate.physical.common.arrays import Array, Bytes, Floats, Ints
from tidegate.physical.common.kernels import condition_values as values
from tidegate.physical.common.kernels.addresses import bytes_at, floats_at, ints_at, shorts_at
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.condition_codes import (
    DOUBT,
    FAILURE,
    FALSE,
    NULL,
    TRUE,
    Code,
    CombinationBlock,
    ConditionProgram,
)
from tidegate.physical.common.kernels.condition_masks import LANES

_ANYTHING = np.uint8(NULL | FAILURE | DOUBT)


class Bounds(NamedTuple):
    """One row for each instruction, with the bounds of its result for each lane, and what else can be."""

    low: Floats
    high: Floats
    low_ints: Ints  # the same memory, as integers
    high_ints: Ints
    outcomes: Bytes


def allocate_bounds(instructions: int) -> Bounds:
    low, high = np.empty((instructions, LANES)), np.empty((instructions, LANES))
    outcomes = np.empty((instructions, LANES), np.uint8)
    return Bounds(low, high, low.view(np.int64), high.view(np.int64), outcomes)


@inlined
def borrow_bounds(bounds: Bounds) -> Bounds:
    """Return bounds that do not count references; the given ones must outlive them."""
    low = carray(floats_at(bounds.low.ctypes.data), bounds.low.shape)
    high = carray(floats_at(bounds.high.ctypes.data), bounds.high.shape)
    low_ints = carray(ints_at(bounds.low.ctypes.data), bounds.low.shape)
    high_ints = carray(ints_at(bounds.high.ctypes.data), bounds.high.shape)
    outcomes = carray(bytes_at(bounds.outcomes.ctypes.data), bounds.outcomes.shape)
    return Bounds(low, high, low_ints, high_ints, outcomes)


@compiled
def write_constant_bounds(program: ConditionProgram, bounds: Bounds) -> None:
    """Write the constants of a program into their registers, once for all blocks."""
    for at in range(len(program.code)):
        if program.code[at, 0] == Code.CONSTANT:
            for i in range(LANES):
                bounds.low_ints[at, i] = bounds.high_ints[at, i] = program.bits[at]
                bounds.outcomes[at, i] = program.outcomes[at]


@compiled
def run_bounds(
    program: Ints, addresses: Ints, stretches: Ints, block: CombinationBlock, segments: int, last: int, bounds: Bounds
) -> None:
    """Run instructions for stretches; of the last member, positions in the block are those of stretches."""
    lanes = block.ends[segments - 1]
    for at in range(len(program)):
        instruction = program[at]
        code, a, b, c = instruction[0], instruction[1], instruction[2], instruction[3]
        if code == Code.CONSTANT:
            continue
        if code <= Code.LOAD_TRUTH:
            _load_bounds(at, instruction, addresses, stretches, block, segments, last, bounds)
        elif code in (Code.ADD_FLOAT, Code.SUBTRACT_FLOAT, Code.MULTIPLY_FLOAT):
            _bound_arithmetic(at, code, a, b, bounds, lanes)
        elif code in (Code.ADD_INT, Code.SUBTRACT_INT):
            _bound_int_arithmetic(at, code, a, b, c, bounds, lanes)
        elif code in (Code.NEGATE_FLOAT, Code.MAGNITUDE_FLOAT, Code.INT_TO_FLOAT):
            _bound_unary(at, code, a, bounds, lanes)
        elif code in (Code.LESS_FLOAT, Code.EQUAL_FLOAT):
            _bound_comparison(at, instruction, bounds.low, bounds.high, bounds.outcomes, lanes)
        elif code in (Code.LESS_INT, Code.EQUAL_INT):
            _bound_comparison(at, instruction, bounds.low_ints, bounds.high_ints, bounds.outcomes, lanes)
        elif code in (Code.AND, Code.OR):
            _bound_junction(at, code == Code.AND, a, b, bounds, lanes)
        elif code == Code.NOT:
            for i in range(lanes):
                bounds.outcomes[at, i] = _exchange(bounds.outcomes[a, i])
        else:
            for i in range(lanes):
                bounds.outcomes[at, i] = _ANYTHING | TRUE | FALSE


@compiled
def _load_bounds(
    at: int,
    instruction: Ints,
    addresses: Ints,
    stretches: Ints,
    block: CombinationBlock,
    segments: int,
    last: int,
    bounds: Bounds,
) -> None:
    """Load the bounds of stretches of the last member, or a number of another member, which is its own bounds."""
    code, place, member = instruction[0], instruction[1], instruction[2]
    begin = 0
    for segment in range(segments):
        row, end = block.rows[segment, member], block.ends[segment]
        low, high, outcomes = (
            bounds.low_ints[at, begin:end],
            bounds.high_ints[at, begin:end],
            bounds.outcomes[at, begin:end],
        )
        many = end - begin
        if member == last:
            if code == Code.LOAD_TRUTH:
                for i in range(many):
                    outcomes[i] = TRUE | FALSE | NULL | FAILURE
            else:
                least = carray(ints_at(stretches[place] + 8 * row), (many,))
                greatest = carray(ints_at(stretches[place + 1] + 8 * row), (many,))
                also = carray(bytes_at(stretches[place + 2] + row), (many,))
                for i in range(many):
                    low[i], high[i], outcomes[i] = least[i], greatest[i], also[i]
        else:
            bits, outcome = _load_number(code, row, addresses, instruction)
            for i in range(many):
                low[i], high[i], outcomes[i] = bits, bits, outcome
        begin = end


@inlined
def _load_number(code: int, row: int, addresses: Ints, instruction: Ints) -> tuple[np.int64, np.uint8]:
    """Return the bits of the number of one element, and what else it can be: of a truth value, its outcome."""
    column, known, failures = addresses[instruction[1]], addresses[instruction[3]], addresses[instruction[4]]
    bits, outcome = np.int64(0), np.uint8(0)
    if code == Code.LOAD_FLOAT:
        bits = carray(ints_at(column + 8 * row), (1,))[0]
        value = carray(floats_at(column + 8 * row), (1,))[0]
        outcome = np.uint8(0) if value - value == 0.0 else DOUBT
    elif code == Code.LOAD_INT:
        bits = carray(ints_at(column + 8 * row), (1,))[0]
    elif code == Code.LOAD_SHORT:
        bits = np.int64(carray(shorts_at(column + 4 * row), (1,))[0])
    else:
        byte = carray(bytes_at(column + (row >> 3)), (1,))[0]
        outcome = TRUE if (byte >> np.uint8(row & 7)) & np.uint8(1) else FALSE
    if known and (carray(bytes_at(known + (row >> 3)), (1,))[0] >> np.uint8(row & 7)) & np.uint8(1) == 0:
        outcome = NULL
    if failures and carray(bytes_at(failures + row), (1,))[0]:
        outcome = FAILURE
    return bits, outcome


@compiled
def _bound_arithmetic(at: int, code: int, a: int, b: int, bounds: Bounds, lanes: int) -> None:
    low, high, outcomes = bounds.low[at], bounds.high[at], bounds.outcomes[at]
    low_a, high_a, low_b, high_b = bounds.low[a], bounds.high[a], bounds.low[b], bounds.high[b]
    if code == Code.ADD_FLOAT:
        for i in range(lanes):
            low[i], high[i] = low_a[i] + low_b[i], high_a[i] + high_b[i]
    elif code == Code.SUBTRACT_FLOAT:
        for i in range(lanes):
            low[i], high[i] = low_a[i] - high_b[i], high_a[i] - low_b[i]
    else:
        for i in range(lanes):
            one, two = low_a[i] * low_b[i], low_a[i] * high_b[i]
            three, four = high_a[i] * low_b[i], high_a[i] * high_b[i]
            low[i], high[i] = min(one, two, three, four), max(one, two, three, four)
    also_a, also_b = bounds.outcomes[a], bounds.outcomes[b]
    for i in range(lanes):
        is_finite = (low[i] - low[i] == 0.0) & (high[i] - high[i] == 0.0)
        outcomes[i] = (also_a[i] | also_b[i]) & _ANYTHING | (np.uint8(0) if is_finite else DOUBT)


@compiled
def _bound_int_arithmetic(at: int, code: int, a: int, b: int, bits: int, bounds: Bounds, lanes: int) -> None:
    least, greatest = values.limits_of(bits)
    for i in range(lanes):
        low_a, high_a, low_b, high_b = (
            bounds.low_ints[a, i], bounds.high_ints[a, i], bounds.low_ints[b, i], bounds.high_ints[b, i]
        )  # fmt: skip
        if code == Code.ADD_INT:
            low, high = values.wrapping_sum(low_a, low_b), values.wrapping_sum(high_a, high_b)
            fails = values.sum_overflows(low_a, low_b, least, greatest)
            fails |= values.sum_overflows(high_a, high_b, least, greatest)
        else:
            low, high = values.wrapping_difference(low_a, high_b), values.wrapping_difference(high_a, low_b)
            fails = values.difference_overflows(low_a, high_b, least, greatest)
            fails |= values.difference_overflows(high_a, low_b, least, greatest)
        bounds.low_ints[at, i], bounds.high_ints[at, i] = low, high
        also = (bounds.outcomes[a, i] | bounds.outcomes[b, i]) & _ANYTHING
        bounds.outcomes[at, i] = also | (FAILURE | DOUBT if fails else np.uint8(0))


@compiled
def _bound_unary(at: int, code: int, a: int, bounds: Bounds, lanes: int) -> None:
    for i in range(lanes):
        low, high = bounds.low[a, i], bounds.high[a, i]
        if code == Code.INT_TO_FLOAT:
            low, high = np.float64(bounds.low_ints[a, i]), np.float64(bounds.high_ints[a, i])
        elif code == Code.NEGATE_FLOAT or high <= 0.0:
            low, high = -high, -low
        elif low < 0.0:
            low, high = 0.0, max(-low, high)
        bounds.low[at, i], bounds.high[at, i] = low, high
        bounds.outcomes[at, i] = bounds.outcomes[a, i] & _ANYTHING


@compiled
def _bound_comparison(at: int, instruction: Ints, low: Array, high: Array, outcomes: Bytes, lanes: int) -> None:
    code, a, b = instruction[0], instruction[1], instruction[2]
    low_a, high_a, low_b, high_b, also_a, also_b = low[a], high[a], low[b], high[b], outcomes[a], outcomes[b]
    yes, no = (FALSE, TRUE) if instruction[3] else (TRUE, FALSE)
    is_equal = code in (Code.EQUAL_FLOAT, Code.EQUAL_INT)
    for i in range(lanes):
        also = (also_a[i] | also_b[i]) & _ANYTHING
        if is_equal:
            can_hold = (low_a[i] <= high_b[i]) & (low_b[i] <= high_a[i])
            can_fail = (low_a[i] != high_a[i]) | (low_b[i] != high_b[i]) | (low_a[i] != low_b[i])
        else:
            can_hold, can_fail = low_a[i] < high_b[i], high_a[i] >= low_b[i]
        doubts = (also & DOUBT) != 0
        outcomes[at, i] = (
            also & ~DOUBT | (yes if can_hold | doubts else np.uint8(0)) | (no if can_fail | doubts else np.uint8(0))
        )


@inlined
def _exchange(outcomes: np.uint8) -> np.uint8:
    """Exchange true and false."""
    return outcomes & ~(TRUE | FALSE) | ((outcomes & TRUE) << np.uint8(1)) | ((outcomes & FALSE) >> np.uint8(1))


@compiled
def _bound_junction(at: int, is_and: bool, a: int, b: int, bounds: Bounds, lanes: int) -> None:  # noqa: FBT001
    """Combine outcomes: one side that is false decides AND, one that is true decides OR, whatever the other fails."""
    for i in range(lanes):
        one, other = bounds.outcomes[a, i], bounds.outcomes[b, i]
        if not is_and:
            one, other = _exchange(one), _exchange(other)
        outcomes = (one & other & TRUE) | ((one | other) & FALSE)
        undecided = np.uint8(TRUE | NULL | FAILURE)
        if one & undecided and other & undecided:
            outcomes |= (one | other) & (NULL | FAILURE)
        bounds.outcomes[at, i] = outcomes if is_and else _exchange(outcomes)

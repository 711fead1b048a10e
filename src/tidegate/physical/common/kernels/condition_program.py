"""Programs that decide a condition for many combinations of elements at once.

A program is a list of instructions over registers; the result of an instruction is the register of the same number, and
the last one is the condition. It runs one instruction at a time over a block of combinations, so each instruction is a
short loop over arrays in the cache, and no condition has to be compiled. Constants and columns are arguments.

A block consists of segments. The combinations of a segment have the same element of every member but one, the *last*
member, whose elements lie next to each other.
"""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Int, Ints
from tidegate.physical.common.kernels import condition_choices as choices
from tidegate.physical.common.kernels import condition_masks as masks
from tidegate.physical.common.kernels import condition_values as values
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.condition_codes import Code, CombinationBlock, ConditionProgram
from tidegate.physical.common.kernels.condition_loads import load_column
from tidegate.physical.common.kernels.condition_masks import LANES, Registers


@compiled
def write_constants(program: ConditionProgram, registers: Registers) -> None:
    """Write the constants of a program into their registers, once for all blocks."""
    for at in range(len(program.code)):
        if program.code[at, 0] == Code.CONSTANT:
            for i in range(LANES):
                registers.ints[at, i] = program.bits[at]
            masks.fill_bytes(registers.true[at], program.true[at], LANES)
            masks.fill_bytes(registers.false[at], program.false[at], LANES)
            registers.flags[at, 0] = 1 - program.true[at]


@compiled
def run_program(
    program: Ints, addresses: Ints, block: CombinationBlock, segments: int, last: int, registers: Registers
) -> None:  # fmt: skip
    """Run instructions for the segments of a block; the constants must have been written.

    `addresses` has the places of columns in memory, 0 for a bitmap that is all 1 and for no failures.
    """
    lanes = block.ends[segments - 1]
    floats, ints, true = registers.floats, registers.ints, registers.true
    for at in range(len(program)):
        instruction = program[at]
        code, a, b, c = instruction[0], instruction[1], instruction[2], instruction[3]
        if code == Code.CONSTANT:
            continue
        if code <= Code.LOAD_TRUTH:
            load_column(at, instruction, addresses, block, segments, last, registers)
        elif code <= Code.CEIL:
            _compute_floats(at, code, a, b, registers, lanes)
        elif code <= Code.NARROW:
            _compute_ints(at, code, a, b, c, registers, lanes)
        elif code == Code.INT_TO_FLOAT:
            values.ints_to_floats(ints[a], floats[at], lanes)
            masks.inherit_masks(at, a, a, registers, lanes)
        elif code == Code.FLOAT_TO_INT:
            masks.inherit_masks(at, a, a, registers, lanes)
            limit = _limit_of(c)
            if values.floats_to_ints(floats[a], ints[at], lanes, limit):
                _mark_bad_casts(at, a, limit, registers, lanes)
        elif code <= Code.EQUAL_INT:
            if code == Code.LESS_FLOAT:
                values.less_floats(floats[a], floats[b], true[at], lanes)
            elif code == Code.EQUAL_FLOAT:
                values.equal_floats(floats[a], floats[b], true[at], lanes)
            elif code == Code.LESS_INT:
                values.less_ints(ints[a], ints[b], true[at], lanes)
            else:
                values.equal_ints(ints[a], ints[b], true[at], lanes)
            masks.finish_comparison(at, a, b, c, registers, lanes)
        elif code <= Code.OR:
            masks.combine_truths(at, a, b, code == Code.AND, registers, lanes)
        elif code == Code.NOT:
            masks.negate_truth(at, a, registers, lanes)
        elif code <= Code.IS_FALSE:
            _test(at, code, a, registers, lanes)
        elif code == Code.BRANCH:
            choices.choose_branch(at, a, b, c, instruction[4] != 0, registers, lanes)
        elif code == Code.KNOWN:
            choices.choose_known(at, a, b, c != 0, registers, lanes)
        elif code <= Code.LEAST:
            choices.choose_extreme(at, a, b, code == Code.GREATEST, c != 0, registers, lanes)
        else:
            if c:
                values.equal_floats(floats[a], floats[b], true[at], lanes)
            else:
                values.equal_ints(ints[a], ints[b], true[at], lanes)
            choices.remove_equal(at, a, b, registers, lanes)


@compiled
def _compute_floats(at: int, code: int, a: int, b: int, registers: Registers, lanes: int) -> None:
    floats, out = registers.floats, registers.floats[at]
    fails, failure = False, values.DIVISION_BY_ZERO
    if code == Code.ADD_FLOAT:
        values.add_floats(floats[a], floats[b], out, lanes)
    elif code == Code.SUBTRACT_FLOAT:
        values.subtract_floats(floats[a], floats[b], out, lanes)
    elif code == Code.MULTIPLY_FLOAT:
        values.multiply_floats(floats[a], floats[b], out, lanes)
    elif code == Code.DIVIDE_FLOAT:
        fails = values.divide_floats(floats[a], floats[b], out, lanes)
    elif code == Code.REMAINDER_FLOAT:
        fails = values.remainder_floats(floats[a], floats[b], out, lanes)
    elif code == Code.NEGATE_FLOAT:
        values.negate_floats(floats[a], out, lanes)
    elif code == Code.MAGNITUDE_FLOAT:
        values.magnitude_floats(floats[a], out, lanes)
    elif code == Code.ROOT:
        fails, failure = values.root_floats(floats[a], out, lanes), values.DOMAIN
    elif code == Code.FLOOR:
        values.floor_floats(floats[a], out, lanes)
    else:
        values.ceil_floats(floats[a], out, lanes)
    masks.inherit_masks(at, a, b, registers, lanes)
    if fails:
        masks.open_masks(at, registers, lanes)
        for i in range(lanes):
            is_bad = floats[a, i] < 0.0 if code == Code.ROOT else floats[b, i] == 0.0
            if is_bad and registers.true[at, i]:
                registers.errors[at, i], registers.true[at, i] = failure, 0


@compiled
def _compute_ints(at: int, code: int, a: int, b: int, bits: int, registers: Registers, lanes: int) -> None:
    ints, out = registers.ints, registers.ints[at]
    low, high = values.limits_of(bits)
    if code == Code.ADD_INT:
        fails = values.add_ints(ints[a], ints[b], out, lanes, low, high)
    elif code == Code.SUBTRACT_INT:
        fails = values.subtract_ints(ints[a], ints[b], out, lanes, low, high)
    elif code == Code.MULTIPLY_INT:
        fails = values.multiply_ints(ints[a], ints[b], out, lanes, low, high)
    elif code == Code.DIVIDE_INT:
        fails = values.divide_ints(ints[a], ints[b], out, lanes, low)
    elif code == Code.REMAINDER_INT:
        fails = values.remainder_ints(ints[a], ints[b], out, lanes)
    elif code == Code.NEGATE_INT:
        fails = values.negate_ints(ints[a], out, lanes, low)
    elif code == Code.MAGNITUDE_INT:
        fails = values.magnitude_ints(ints[a], out, lanes, low)
    else:
        fails = values.narrow_ints(ints[a], out, lanes, low, high)
    masks.inherit_masks(at, a, b, registers, lanes)
    if fails:
        masks.open_masks(at, registers, lanes)
        for i in range(lanes):
            failure = _failure_of_ints(code, ints[a, i], ints[b, i], low, high)
            if failure and registers.true[at, i]:
                registers.errors[at, i], registers.true[at, i] = failure, 0


@inlined
def _failure_of_ints(code: int, a: Int, b: Int, low: Int, high: Int) -> int:
    """Return the failure of an operation on two integers, or 0."""
    if code in (Code.DIVIDE_INT, Code.REMAINDER_INT) and b == 0:
        return values.DIVISION_BY_ZERO
    overflows = False
    if code == Code.ADD_INT:
        overflows = values.sum_overflows(a, b, low, high)
    elif code == Code.SUBTRACT_INT:
        overflows = values.difference_overflows(a, b, low, high)
    elif code == Code.MULTIPLY_INT:
        overflows = values.product_overflows(a, b, low, high)
    elif code == Code.DIVIDE_INT:
        overflows = bool(b == -1 and a == low)
    elif code == Code.NARROW:
        overflows = bool(a < low or a > high)
    elif code != Code.REMAINDER_INT:
        overflows = a == low
    return values.OVERFLOW if overflows else 0


@inlined
def _limit_of(bits: int) -> float:
    return 2.0**31 if bits == 32 else 2.0**63


@compiled
def _mark_bad_casts(at: int, a: int, limit: float, registers: Registers, lanes: int) -> None:
    masks.open_masks(at, registers, lanes)
    for i in range(lanes):
        value = registers.floats[a, i]
        if registers.true[at, i] and not values.truncation_fits(value, limit):
            failure = values.OVERFLOW if np.isfinite(value) else values.INVALID_CAST
            registers.errors[at, i], registers.true[at, i] = failure, 0


@compiled
def _test(at: int, code: int, a: int, registers: Registers, lanes: int) -> None:
    """Compute a test whose result is never NULL, except where its argument fails."""
    if code == Code.IS_TRUE:
        masks.copy_certain(at, a, registers.true[a], registers, lanes)
    elif code == Code.IS_FALSE:
        masks.copy_certain(at, a, registers.false[a], registers, lanes)
    else:
        tested, true, false = registers.true[at], registers.true[a], registers.false[a]
        is_number, nullable = code == Code.NUMBER_IS_NULL, registers.flags[a, 0] != 0
        for i in range(lanes):
            known = (true[i] if nullable else np.uint8(1)) if is_number else true[i] | false[i]
            tested[i] = known ^ np.uint8(1)
        masks.copy_certain(at, a, tested, registers, lanes)

"""Registers of condition programs, and the loops over NULL, truth and failures in a block.

A number has a mask of lanes that are not NULL. A truth value has a mask of lanes that are true, and one of those that
are false: NULL is neither. A lane that failed is NULL and has a failure. Masks and failures of a register are read only
if its flags say that they are there: most blocks have neither NULL nor failures.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray

from tidegate.physical.common.arrays import Bytes, Floats, Int, Ints
from tidegate.physical.common.kernels.addresses import bytes_at, floats_at, ints_at
from tidegate.physical.common.kernels.compiled import compiled, inlined

LANES = 1024
"""Greatest number of combinations in a block; the registers of a short program fit into the fastest cache."""


class Registers(NamedTuple):
    """One row for each instruction of a program, with its result for each lane of a block.

    Numbers are in `floats` or `ints`, which share their memory. A number that is not NULL is `true`.
    """

    floats: Floats
    ints: Ints
    true: Bytes
    false: Bytes
    errors: Bytes
    flags: Bytes  # by instruction: whether the number may be NULL, and whether a lane may have failed


def allocate_registers(instructions: int) -> Registers:
    floats = np.empty((instructions, LANES), np.float64)
    true, false, errors = (np.empty((instructions, LANES), np.uint8) for _ in range(3))
    return Registers(floats, floats.view(np.int64), true, false, errors, np.zeros((instructions, 2), np.uint8))


@inlined
def borrow_registers(registers: Registers) -> Registers:
    """Return registers that do not count references, which every call with them would change otherwise.

    The given ones must outlive them.
    """
    floats = carray(floats_at(registers.floats.ctypes.data), registers.floats.shape)
    ints = carray(ints_at(registers.ints.ctypes.data), registers.ints.shape)
    true = carray(bytes_at(registers.true.ctypes.data), registers.true.shape)
    false = carray(bytes_at(registers.false.ctypes.data), registers.false.shape)
    errors = carray(bytes_at(registers.errors.ctypes.data), registers.errors.shape)
    flags = carray(bytes_at(registers.flags.ctypes.data), registers.flags.shape)
    return Registers(floats, ints, true, false, errors, flags)


@compiled
def fill_bytes(out: Bytes, value: int, lanes: int) -> None:
    for i in range(lanes):
        out[i] = value


@compiled
def copy_bytes(source: Bytes, out: Bytes, lanes: int) -> None:
    for i in range(lanes):
        out[i] = source[i]


@inlined
def merge_failures(one: np.uint8, other: np.uint8) -> np.uint8:
    """Return the failure of a lane with two of them: the smaller number that is not 0."""
    if one == 0 or other == 0:
        return one | other
    return min(one, other)


@inlined
def failure_of(register: int, lane: Int, registers: Registers) -> np.uint8:
    return registers.errors[register, lane] if registers.flags[register, 1] else np.uint8(0)


@compiled
def inherit_masks(at: int, a: int, b: int, registers: Registers, lanes: int) -> None:
    """Make a number NULL where an argument is, with the failures of the arguments."""
    flags = registers.flags
    flags[at, 0] = flags[a, 0] | flags[b, 0]
    if flags[at, 0]:
        out, one, other = registers.true[at], registers.true[a], registers.true[b]
        if not flags[a, 0]:
            one = other
        elif not flags[b, 0]:
            other = one
        for i in range(lanes):
            out[i] = one[i] & other[i]
    inherit_failures(at, a, b, registers, lanes)


@compiled
def inherit_failures(at: int, a: int, b: int, registers: Registers, lanes: int) -> None:
    """Merge the failures of the arguments."""
    flags = registers.flags
    flags[at, 1] = flags[a, 1] | flags[b, 1]
    if flags[at, 1]:
        for i in range(lanes):
            registers.errors[at, i] = merge_failures(failure_of(a, i, registers), failure_of(b, i, registers))


@compiled
def open_masks(at: int, registers: Registers, lanes: int) -> None:
    """Write the mask and the failures of a number that had none so far, because a lane of it fails."""
    if not registers.flags[at, 0]:
        fill_bytes(registers.true[at], 1, lanes)
    if not registers.flags[at, 1]:
        fill_bytes(registers.errors[at], 0, lanes)
    registers.flags[at, 0] = registers.flags[at, 1] = 1


@compiled
def finish_comparison(at: int, a: int, b: int, negated: int, registers: Registers, lanes: int) -> None:
    """Turn the outcome of comparing two numbers into a truth value: NULL where a number is, negated if asked for."""
    true, false, change = registers.true[at], registers.false[at], np.uint8(negated)
    for i in range(lanes):
        true[i] ^= change
        false[i] = true[i] ^ np.uint8(1)
    for argument in (a, b):
        if registers.flags[argument, 0]:
            known = registers.true[argument]
            for i in range(lanes):
                true[i] &= known[i]
                false[i] &= known[i]
    inherit_failures(at, a, b, registers, lanes)


@compiled
def combine_truths(at: int, a: int, b: int, is_and: bool, registers: Registers, lanes: int) -> None:  # noqa: FBT001
    """Compute AND or OR; a failure counts only where the other side does not decide."""
    true, false = registers.true, registers.false
    # OR is AND with true and false exchanged.
    all_of, any_of = (true, false) if is_and else (false, true)
    _combine_masks(all_of[a], all_of[b], all_of[at], any_of[a], any_of[b], any_of[at], lanes)
    inherit_failures(at, a, b, registers, lanes)
    if registers.flags[at, 1]:
        for i in range(lanes):
            if any_of[at, i]:
                registers.errors[at, i] = 0


@compiled
def _combine_masks(a: Bytes, b: Bytes, both: Bytes, c: Bytes, d: Bytes, either: Bytes, lanes: int) -> None:
    for i in range(lanes):
        both[i] = a[i] & b[i]
    for i in range(lanes):
        either[i] = c[i] | d[i]


@compiled
def negate_truth(at: int, a: int, registers: Registers, lanes: int) -> None:
    copy_bytes(registers.false[a], registers.true[at], lanes)
    copy_bytes(registers.true[a], registers.false[at], lanes)
    inherit_failures(at, a, a, registers, lanes)


@compiled
def copy_certain(at: int, a: int, tested: Bytes, registers: Registers, lanes: int) -> None:
    """Compute a test that is true where `tested` is 1, and false, never NULL, elsewhere."""
    true, false = registers.true, registers.false
    for i in range(lanes):
        true[at, i], false[at, i] = tested[i], tested[i] ^ np.uint8(1)
    inherit_failures(at, a, a, registers, lanes)
    if registers.flags[at, 1]:
        for i in range(lanes):
            if registers.errors[at, i]:
                true[at, i] = false[at, i] = 0


@inlined
def is_valid(register: int, lane: Int, registers: Registers) -> bool:
    """Return whether a number is not NULL in a lane."""
    return not registers.flags[register, 0] or registers.true[register, lane] != 0


@compiled
def copy_number(at: int, source: int, lane: Int, registers: Registers) -> None:
    """Copy a lane of a number, with its mask and failure; the flags of the target must be set."""
    registers.ints[at, lane] = registers.ints[source, lane]
    registers.true[at, lane] = is_valid(source, lane, registers)
    registers.errors[at, lane] = failure_of(source, lane, registers)


@compiled
def copy_truth(at: int, source: int, lane: Int, registers: Registers) -> None:
    """Copy a lane of a truth value, with its failure; the flags of the target must be set."""
    registers.true[at, lane] = registers.true[source, lane]
    registers.false[at, lane] = registers.false[source, lane]
    registers.errors[at, lane] = failure_of(source, lane, registers)

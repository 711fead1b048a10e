"""Codes of condition programs: operations, instructions with constants, and blocks of combinations."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numba import carray

from tidegate.physical.common.arrays import Bytes, Ints
from tidegate.physical.common.kernels.addresses import ints_at
from tidegate.physical.common.kernels.compiled import inlined

SEGMENTS = 256
"""Greatest number of segments in a block."""

TRUE, FALSE, NULL, FAILURE, DOUBT = (np.uint8(1 << bit) for bit in range(5))
"""Possible outcomes of a truth value; a number can be NULL, fail, or be in doubt: its bounds are not known then."""


class Code(IntEnum):
    """Operation of an instruction; its arguments are registers, if not said otherwise."""

    LOAD_FLOAT = 0  # places of addresses: of the column; member; of the bitmap of validity; of failures
    LOAD_INT = 1
    LOAD_SHORT = 2
    LOAD_TRUTH = 3
    CONSTANT = 4
    ADD_FLOAT = 5
    SUBTRACT_FLOAT = 6
    MULTIPLY_FLOAT = 7
    DIVIDE_FLOAT = 8
    REMAINDER_FLOAT = 9
    NEGATE_FLOAT = 10
    MAGNITUDE_FLOAT = 11
    ROOT = 12
    FLOOR = 13
    CEIL = 14
    ADD_INT = 15  # the third argument is the number of bits, as for all operations on integers
    SUBTRACT_INT = 16
    MULTIPLY_INT = 17
    DIVIDE_INT = 18
    REMAINDER_INT = 19
    NEGATE_INT = 20
    MAGNITUDE_INT = 21
    NARROW = 22
    INT_TO_FLOAT = 23
    FLOAT_TO_INT = 24
    LESS_FLOAT = 25  # the third argument says whether to negate, as for all comparisons
    EQUAL_FLOAT = 26
    LESS_INT = 27
    EQUAL_INT = 28
    AND = 29
    OR = 30
    NOT = 31
    NUMBER_IS_NULL = 32
    TRUTH_IS_NULL = 33
    IS_TRUE = 34
    IS_FALSE = 35
    BRANCH = 36  # condition, then, otherwise, and whether they are truth values
    KNOWN = 37  # two values, and whether they are truth values
    GREATEST = 38  # two values, and whether they are floats
    LEAST = 39
    NULL_IF = 40


class ConditionProgram(NamedTuple):
    """Instructions (an operation and four arguments each), and, of constants, the bits, masks and outcomes."""

    code: Ints
    bits: Ints
    true: Bytes
    false: Bytes
    outcomes: Bytes


class CombinationBlock(NamedTuple):
    """Segments: positions of the elements by member (of the last member, the first one), and where they end."""

    rows: Ints
    ends: Ints


def allocate_block(members: int) -> CombinationBlock:
    return CombinationBlock(np.empty((SEGMENTS, members), np.int64), np.empty(SEGMENTS, np.int64))


@inlined
def borrow_block(block: CombinationBlock) -> CombinationBlock:
    """Return a block that does not count references; see `borrow_registers`."""
    rows = carray(ints_at(block.rows.ctypes.data), block.rows.shape)
    return CombinationBlock(rows, carray(ints_at(block.ends.ctypes.data), block.ends.shape))

"""Decide a condition program for the rows of a single table, one after another."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Bytes, Ints
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.condition_codes import (
    CombinationBlock,
    ConditionProgram,
    allocate_block,
    borrow_block,
)
from tidegate.physical.common.kernels.condition_masks import (
    LANES,
    Registers,
    allocate_registers,
    borrow_registers,
    copy_bytes,
)
from tidegate.physical.common.kernels.condition_program import run_program, write_constants


def decide_rows(program: ConditionProgram, addresses: Ints, rows: int) -> tuple[Bytes, Bytes]:
    """Return where the condition is true, and its failures."""
    true, errors = np.empty(rows, np.uint8), np.zeros(rows, np.uint8)
    _decide_rows(program, addresses, allocate_registers(len(program.code)), allocate_block(1), true, errors)
    return true, errors


@compiled
def _decide_rows(
    program: ConditionProgram, addresses: Ints, own: Registers, own_block: CombinationBlock, true: Bytes, errors: Bytes
) -> None:
    registers, block = borrow_registers(own), borrow_block(own_block)
    result = len(program.code) - 1
    write_constants(program, registers)
    for begin in range(0, len(true), LANES):
        lanes = min(LANES, len(true) - begin)
        block.rows[0, 0], block.ends[0] = begin, lanes
        run_program(program.code, addresses, block, 1, 0, registers)
        copy_bytes(registers.true[result], true[begin:], lanes)
        if registers.flags[result, 1]:
            copy_bytes(registers.errors[result], errors[begin:], lanes)

"""Search of combinations with a condition program: stretches first, by their bounds, then combinations in blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Bytes, Int, Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.condition_bounds import (
    Bounds,
    allocate_bounds,
    borrow_bounds,
    run_bounds,
    write_constant_bounds,
)
from tidegate.physical.common.kernels.condition_codes import (
    FAILURE,
    SEGMENTS,
    TRUE,
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
    fill_bytes,
)
from tidegate.physical.common.kernels.condition_program import run_program, write_constants
from tidegate.physical.common.kernels.condition_stretches import STRETCH


class ConditionInputs(NamedTuple):
    """ConditionProgram of a condition, and the addresses of the columns of each member and of their bounds.

    Columns begin with the first element of their member. Without bounds, `stretches` is empty.
    """

    program: ConditionProgram
    addresses: Ints
    stretches: Ints


class Workspace(NamedTuple):
    """Memory of a search: combinations that wait for their decision, and stretches that wait for that by bounds."""

    registers: Registers
    block: CombinationBlock
    bounds: Bounds
    stretches: CombinationBlock
    ranges: Ints  # by segment of stretches: its first row, and where it ends


def allocate_workspace(condition: ConditionInputs, members: int) -> Workspace:
    """Return the memory of a search, with the constants of the program."""
    instructions = len(condition.program.code)
    registers, bounds = allocate_registers(instructions), allocate_bounds(instructions)
    write_constants(condition.program, registers)
    write_constant_bounds(condition.program, bounds)
    ranges = np.empty((SEGMENTS, 2), np.int64)
    return Workspace(registers, allocate_block(members), bounds, allocate_block(members), ranges)


@inlined
def add_range(
    stretches: CombinationBlock, ranges: Ints, segments: int, lanes: Int, last: int, begin: Int, end: Int
) -> tuple[Int, Int]:
    """Write the place of a range of elements of the last member as the next segment of stretches.

    Return the end of the part that fits into the block, and the number of lanes after it.
    """
    stretch = begin // STRETCH
    end = min(end, (stretch + LANES - lanes) * STRETCH)
    stretches.rows[segments, last] = stretch
    ranges[segments, 0], ranges[segments, 1] = begin, end
    lanes += (end - 1) // STRETCH - stretch + 1
    stretches.ends[segments] = lanes
    return end, lanes


@compiled
def judge_stretches(
    condition: ConditionInputs, work: Workspace, segments: int, last: int, found: Ints, failures: Bytes, filled: int
) -> tuple[Ints, Bytes, int]:
    """Decide the combinations of all stretches that bounds do not exclude; append those that count."""
    code, addresses, stretches = condition.program.code, condition.addresses, condition.stretches
    registers, block = borrow_registers(work.registers), borrow_block(work.block)
    bounds, outer, ranges = borrow_bounds(work.bounds), borrow_block(work.stretches), work.ranges
    if len(stretches):
        run_bounds(code, addresses, stretches, outer, segments, last, bounds)
    outcomes = bounds.outcomes[len(code) - 1]
    many, begin, pending, lanes = outer.rows.shape[1], 0, 0, 0
    for segment in range(segments):
        stop, base = outer.ends[segment], outer.rows[segment, last] - begin
        lane = begin
        while lane < stop:
            ahead = stop
            if len(stretches):
                while lane < stop and not outcomes[lane] & (TRUE | FAILURE):
                    lane += 1
                ahead = lane
                while ahead < stop and outcomes[ahead] & (TRUE | FAILURE):
                    ahead += 1
            row = max(ranges[segment, 0], (base + lane) * STRETCH)
            end = min(ranges[segment, 1], (base + ahead) * STRETCH)
            while row < end:
                size = min(end - row, LANES - lanes)
                for member in range(many):
                    block.rows[pending, member] = outer.rows[segment, member]
                block.rows[pending, last] = row
                lanes += size
                block.ends[pending] = lanes
                pending += 1
                row += size
                if lanes == LANES or pending == SEGMENTS:
                    found, failures, filled = _decide(
                        condition, block, pending, last, registers, found, failures, filled
                    )
                    pending, lanes = 0, 0
            lane = ahead
        begin = stop
    if pending:
        return _decide(condition, block, pending, last, registers, found, failures, filled)
    return found, failures, filled


@compiled
def _decide(
    condition: ConditionInputs,
    block: CombinationBlock,
    segments: int,
    last: int,
    registers: Registers,
    found: Ints,
    failures: Bytes,
    filled: int,
) -> tuple[Ints, Bytes, int]:
    """Decide a block and append the combinations that count; return the found ones, their failures and number."""
    code = condition.program.code
    run_program(code, condition.addresses, block, segments, last, registers)
    true, errors, lanes = registers.true[len(code) - 1], registers.errors[len(code) - 1], block.ends[segments - 1]
    if registers.flags[len(code) - 1, 1]:
        for i in range(lanes):
            true[i] |= errors[i]
    else:
        fill_bytes(errors, 0, lanes)
    count = 0
    for i in range(lanes):
        count += true[i] != 0
    if not count:
        return found, failures, filled
    while filled + count > len(found):
        found, failures = _double_capacity(found, failures)
    begin = 0
    for segment in range(segments):
        end = block.ends[segment]
        for i in range(begin, end):
            if true[i]:
                for member in range(found.shape[1]):
                    found[filled, member] = block.rows[segment, member]
                found[filled, last] += i - begin
                failures[filled] = errors[i]
                filled += 1
        begin = end
    return found, failures, filled


@compiled
def _double_capacity(found: Ints, failures: Bytes) -> tuple[Ints, Bytes]:
    more, longer = np.empty((2 * len(found), found.shape[1]), np.int64), np.empty(2 * len(found), np.uint8)
    more[: len(found)], longer[: len(found)] = found, failures
    return more, longer

"""Load columns of elements into the registers of condition programs."""

from __future__ import annotations

import numpy as np
from numba import carray

from tidegate.physical.common.arrays import Array, Bytes, Ints
from tidegate.physical.common.kernels.addresses import bytes_at, floats_at, ints_at, shorts_at
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.condition_codes import Code, CombinationBlock
from tidegate.physical.common.kernels.condition_masks import Registers


@compiled
def load_column(
    at: int, instruction: Ints, addresses: Ints, block: CombinationBlock, segments: int, last: int, registers: Registers
) -> None:
    """Load a column of the elements of one member: one value for a segment, or many for the last member."""
    code, column, member = instruction[0], addresses[instruction[1]], instruction[2]
    known, failures = addresses[instruction[3]], addresses[instruction[4]]
    registers.flags[at, 0], registers.flags[at, 1] = known != 0, failures != 0
    true, false, begin = registers.true[at], registers.false[at], 0
    for segment in range(segments):
        row, end, is_many = block.rows[segment, member], block.ends[segment], member == last
        lanes = end - begin
        many = lanes if is_many else 1
        if code == Code.LOAD_FLOAT:
            _copy(carray(floats_at(column + 8 * row), (many,)), registers.floats[at, begin:end])
        elif code == Code.LOAD_INT:
            _copy(carray(ints_at(column + 8 * row), (many,)), registers.ints[at, begin:end])
        elif code == Code.LOAD_SHORT:
            _copy(carray(shorts_at(column + 4 * row), (many,)), registers.ints[at, begin:end])
        else:
            _copy_bits(carray(bytes_at(column), (1,)), row, many, false[begin:end])
        if known:
            _copy_bits(carray(bytes_at(known), (1,)), row, many, true[begin:end])
        if failures:
            _copy(carray(bytes_at(failures + row), (many,)), registers.errors[at, begin:end])
        begin = end
    if code == Code.LOAD_TRUTH:
        for i in range(begin):
            is_known = true[i] if known else np.uint8(1)
            true[i], false[i] = is_known & false[i], is_known & (false[i] ^ np.uint8(1))


@inlined
def _copy(values_: Array, out: Array) -> None:
    """Copy values; a single one to all places."""
    if len(values_) == len(out):
        for i in range(len(out)):
            out[i] = values_[i]
    else:
        value = values_[0]
        for i in range(len(out)):
            out[i] = value


@inlined
def _copy_bits(bits: Bytes, row: int, many: int, out: Bytes) -> None:
    """Copy bits as bytes from a row on; a single one to all places."""
    for i in range(many):
        place = row + i
        out[i] = (bits[place >> 3] >> np.uint8(place & 7)) & np.uint8(1)
    for i in range(many, len(out)):
        out[i] = out[0]

"""Operations of condition programs that choose between values lane by lane: CASE, COALESCE, GREATEST and such."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Int
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.condition_masks import (
    Registers,
    copy_number,
    copy_truth,
    failure_of,
    inherit_failures,
    is_valid,
    merge_failures,
)


@compiled
def choose_branch(
    at: int, condition: int, then: int, otherwise: int, is_truth: bool, registers: Registers, lanes: int  # noqa: FBT001
) -> None:  # fmt: skip
    """Copy one of two values by a condition; where the condition fails, neither counts."""
    _open(at, registers)
    for i in range(lanes):
        source = then if registers.true[condition, i] else otherwise
        if is_truth:
            copy_truth(at, source, i, registers)
        else:
            copy_number(at, source, i, registers)
        failure = failure_of(condition, i, registers)
        if failure:
            _fail(at, i, failure, registers)


@compiled
def choose_known(at: int, a: int, b: int, is_truth: bool, registers: Registers, lanes: int) -> None:  # noqa: FBT001
    """Copy the first value, or the second where the first is NULL and did not fail."""
    _open(at, registers)
    for i in range(lanes):
        known = registers.true[a, i] | registers.false[a, i] if is_truth else np.uint8(is_valid(a, i, registers))
        source = a if known or failure_of(a, i, registers) else b
        if is_truth:
            copy_truth(at, source, i, registers)
        else:
            copy_number(at, source, i, registers)


@compiled
def choose_extreme(
    at: int, a: int, b: int, is_greatest: bool, is_float: bool, registers: Registers, lanes: int  # noqa: FBT001
) -> None:  # fmt: skip
    """Copy the greater or lesser of the values that are not NULL; the first of equal ones."""
    _open(at, registers)
    for i in range(lanes):
        source = a
        if not is_valid(a, i, registers):
            source = b
        elif is_valid(b, i, registers):
            low, high = (a, b) if is_greatest else (b, a)
            source = b if _is_less(low, high, i, is_float, registers) else a
        copy_number(at, source, i, registers)
        failure = merge_failures(failure_of(a, i, registers), failure_of(b, i, registers))
        if failure:
            _fail(at, i, failure, registers)


@compiled
def remove_equal(at: int, a: int, b: int, registers: Registers, lanes: int) -> None:
    """Copy the first value, NULL where the two are equal; the truth mask of the result says where they are."""
    for i in range(lanes):
        registers.ints[at, i] = registers.ints[a, i]
        same = registers.true[at, i] and is_valid(b, i, registers)
        registers.true[at, i] = is_valid(a, i, registers) and not same
    inherit_failures(at, a, b, registers, lanes)
    registers.flags[at, 0] = 1
    if registers.flags[at, 1]:
        for i in range(lanes):
            if registers.errors[at, i]:
                registers.true[at, i] = 0


@inlined
def _open(at: int, registers: Registers) -> None:
    """Say that the result may have NULL and failures."""
    registers.flags[at, 0] = registers.flags[at, 1] = 1


@inlined
def _fail(at: int, lane: Int, failure: np.uint8, registers: Registers) -> None:
    registers.errors[at, lane] = failure
    registers.true[at, lane] = registers.false[at, lane] = 0


@inlined
def _is_less(a: int, b: int, lane: Int, is_float: bool, registers: Registers) -> bool:  # noqa: FBT001
    if not is_float:
        return registers.ints[a, lane] < registers.ints[b, lane]
    one, other = registers.floats[a, lane], registers.floats[b, lane]
    return one < other or (np.isnan(other) and not np.isnan(one))

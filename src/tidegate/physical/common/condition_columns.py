"""A condition as a program, with the columns that it reads, for the loops that combine elements."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.nodes import Column, Expression
from tidegate.physical.common.arrays import Array, Bytes, Ints, Mask
from tidegate.physical.common.kernels.addresses import address_of
from tidegate.physical.common.kernels.condition_codes import DOUBT, FALSE, NULL, TRUE, Code, ConditionProgram
from tidegate.physical.common.kernels.condition_stretches import bound_column
from tidegate.physical.common.kernels.hashing import fixed_width_values, read_only

ARRAYS_OF_LOAD = 3
"""Number of arrays that a load reads: the column, its validity and its failures; or its bounds."""

_WIDTHS: dict[int, type[np.generic]] = {
    Code.LOAD_FLOAT: np.float64,
    Code.LOAD_INT: np.int64,
    Code.LOAD_SHORT: np.int32,
}
_NO_BYTES = read_only(np.empty(0, np.uint8))
_COMPARISONS = (Code.LESS_FLOAT, Code.EQUAL_FLOAT, Code.LESS_INT, Code.EQUAL_INT)
_BOUNDED = {
    *(Code.ADD_FLOAT, Code.SUBTRACT_FLOAT, Code.MULTIPLY_FLOAT, Code.NEGATE_FLOAT, Code.MAGNITUDE_FLOAT),
    *(Code.ADD_INT, Code.SUBTRACT_INT, Code.INT_TO_FLOAT, *_COMPARISONS),
}
"""Operations whose bounds follow from those of their arguments."""


@dataclass(frozen=True, slots=True)
class Load:
    """What an instruction loads: the value of an expression for the elements of one member."""

    expression: Expression
    member: int


@dataclass(frozen=True, slots=True, eq=False)
class InputColumns:
    """Columns that a program reads, with bitmaps and failures. Their addresses are valid as long as this."""

    arrays: tuple[Array, ...]

    @property
    def addresses(self) -> Ints:
        return np.array([address_of(each) for each in self.arrays], np.int64)


NO_COLUMNS = InputColumns(())


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition as a program, and what each of its loads reads."""

    expression: Expression
    code: tuple[tuple[int, ...], ...]
    constants: tuple[int | float | None, ...]
    loads: tuple[tuple[int, Load], ...]
    """Instructions that load, with what they load."""
    program: ConditionProgram = field(init=False, repr=False, compare=False)
    has_bounds: bool = field(init=False, repr=False, compare=False)
    """Whether a comparison can be decided from the least and greatest values of columns."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "program", _make_program(self.code, self.constants))
        object.__setattr__(self, "has_bounds", _has_bounds(self.code))

    def columns(self, members: Sequence[pa.RecordBatch]) -> InputColumns:
        """Return the columns that the program reads, given those of the elements of each member."""
        arrays: list[Array] = [_NO_BYTES] * (1 + ARRAYS_OF_LOAD * len(self.loads))
        for at, load in self.loads:
            code, place, _, valid, errors = self.code[at]
            column, failures = _column_of(load.expression, members[load.member])
            arrays[place] = _bitmap(column, 1) if code == Code.LOAD_TRUTH else fixed_width_values(column, _WIDTHS[code])
            arrays[valid] = _bitmap(column, 0) if column.null_count else _NO_BYTES
            if errors:
                arrays[errors] = failures
        return InputColumns(tuple(arrays))

    def bounds(self, columns: InputColumns) -> InputColumns:
        """Return the bounds of the stretches of all columns with numbers, in the places of the columns.

        There are none if they can decide nothing.
        """
        if not self.has_bounds:
            return NO_COLUMNS
        arrays: list[Array] = [_NO_BYTES] * len(columns.arrays)
        for at, _ in self.loads:
            code, place, _, valid, errors = self.code[at]
            if code != Code.LOAD_TRUTH:
                column, bits, failures = (columns.arrays[i] for i in (place, valid, errors))
                arrays[place : place + ARRAYS_OF_LOAD] = bound_column(column, bits, failures)
        return InputColumns(tuple(arrays))


def _make_program(code: Sequence[Sequence[int]], constants: Sequence[float | None]) -> ConditionProgram:
    given = np.array([_bits_of_constant(c) for c in constants], np.int64)
    true = [c is not None and c is not False for c in constants]
    false = [c is False for c in constants]
    masks = [np.array(each, np.uint8) for each in (true, false, [_outcome_of_constant(c) for c in constants])]
    return ConditionProgram(np.array(code, np.int64), given, *masks)


def _has_bounds(program: Sequence[Sequence[int]]) -> bool:
    """Return whether any comparison of a program is one of values with bounds."""
    bounded = [False] * len(program)
    for at, (code, a, b, *_) in enumerate(program):
        is_leaf = code <= Code.CONSTANT and code != Code.LOAD_TRUTH
        bounded[at] = is_leaf or (code in _BOUNDED and bounded[a] and bounded[b])
    return any(is_bounded and program[at][0] in _COMPARISONS for at, is_bounded in enumerate(bounded))


def _bits_of_constant(value: float | None) -> int:
    """Return a constant as the 64 bits of a register."""
    return struct.unpack("q", struct.pack("d", value))[0] if isinstance(value, float) else int(value or 0)


def _outcome_of_constant(value: float | None) -> int:
    match value:
        case None:
            return int(NULL)
        case bool():
            return int(TRUE if value else FALSE)
        case float() if not math.isfinite(value):
            return int(DOUBT)
    return 0


def _column_of(expression: Expression, columns: pa.RecordBatch) -> tuple[pa.Array, Bytes]:
    """Return the values of an expression, and its failures; empty if there are none."""
    if isinstance(expression, Column):
        return columns.column(expression.name), _NO_BYTES
    result = evaluate(expression, columns, columns.num_rows)
    return result.values, _NO_BYTES if result.errors is None else read_only(result.errors.astype(np.uint8))


def _bitmap(column: pa.Array, buffer: int) -> Bytes:
    """Return the bitmap of validity (0) or of truth values (1)."""
    if column.offset or column.buffers()[buffer] is None:
        bits = column.is_valid() if buffer == 0 else column.fill_null(False)  # noqa: FBT003 - Arrow's API
        mask: Mask = bits.to_numpy(zero_copy_only=False)
        return read_only(np.packbits(mask, bitorder="little"))
    return read_only(np.frombuffer(column.buffers()[buffer], np.uint8))

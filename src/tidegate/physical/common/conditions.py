"""Conditions over elements of several members, as programs that run inside the loops that combine the elements.

A program knows numbers, times and truth values. What reads a single member and is not in its language, or is there more
than a column, can be computed before, once for each element. A condition that cannot be written as a program is
evaluated for all combinations, by `expressions.evaluate`; both have the same values and failures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, InList, columns_of, walk
from tidegate.expressions.user_calls import UserFunction
from tidegate.physical.common.condition_columns import ARRAYS_OF_LOAD, Condition, Load
from tidegate.physical.common.kernels.condition_codes import Code
from tidegate.schema import Type

MOST_INSTRUCTIONS = 60
"""Number of instructions above which a condition is evaluated as a whole instead."""

_WHOLE = (Type.INT, Type.BIGINT, Type.TIMESTAMP, Type.INTERVAL)
_LOADS = {Type.DOUBLE: Code.LOAD_FLOAT, Type.INT: Code.LOAD_SHORT, Type.BOOLEAN: Code.LOAD_TRUTH}
_FLOATS = {
    "+": Code.ADD_FLOAT,
    "-": Code.SUBTRACT_FLOAT,
    "*": Code.MULTIPLY_FLOAT,
    "/": Code.DIVIDE_FLOAT,
    "%": Code.REMAINDER_FLOAT,
    "negate": Code.NEGATE_FLOAT,
    "abs": Code.MAGNITUDE_FLOAT,
    "sqrt": Code.ROOT,
    "floor": Code.FLOOR,
    "ceil": Code.CEIL,
}
_INTS = {
    "+": Code.ADD_INT,
    "-": Code.SUBTRACT_INT,
    "*": Code.MULTIPLY_INT,
    "div": Code.DIVIDE_INT,
    "%": Code.REMAINDER_INT,
    "negate": Code.NEGATE_INT,
    "abs": Code.MAGNITUDE_INT,
}
_COMPARISONS = {
    # by function: the comparison, whether its sides are exchanged, and whether it is negated
    "=": ("equal", False, False),
    "<>": ("equal", False, True),
    "<": ("less", False, False),
    ">": ("less", True, False),
    "<=": ("less", True, True),
    ">=": ("less", False, True),
}
_COMPARE = {
    ("equal", True): Code.EQUAL_FLOAT,
    ("equal", False): Code.EQUAL_INT,
    ("less", True): Code.LESS_FLOAT,
    ("less", False): Code.LESS_INT,
}
_TESTS = {"not": Code.NOT, "is_true": Code.IS_TRUE, "is_false": Code.IS_FALSE}


class _NotInLanguageError(Exception):
    """A condition cannot be written as a program."""


@lru_cache(maxsize=256)
def compile_condition(
    expression: Expression, members: tuple[frozenset[str], ...], *, computes_loads: bool
) -> Condition | None:
    """Write a condition over the columns of the members as a program; None if that is not possible.

    With `computes_loads`, parts that read a single member are computed for each element before the program runs.
    """
    if any(isinstance(each, Call) and isinstance(each.user, UserFunction) for each in walk(expression)):
        return None
    writer = _Writer(members, computes_loads=computes_loads)
    try:
        result = writer.write(expression)
    except _NotInLanguageError:
        return None
    if result != len(writer.code) - 1 or len(writer.code) > MOST_INSTRUCTIONS:
        return None
    return Condition(expression, tuple(writer.code), tuple(writer.constants), tuple(writer.loads.items()))


@dataclass(slots=True)
class _Writer:
    """Instructions written so far; equal parts are written once."""

    members: tuple[frozenset[str], ...]
    computes_loads: bool = field(kw_only=True)
    code: list[tuple[int, ...]] = field(default_factory=list)
    constants: list[int | float | None] = field(default_factory=list)
    loads: dict[int, Load] = field(default_factory=dict)
    places: dict[Expression, int] = field(default_factory=dict)
    arrays: int = 1
    """Number of arrays that the program reads; the first one is always empty."""

    def write(self, expression: Expression) -> int:
        """Write an expression; return its register."""
        if expression not in self.places:
            self.places[expression] = self._write_new(expression)
        return self.places[expression]

    def _write_new(self, expression: Expression) -> int:
        if not isinstance(expression, Column) and not columns_of(expression):
            return self._constant(expression)
        member = self._only_member(expression)
        if member is not None and (self.computes_loads or isinstance(expression, Column)):
            return self._load(Load(expression, member))
        match expression:
            case Call(function, arguments):
                return self._call(expression, function, arguments)
            case Cast(argument, type_):
                return self._cast(argument, type_)
            case InList(argument, options):
                tests = [Call("=", (argument, option), Type.BOOLEAN) for option in options]
                return self._fold(Code.OR, [self.write(test) for test in tests])
            case Case(branches, otherwise, type_):
                _require(_is_known(type_))
                at = self.write(otherwise)
                for condition, result in reversed(branches):
                    at = self._add(Code.BRANCH, self.write(condition), self.write(result), at, type_ is Type.BOOLEAN)
                return at
        raise _NotInLanguageError

    def _call(self, call: Call, function: str, arguments: tuple[Expression, ...]) -> int:
        first, is_float = arguments[0].type, arguments[0].type is Type.DOUBLE
        _require(_is_known(first) and _is_known(call.type))
        if function in _COMPARISONS:
            _require(first is not Type.BOOLEAN and first in (Type.DOUBLE, *_WHOLE))
            kind, flipped, negated = _COMPARISONS[function]
            a, b = (self.write(each) for each in arguments)
            return self._add(_COMPARE[kind, is_float], *((b, a) if flipped else (a, b)), negated)
        registers = [self.write(each) for each in arguments]
        match function:
            case "and" | "or":
                return self._fold(Code.AND if function == "and" else Code.OR, registers)
            case "not" | "is_true" | "is_false":
                return self._add(_TESTS[function], *registers)
            case "is_null":
                return self._add(Code.TRUTH_IS_NULL if first is Type.BOOLEAN else Code.NUMBER_IS_NULL, *registers)
            case "coalesce":
                return self._fold(Code.KNOWN, registers, first is Type.BOOLEAN)
            case "greatest" | "least" if first is not Type.BOOLEAN:
                return self._fold(Code.GREATEST if function == "greatest" else Code.LEAST, registers, is_float)
            case "nullif" if first is not Type.BOOLEAN:
                return self._add(Code.NULL_IF, *registers, is_float)
            case "epoch_micros" | "from_epoch_micros":
                return registers[0]
        codes = _FLOATS if is_float else _INTS
        _require(function in codes and first is not Type.BOOLEAN)
        bits = () if is_float else (_bits_of(call.type),)
        return self._add(codes[function], registers[0], registers[-1], *bits)

    def _cast(self, argument: Expression, type_: Type) -> int:
        at = self.write(argument)
        match argument.type, type_:
            case (one, other) if one is other:
                return at
            case (Type.INT, Type.BIGINT):
                return at
            case ((Type.INT | Type.BIGINT), Type.DOUBLE):
                return self._add(Code.INT_TO_FLOAT, at, at)
            case (Type.BIGINT, Type.INT):
                return self._add(Code.NARROW, at, at, 32)
            case (Type.DOUBLE, (Type.INT | Type.BIGINT)):
                return self._add(Code.FLOAT_TO_INT, at, at, _bits_of(type_))
        raise _NotInLanguageError

    def _fold(self, code: Code, registers: Sequence[int], *more: int) -> int:
        at, *others = registers
        for other in others:
            at = self._add(code, at, other, *more)
        return at

    def _constant(self, expression: Expression) -> int:
        _require(_is_known(expression.type))
        result = evaluate(expression, pa.RecordBatch.from_arrays([], names=[]), 1)
        _require(result.errors is None)
        value = result.values[0]
        if pa.types.is_temporal(value.type):
            value = value.cast(pa.int64())
        return self._add(Code.CONSTANT, constant=value.as_py())

    def _load(self, load: Load) -> int:
        type_ = load.expression.type
        _require(_is_known(type_))
        place, self.arrays = self.arrays, self.arrays + ARRAYS_OF_LOAD
        errors = 0 if isinstance(load.expression, Column) else place + 2
        at = self._add(_LOADS.get(type_, Code.LOAD_INT), place, load.member, place + 1, errors)
        self.loads[at] = load
        return at

    def _add(self, code: Code, *arguments: int, constant: float | None = None) -> int:
        padded = (*map(int, arguments), 0, 0, 0, 0)[:4]
        self.code.append((int(code), *padded))
        self.constants.append(constant)
        return len(self.code) - 1

    def _only_member(self, expression: Expression) -> int | None:
        read = columns_of(expression)
        return next((at for at, names in enumerate(self.members) if read <= names), None)


def _require(fits: bool) -> None:  # noqa: FBT001 - as an assertion
    if not fits:
        raise _NotInLanguageError


def _is_known(type_: Type) -> bool:
    return type_ in (Type.DOUBLE, Type.BOOLEAN, *_WHOLE)


def _bits_of(type_: Type) -> int:
    return 32 if type_ is Type.INT else 64

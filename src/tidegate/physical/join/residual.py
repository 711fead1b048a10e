"""Find the parts of a join's predicate that can be tested during the search for pairs.

Such a *term* compares, in double arithmetic, a value of the left with a value of the right element, or their sum,
difference, product or distance with a constant. Values are computed once for each element. Integers and times qualify
as long as doubles represent them and the result exactly. If a value is too large or fails, the whole predicate decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.functions.resolve import can_fail
from tidegate.expressions.nodes import (
    Call,
    Column,
    Expression,
    Value,
    columns_of,
    conjunction,
    conjuncts,
)
from tidegate.physical.common.arrays import Mask
from tidegate.physical.join.kernels.terms import MOST_TERMS, Combine, Compare
from tidegate.schema import Schema, Type

_COMPARE = {
    "=": Compare.EQUAL,
    "<>": Compare.UNEQUAL,
    "<": Compare.LESS,
    "<=": Compare.AT_MOST,
    ">": Compare.GREATER,
    ">=": Compare.AT_LEAST,
}

FLIPPED = {
    Compare.EQUAL: Compare.EQUAL,
    Compare.UNEQUAL: Compare.UNEQUAL,
    Compare.LESS: Compare.GREATER,
    Compare.AT_MOST: Compare.AT_LEAST,
    Compare.GREATER: Compare.LESS,
    Compare.AT_LEAST: Compare.AT_MOST,
}
"""Comparison with its sides exchanged."""

EXACT = 2.0**53
"""Greatest integer up to which doubles represent all integers."""

_TIMES = (Type.TIMESTAMP, Type.INTERVAL)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Up to these magnitudes, neither doubles nor the type itself overflow or round.
_LARGEST = {
    (Combine.NOTHING, Type.DOUBLE): inf,
    (Combine.NOTHING, Type.REAL): inf,
    (Combine.NOTHING, Type.INT): inf,
    (Combine.NOTHING, Type.BIGINT): EXACT,
    (Combine.NOTHING, Type.TIMESTAMP): EXACT,
    (Combine.NOTHING, Type.INTERVAL): EXACT,
    (Combine.SUM, Type.DOUBLE): inf,
    (Combine.SUM, Type.INT): 2.0**30 - 1,
    (Combine.SUM, Type.BIGINT): EXACT / 2,
    (Combine.SUM, Type.TIMESTAMP): EXACT / 2,
    (Combine.SUM, Type.INTERVAL): EXACT / 2,
    (Combine.PRODUCT, Type.DOUBLE): inf,
    (Combine.PRODUCT, Type.INT): 2.0**15,
    (Combine.PRODUCT, Type.BIGINT): 2.0**26,
}


@dataclass(frozen=True, slots=True)
class Operand:
    """Value that a term reads of one side; rows whose value is larger than `largest` are not tested."""

    expression: Expression
    sign: float
    largest: float

    @property
    def column(self) -> str | None:
        """Return the column that has exactly the operand's values, if there is one."""
        match self.expression:
            case Column(name=name, type=Type.DOUBLE):
                return name
        return None


@dataclass(frozen=True, slots=True)
class PairTerm:
    """Comparison of left · right with the constant, or of left with right if nothing combines them."""

    left: Operand
    right: Operand
    combine: Combine
    compare: Compare
    constant: float = 0.0


@dataclass(frozen=True, slots=True)
class Residual:
    """Predicate split into terms and the rest; all of them must be true."""

    whole: Expression
    terms: tuple[PairTerm, ...]
    rest: Expression
    may_fail: bool


def split_residual(predicate: Expression, left: Schema, right: Schema) -> Residual:
    """Split a predicate over both sides into terms and the rest."""
    sides = frozenset(left.names), frozenset(right.names)
    terms: list[PairTerm] = []
    rest: list[Expression] = []
    for part in conjuncts(predicate):
        term = _term_of(part, *sides) if len(terms) < MOST_TERMS else None
        if term is None:
            rest.append(part)
        else:
            terms.append(term)
    return Residual(predicate, tuple(terms), conjunction(tuple(rest)), can_fail(predicate))


class OperandValues(NamedTuple):
    """Values of an operand as doubles, NULL where the term cannot be tested; and where the operand itself is NULL."""

    values: pa.Array
    nulls: Mask | None


def compute_operand(operand: Operand, columns: pa.RecordBatch, rows: int) -> OperandValues:
    """Compute the values of an operand for each row."""
    result = evaluate(operand.expression, columns, rows)
    values, nulls = result.values, null_mask(result.values)
    if result.errors is not None:
        failed = result.errors != 0
        values, nulls = pc.if_else(pa.array(failed), None, values), None if nulls is None else nulls & ~failed
    return OperandValues(_as_doubles(values, operand.largest), nulls)


def null_mask(column: pa.Array) -> Mask | None:
    """Return where a column is NULL, or None if it has no NULL."""
    mask: Mask | None = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return mask


def _as_doubles(values: pa.Array, largest: float) -> pa.Array:
    """Return the values as doubles; NULL where they are too large."""
    if Type.of_arrow(values.type) in _TIMES:
        values = values.cast(pa.int64())
    if largest != inf:
        small = pc.and_(pc.less_equal(values, int(largest)), pc.greater_equal(values, -int(largest)))
        values = pc.if_else(small, values, None)
    return values.cast(pa.float64(), safe=False)


def _term_of(part: Expression, left: frozenset[str], right: frozenset[str]) -> PairTerm | None:
    match part:
        case Call(function, (a, b)) if function in _COMPARE:
            compare = _COMPARE[function]
        case _:
            return None
    if columns_of(a) <= left and columns_of(b) <= right:
        return _make_term(a, b, Combine.NOTHING, compare, a.type)
    if columns_of(a) <= right and columns_of(b) <= left:
        return _make_term(b, a, Combine.NOTHING, FLIPPED[compare], a.type)
    if (constant := _constant_value(b)) is not None:
        return _arithmetic_term(a, compare, constant, left, right)
    if (constant := _constant_value(a)) is not None:
        return _arithmetic_term(b, FLIPPED[compare], constant, left, right)
    return None


def _arithmetic_term(
    whole: Expression, compare: Compare, constant: float, left: frozenset[str], right: frozenset[str]
) -> PairTerm | None:
    ordering = compare not in (Compare.EQUAL, Compare.UNEQUAL)
    match whole:
        case Call("+", (a, b)):
            combine, sign = Combine.SUM, 1.0
        case Call("-", (a, b)):
            combine, sign = Combine.SUM, -1.0
        case Call("*", (a, b)):
            combine, sign = Combine.PRODUCT, 1.0
        case Call("abs", (Call("-", (a, b)),)) if ordering:
            combine, sign = Combine.MAGNITUDE, -1.0
        case _:
            return None
    if columns_of(a) <= left and columns_of(b) <= right:
        return _make_term(a, b, combine, compare, whole.type, signs=(1.0, sign), constant=constant)
    if columns_of(a) <= right and columns_of(b) <= left:
        return _make_term(b, a, combine, compare, whole.type, signs=(sign, 1.0), constant=constant)
    return None


def _make_term(
    left: Expression, right: Expression, combine: Combine, compare: Compare, type_: Type,
    *, signs: tuple[float, float] = (1.0, 1.0), constant: float = 0.0,
) -> PairTerm | None:  # fmt: skip
    kind = Combine.SUM if combine is Combine.MAGNITUDE else combine
    largest = _LARGEST.get((kind, type_))
    family = set(_TIMES) if type_ in _TIMES else {type_}
    if largest is None or not {left.type, right.type} <= family:
        return None
    return PairTerm(Operand(left, signs[0], largest), Operand(right, signs[1], largest), combine, compare, constant)


def _constant_value(expression: Expression) -> float | None:
    """Return the value of an expression that reads no column, if it is a number that doubles represent."""
    if columns_of(expression) or expression.type not in {t for _, t in _LARGEST}:
        return None
    result = evaluate(expression, pa.RecordBatch.from_arrays([], names=[]), 1)
    return None if result.errors is not None else _as_number(result.values[0].as_py())


def _as_number(value: Value) -> float | None:
    match value:
        case datetime():
            return _as_number((value - _EPOCH) // timedelta(microseconds=1))
        case timedelta():
            return _as_number(value // timedelta(microseconds=1))
        case int() if abs(value) <= EXACT:
            return float(value)
        case float():
            return value
    return None

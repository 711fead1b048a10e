"""Conditions in the language of condition programs, over columns with values that meet limits, NULL and NaN."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, InList, Literal
from tidegate.schema import Type

DOMAINS: dict[Type, list[Any]] = {
    Type.BOOLEAN: [True, False],
    Type.INT: [0, 1, -1, 2, 7, -(2**31), 2**31 - 1],
    Type.BIGINT: [0, 1, -1, 3, 2**31, 2**53 + 1, -(2**63), 2**63 - 1],
    Type.DOUBLE: [0.0, -0.0, 1.5, -2.5, 3.0, math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, 2.0**31, 2.0**63],
    Type.TIMESTAMP: [0, -1, 5, 1_700_000_000_123_456, -(2**63), 2**63 - 1],
    Type.INTERVAL: [0, 1, -1, 90_000_000, -(2**63), 2**63 - 1],
}
"""Values by type; times in microseconds."""

TYPES = tuple(DOMAINS)
NUMBERS = (Type.INT, Type.BIGINT, Type.DOUBLE, Type.TIMESTAMP, Type.INTERVAL)

_FLOAT_CALLS = ("+", "-", "*", "/", "%")
_INT_CALLS = ("+", "-", "*", "div", "%")
_TIMES: dict[Type, tuple[tuple[str, Type, Type], ...]] = {
    Type.TIMESTAMP: (
        ("+", Type.TIMESTAMP, Type.INTERVAL),
        ("+", Type.INTERVAL, Type.TIMESTAMP),
        ("-", Type.TIMESTAMP, Type.INTERVAL),
    ),
    Type.INTERVAL: (
        ("-", Type.TIMESTAMP, Type.TIMESTAMP),
        ("+", Type.INTERVAL, Type.INTERVAL),
        ("*", Type.INTERVAL, Type.BIGINT),
    ),
}
_CASTS: dict[Type, tuple[Type, ...]] = {
    Type.INT: (Type.BIGINT, Type.DOUBLE),
    Type.BIGINT: (Type.INT, Type.DOUBLE),
    Type.DOUBLE: (Type.INT, Type.BIGINT),
}


def columns_of_member(member: str) -> tuple[Column, ...]:
    return tuple(Column(f"{member}.{t.name.lower()}{i}", t) for t in TYPES for i in (1, 2))


@st.composite
def conditions(draw: DrawFn, columns: tuple[Column, ...], *, depth: int = 3) -> Expression:
    return _draw(draw, columns, Type.BOOLEAN, depth)


def tables(columns: tuple[Column, ...], *, most: int) -> st.SearchStrategy[pa.RecordBatch]:
    row = st.fixed_dictionaries({c.name: st.sampled_from([*DOMAINS[c.type], None]) for c in columns})
    known = st.fixed_dictionaries({c.name: st.sampled_from(DOMAINS[c.type]) for c in columns})
    return (st.lists(row, max_size=most) | st.lists(known, max_size=most)).map(lambda rows: table_of(columns, rows))


def table_of(columns: tuple[Column, ...], rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """The rows as columns that are slices of longer ones, as those of Arrow may be."""
    arrays = []
    for c in columns:
        plain = pa.int64() if c.type in (Type.TIMESTAMP, Type.INTERVAL) else c.type.arrow
        arrays.append(pa.array([None, *(r[c.name] for r in rows)], plain).cast(c.type.arrow))
    return pa.RecordBatch.from_arrays(arrays, names=[c.name for c in columns]).slice(1)


def _draw(draw: DrawFn, columns: tuple[Column, ...], type_: Type, depth: int) -> Expression:
    if depth == 0:
        return _leaf(draw, columns, type_)
    down = depth - draw(st.sampled_from([1, 1, 2, depth]))
    down = max(down, 0)
    if draw(st.integers(0, 5)) == 0:
        return _choice(draw, columns, type_, down)
    return _truth(draw, columns, down) if type_ is Type.BOOLEAN else _number(draw, columns, type_, down)


def _leaf(draw: DrawFn, columns: tuple[Column, ...], type_: Type) -> Expression:
    if draw(st.integers(0, 3)) == 0:
        return _literal(draw, type_)
    return draw(st.sampled_from([c for c in columns if c.type is type_]))


def _literal(draw: DrawFn, type_: Type) -> Literal:
    value = draw(st.sampled_from([*DOMAINS[type_], None]))
    if type_ in (Type.TIMESTAMP, Type.INTERVAL):
        # Literals have Python's times, which reach less far.
        value = None if value is None or abs(value) > 2**60 else pa.scalar(value, pa.int64()).cast(type_.arrow).as_py()
    return Literal(value, type_)


def _choice(draw: DrawFn, columns: tuple[Column, ...], type_: Type, depth: int) -> Expression:
    a, b = (_draw(draw, columns, type_, depth) for _ in range(2))
    kind = draw(st.sampled_from(["case", "coalesce", "greatest", "least", "nullif"]))
    if kind == "case":
        return Case(((_draw(draw, columns, Type.BOOLEAN, depth), a),), b, type_)
    if kind == "coalesce" or type_ is Type.BOOLEAN:
        return Call("coalesce", (a, b), type_)
    return Call(kind, (a, b), type_)


def _number(draw: DrawFn, columns: tuple[Column, ...], type_: Type, depth: int) -> Expression:
    if type_ in _TIMES:
        function, *types = draw(st.sampled_from(_TIMES[type_]))
        return Call(function, tuple(_draw(draw, columns, t, depth) for t in types), type_)
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return Cast(_draw(draw, columns, draw(st.sampled_from(_CASTS[type_])), depth), type_)
    if kind == 1:
        functions = ("negate", "abs", "sqrt", "floor", "ceil") if type_ is Type.DOUBLE else ("negate", "abs")
        return Call(draw(st.sampled_from(functions)), (_draw(draw, columns, type_, depth),), type_)
    functions = _FLOAT_CALLS if type_ is Type.DOUBLE else _INT_CALLS
    return Call(draw(st.sampled_from(functions)), tuple(_draw(draw, columns, type_, depth) for _ in range(2)), type_)


def _truth(draw: DrawFn, columns: tuple[Column, ...], depth: int) -> Expression:
    kind = draw(st.integers(0, 9))
    if kind <= 4:
        type_ = draw(st.sampled_from(NUMBERS))
        pair = tuple(_draw(draw, columns, type_, depth) for _ in range(2))
        return Call(draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="])), pair, Type.BOOLEAN)
    if kind <= 6:
        pair = tuple(_draw(draw, columns, Type.BOOLEAN, depth) for _ in range(2))
        return Call(draw(st.sampled_from(["and", "or"])), pair, Type.BOOLEAN)
    if kind == 7:
        test = draw(st.sampled_from(["not", "is_true", "is_false"]))
        return Call(test, (_draw(draw, columns, Type.BOOLEAN, depth),), Type.BOOLEAN)
    type_ = draw(st.sampled_from(NUMBERS))
    if kind == 8:
        return Call("is_null", (_draw(draw, columns, type_, depth),), Type.BOOLEAN)
    options = tuple(_literal(draw, type_) for _ in range(draw(st.integers(1, 3))))
    return InList(_draw(draw, columns, type_, depth), options)

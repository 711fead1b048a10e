"""Expressions over the columns of a schema, typed as the binder types them; some of them fail for some rows."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from strategies.streams import EXACT
from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, InList, Literal
from tidegate.schema import Schema, Type

COMPARISONS = ("=", "<", "<>", ">=", "<=", ">")

LITERALS = {
    **EXACT,
    Type.INT: (0, 1, 2, 3, -1, 0, 1, 2, None, 2**31 - 1, -(2**31)),
    Type.BIGINT: (0, 1, 2, 3, -1, 0, 1, 2, None, 2**63 - 1, -(2**63)),
    Type.BOOLEAN: (True, False, None),
}

ARITHMETIC = {
    Type.INT: ("+", "-", "*", "%", "div"),
    Type.BIGINT: ("+", "-", "*", "%", "div"),
    Type.DOUBLE: ("+", "-", "*", "/", "/"),
}

WIDENED = {Type.BIGINT: (Type.INT,), Type.DOUBLE: (Type.INT, Type.BIGINT)}

TYPES = (Type.INT, Type.DOUBLE, Type.STRING, Type.BIGINT, Type.BOOLEAN)


@st.composite
def expressions(draw: DrawFn, schema: Schema, type_: Type, *, depth: int = 2) -> Expression:
    """An expression of a type, of a depth of at most `depth` calls."""
    return draw_expression(draw, schema, type_, depth)


@st.composite
def predicates(draw: DrawFn, schema: Schema, *, depth: int = 2) -> Expression:
    """A condition: comparisons, tests for NULL, IN, and AND, OR and NOT of them."""
    return draw_expression(draw, schema, Type.BOOLEAN, depth)


def draw_expression(draw: DrawFn, schema: Schema, type_: Type, depth: int) -> Expression:
    if depth == 0 or draw(st.integers(0, 4)) == 4:
        return draw_leaf(draw, schema, type_)
    maker: Callable[[DrawFn, Schema, Type, int], Expression] = draw(st.sampled_from(_MAKERS[type_]))
    return maker(draw, schema, type_, depth - 1)


def draw_leaf(draw: DrawFn, schema: Schema, type_: Type) -> Expression:
    """A column of the type, or one that widens to it; sometimes, and where there is none, a constant."""
    columns = [Column(f.name, f.type) for f in schema if f.type in (type_, *WIDENED.get(type_, ()))]
    if draw(st.integers(0, 4)) == 4:
        return draw_literal(draw, type_)
    if columns:
        return widened(draw(st.sampled_from(columns)), type_)
    return draw_literal(draw, type_) if type_ is not Type.BOOLEAN else _comparison(draw, schema, type_, 0)


def draw_literal(draw: DrawFn, type_: Type) -> Literal:
    return Literal(draw(st.sampled_from(LITERALS[type_])), type_)


def widened(expression: Expression, type_: Type) -> Expression:
    return expression if expression.type is type_ else Cast(expression, type_)


def _arithmetic(draw: DrawFn, schema: Schema, type_: Type, depth: int) -> Expression:
    a, b = (draw_expression(draw, schema, type_, depth) for _ in range(2))
    return Call(draw(st.sampled_from(ARITHMETIC[type_])), (a, b), type_)


def _case(draw: DrawFn, schema: Schema, type_: Type, depth: int) -> Expression:
    condition = draw_expression(draw, schema, Type.BOOLEAN, depth)
    value, otherwise = (draw_expression(draw, schema, type_, depth) for _ in range(2))
    return Case(((condition, value),), otherwise, type_)


def _coalesce(draw: DrawFn, schema: Schema, type_: Type, depth: int) -> Expression:
    return Call("coalesce", tuple(draw_expression(draw, schema, type_, depth) for _ in range(2)), type_)


def _parsed(draw: DrawFn, schema: Schema, type_: Type, depth: int) -> Expression:
    return Cast(draw_expression(draw, schema, Type.STRING, depth), type_)


def _comparison(draw: DrawFn, schema: Schema, _: Type, depth: int) -> Expression:
    type_ = draw(st.sampled_from(sorted({f.type for f in schema}, key=TYPES.index)))
    a, b = (draw_expression(draw, schema, type_, depth) for _ in range(2))
    return Call(draw(st.sampled_from(COMPARISONS)), (a, b), Type.BOOLEAN)


def _junction(draw: DrawFn, schema: Schema, _: Type, depth: int) -> Expression:
    a, b = (draw_expression(draw, schema, Type.BOOLEAN, depth) for _ in range(2))
    return Call(draw(st.sampled_from(["and", "or"])), (a, b), Type.BOOLEAN)


def _negation(draw: DrawFn, schema: Schema, _: Type, depth: int) -> Expression:
    return Call("not", (draw_expression(draw, schema, Type.BOOLEAN, depth),), Type.BOOLEAN)


def _null_test(draw: DrawFn, schema: Schema, _: Type, depth: int) -> Expression:
    field = draw(st.sampled_from(schema.fields))
    return Call("is_null", (draw_expression(draw, schema, field.type, depth),), Type.BOOLEAN)


def _membership(draw: DrawFn, schema: Schema, _: Type, depth: int) -> Expression:
    field = draw(st.sampled_from(schema.fields))
    options = tuple(draw_literal(draw, field.type) for _ in range(draw(st.integers(1, 3))))
    return InList(draw_expression(draw, schema, field.type, depth), options)


_MAKERS = {
    Type.INT: (_arithmetic, _arithmetic, _arithmetic, _case, _coalesce, _parsed),
    Type.BIGINT: (_arithmetic, _arithmetic, _case, _coalesce),
    Type.DOUBLE: (_arithmetic, _arithmetic, _arithmetic, _case, _coalesce),
    Type.STRING: (_case, _coalesce),
    Type.BOOLEAN: (_comparison, _comparison, _comparison, _junction, _negation, _null_test, _membership),
}

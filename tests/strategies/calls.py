"""Calls of aggregates over the columns of a schema."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tidegate.algebra.plan import AggregateCall
from tidegate.schema import Field, Schema, Type

OF_ANY = ("min", "max", "count", "first", "last", "arg_max", "arg_min", "count distinct")
OF_NUMBERS = (
    *("sum", "avg", "sum distinct", "avg distinct", "median", "quantile"),
    *("variance", "stddev", "var_pop", "stddev_pop"),
)

FUNCTIONS = (*OF_NUMBERS, *OF_ANY, "count(*)")
"""The aggregates as one leaves them out by name; those with DISTINCT have names of their own."""

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of quantiles: shares that a double holds exactly."""


def draw_call(draw: DrawFn, schema: Schema, name: str, without: frozenset[str] = frozenset()) -> AggregateCall:
    """A call of any aggregate that is not left out and that the columns have a type for; else COUNT(*)."""
    has_number = any(f.type.is_numeric for f in schema)
    functions = [f for f in FUNCTIONS if f not in without and (f not in OF_NUMBERS or has_number)]
    function = draw(st.sampled_from(functions or ["count(*)"]))
    if function == "count(*)":
        return AggregateCall("count", None, name, Type.BIGINT)
    column = draw(st.sampled_from([f for f in schema if f.type.is_numeric or function not in OF_NUMBERS]))
    plain, _, distinct = function.partition(" ")
    others = (draw(st.sampled_from(schema.names)),) if plain in ("arg_max", "arg_min") else ()
    options = (draw(st.sampled_from(SHARES)),) if plain == "quantile" else ()
    return AggregateCall(plain, column.name, name, _result(plain, column), others, options, bool(distinct))


def _result(function: str, argument: Field) -> Type:
    match function:
        case "count":
            return Type.BIGINT
        case "sum":
            return Type.BIGINT if argument.type.is_integer else Type.DOUBLE
        case "min" | "max" | "first" | "last" | "arg_max" | "arg_min":
            return argument.type
    return Type.DOUBLE

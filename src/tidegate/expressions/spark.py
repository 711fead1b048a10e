"""Predicates as Spark SQL text, for sources that Spark reads.

This covers only expressions that never fail and mean exactly the same in Spark (ANSI mode) as in `evaluate`. Left out
on purpose: arithmetic on integers (it can overflow), UPPER and LOWER (Spark maps ß to SS), parts of timestamps (Spark
uses the time zone of its session), arrays and maps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import assert_never

import numpy as np

from tidegate.expressions.functions.like_patterns import ANY, ONE, tokens
from tidegate.expressions.functions.resolve import can_fail
from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, InList, Literal, Value
from tidegate.schema import Type

_TYPES = {
    Type.BOOLEAN: "BOOLEAN",
    Type.INT: "INT",
    Type.BIGINT: "BIGINT",
    Type.REAL: "FLOAT",
    Type.DOUBLE: "DOUBLE",
    Type.STRING: "STRING",
    Type.TIMESTAMP: "TIMESTAMP",
    Type.INTERVAL: "INTERVAL DAY TO SECOND",
}
_INFIX = frozenset({"=", "<>", "<", "<=", ">", ">=", "and", "or"})
_FLOATING_INFIX = frozenset({"+", "-", "*"})
_TESTS = {"not": "NOT {}", "is_null": "{} IS NULL", "is_true": "{} IS TRUE", "is_false": "{} IS FALSE"}
_FUNCTIONS = {
    "coalesce": "coalesce",
    "nullif": "nullif",
    "greatest": "greatest",
    "least": "least",
    "length": "length",
    "starts_with": "startswith",
    "ends_with": "endswith",
    "contains": "contains",
}


def spark_sql(predicate: Expression) -> str | None:
    """Return Spark SQL text that means exactly the same and never fails; None if there is none.

    Examples
    --------
    >>> spark_sql(Call("=", (Column("o.item", Type.BIGINT), Literal(7, Type.BIGINT)), Type.BOOLEAN))
    '(`o.item` = 7L)'
    """
    return None if can_fail(predicate) else _spark_text(predicate)


def _spark_text(expression: Expression) -> str | None:
    match expression:
        case Literal(value=value, type=type_):
            return _literal(value, type_)
        case Column(name=name, type=type_):
            return _column(name, type_)
        case Call():
            return _call(expression)
        case Cast(argument=argument, type=type_):
            return (
                _fill_template("CAST({} AS " + _TYPES[type_] + ")", (argument,)) if _only_widens(expression) else None
            )
        case InList(argument=argument, options=options):
            return _in(argument, options)
        case Case(branches=branches, otherwise=otherwise):
            parts = [part for branch in branches for part in branch]
            return _fill_template("CASE" + " WHEN {} THEN {}" * len(branches) + " ELSE {} END", (*parts, otherwise))
    assert_never(expression)


def _column(name: str, type_: Type) -> str | None:
    quoted = "`" + name.replace("`", "``") + "`"
    if type_.is_floating:
        # Adding zero prevents a comparison with the statistics of a Parquet file, which omit NaN and distinguish the
        # two zeros: Spark would skip rows for which the predicate is true.
        return f"({quoted} + {_floating(0.0, type_)})"
    return quoted if type_ in _TYPES else None


def _only_widens(cast: Cast) -> bool:
    return cast.argument.type.is_numeric and cast.type in (Type.BIGINT, Type.DOUBLE)


def _fill_template(template: str, parts: Sequence[Expression]) -> str | None:
    texts = [_spark_text(part) for part in parts]
    known = [text for text in texts if text is not None]
    return template.format(*known) if len(known) == len(texts) else None


def _call(call: Call) -> str | None:
    match call.function, call.arguments:
        case name, (_, _) if name in _INFIX or (name in _FLOATING_INFIX and call.type.is_floating):
            return _fill_template(f"({{}} {name.upper()} {{}})", call.arguments)
        case name, (_,) if name in _TESTS:
            return _fill_template(f"({_TESTS[name]})", call.arguments)
        case "like", (text, Literal(value=str(pattern)), *rest):
            return _like(text, pattern, rest)
        case name, arguments if name in _FUNCTIONS:
            return _fill_template(f"{_FUNCTIONS[name]}({', '.join(['{}'] * len(arguments))})", arguments)
    return None


def _like(text: Expression, pattern: str, rest: Sequence[Expression]) -> str | None:
    match rest:
        case []:
            parts = tokens(pattern)
        case [Literal(value=str(escape))]:
            parts = tokens(pattern, escape)
        case _:
            return None
    # The pattern is rewritten, because Spark requires an escape of one character.
    again = "".join(c if wild or c not in (ANY, ONE, "\\") else "\\" + c for c, wild in parts)
    shown = _spark_text(text)
    return None if shown is None else f"({shown} LIKE {_string(again)} ESCAPE {_string(chr(92))})"


def _in(argument: Expression, options: Sequence[Literal]) -> str | None:
    if argument.type.is_floating:
        # Not IN: for many options Spark uses a set, which distinguishes 0.0 from -0.0.
        return _fill_template(
            "(" + " OR ".join(["{} = {}"] * len(options)) + ")", [p for o in options for p in (argument, o)]
        )
    return _fill_template("({} IN (" + ", ".join(["{}"] * len(options)) + "))", (argument, *options))


def _literal(value: Value, type_: Type) -> str | None:
    match value, type_:
        case None, _ if type_ not in _TYPES:
            return None
        case None, _:
            return f"CAST(NULL AS {_TYPES[type_]})"
        case bool(), Type.BOOLEAN:
            return "TRUE" if value else "FALSE"
        case int(), Type.INT:
            return f"CAST({value} AS INT)" if value < 0 else str(value)
        case int(), Type.BIGINT:
            return f"CAST('{value}' AS BIGINT)" if value < 0 else f"{value}L"
        case ((int() | float()), (Type.REAL | Type.DOUBLE)):
            return _floating(float(value), type_)
        case str(), Type.STRING:
            return _string(value)
        case datetime(), Type.TIMESTAMP:
            return f"TIMESTAMP '{value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=' ')}Z'"
        case timedelta(), Type.INTERVAL:
            return _interval(value)
    return None


def _floating(value: float, type_: Type) -> str:
    shown = repr(float(value)) if type_ is Type.DOUBLE else str(np.float32(value))
    if math.isfinite(float(shown)) and not shown.startswith("-"):
        return shown + ("D" if type_ is Type.DOUBLE else "F")
    return f"CAST('{shown}' AS {_TYPES[type_]})"


def _string(text: str) -> str:
    # Spark would read a `${…}` in a text as a variable of the session.
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
    return f"'{escaped}'"


def _interval(value: timedelta) -> str:
    size = abs(value)
    hours, seconds = divmod(size.seconds, 3600)
    clock = f"{hours:02}:{seconds // 60:02}:{seconds % 60:02}.{size.microseconds:06}"
    sign = "-" if value < timedelta(0) else ""
    return f"INTERVAL '{sign}{size.days} {clock}' DAY TO SECOND"

"""Expressions as DuckDB SQL that never raises: a value, and whether the row fails.

`value` of a failed expression is anything; `fails` is never NULL. A strict function fails if an
argument does, or if it has no value although no argument is NULL.
"""

from __future__ import annotations

import math

from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, InList, Literal
from tidegate.schema import Type

TYPES = {
    Type.BOOLEAN: "BOOLEAN",
    Type.INT: "INTEGER",
    Type.BIGINT: "BIGINT",
    Type.REAL: "FLOAT",
    Type.DOUBLE: "DOUBLE",
    Type.STRING: "VARCHAR",
}

PREFIX = ("upper", "lower", "length", "abs")
INFIX = ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "||")


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def value(expression: Expression) -> str:
    """SQL of the value; NULL stands for failure where nothing better can."""
    match expression:
        case Literal():
            return _literal(expression)
        case Column(name=name):
            return quote(name)
        case Cast(argument=argument, type=type_):
            return f"TRY_CAST({value(argument)} AS {TYPES[type_]})"
        case InList(argument=argument, options=options):
            return f"({value(argument)} IN ({', '.join(_literal(o) for o in options)}))"
        case Case(branches=branches, otherwise=otherwise):
            whens = " ".join(f"WHEN {value(c)} THEN {value(v)}" for c, v in branches)
            return f"(CASE {whens} ELSE {value(otherwise)} END)"
        case Call():
            return _call(expression)


def fails(expression: Expression) -> str:
    """SQL that is true where the expression fails, else false."""
    match expression:
        case Literal() | Column():
            return "FALSE"
        case Call(("and" | "or") as junction, (a, b)):
            return f"({_undecided(junction, a, b)} OR {_undecided(junction, b, a)})"
        case Call("coalesce", arguments):
            tests = " ".join(f"WHEN {fails(a)} THEN TRUE WHEN {value(a)} IS NOT NULL THEN FALSE" for a in arguments)
            return f"(CASE {tests} ELSE FALSE END)"
        case Case(branches=branches, otherwise=otherwise):
            tests = " ".join(f"WHEN {fails(c)} THEN TRUE WHEN {value(c)} THEN {fails(v)}" for c, v in branches)
            return f"(CASE {tests} ELSE {fails(otherwise)} END)"
        case InList(argument=argument):
            return fails(argument)
        case Cast(argument=argument):
            return _strict(expression, (argument,))
        case Call(arguments=arguments):
            return _strict(expression, arguments)


def _strict(expression: Expression, arguments: tuple[Expression, ...]) -> str:
    known = " AND ".join(f"{value(a)} IS NOT NULL" for a in arguments)
    own = f"({known} AND {value(expression)} IS NULL)"
    return "(" + " OR ".join([own, *(f for f in map(fails, arguments) if f != "FALSE")]) + ")"


def _undecided(junction: str, a: Expression, b: Expression) -> str:
    """Whether `a` fails and `b` does not settle the matter."""
    decided = "FALSE" if junction == "and" else "TRUE"
    return f"({fails(a)} AND NOT (NOT {fails(b)} AND {value(b)} IS NOT DISTINCT FROM {decided}))"


def _call(call: Call) -> str:
    arguments = [value(a) for a in call.arguments]
    match call.function, arguments:
        case "and", [a, b]:
            return f"({a} AND {b})"
        case "or", [a, b]:
            return f"({a} OR {b})"
        case "not", [a]:
            return f"(NOT {a})"
        case "is_null", [a]:
            return f"({a} IS NULL)"
        case "coalesce", _:
            return f"COALESCE({', '.join(arguments)})"
        case "greatest", [a, b]:  # of own times, which are never NULL: DuckDB would leave a NULL out
            return f"GREATEST({a}, {b})"
        case "overlap", [a, b]:
            return f"len(list_intersect(list_distinct({a}), list_distinct({b})))"
        case "like", [a, pattern]:
            return f"({a} LIKE {pattern} ESCAPE '\\')"
        case name, [a] if name in PREFIX:
            return f"TRY({name}({a}))"
    return _arithmetic(call, arguments) if call.type.is_numeric else f"({call.function.join(_infix(call, arguments))})"


def _infix(call: Call, arguments: list[str]) -> list[str]:
    if call.function not in INFIX:
        raise ValueError(f"DuckDB is not asked about the function {call.function}")
    return [f" {a} " for a in arguments]


def _arithmetic(call: Call, arguments: list[str]) -> str:
    """Integers are computed wider and brought back, so that overflow gives NULL and not an error."""
    wide = "HUGEINT" if call.type.is_integer else TYPES[call.type]
    numbers = [f"CAST({a} AS {wide})" for a in arguments]
    match call.function, numbers:
        case "/", [a, b]:
            made = f"{a} / NULLIF({b}, 0)"
        case "div", [a, b]:
            made = f"{a} // NULLIF({b}, 0)"
        case "%", [a, b]:
            made = f"{a} % NULLIF({b}, 0)"
        case "negate", [a]:
            made = f"-({a})"
        case _:
            made = call.function.join(_infix(call, numbers))
    return f"TRY_CAST({made} AS {TYPES[call.type]})"


def _literal(literal: Literal) -> str:
    match literal.value:
        case None:
            return f"CAST(NULL AS {TYPES.get(literal.type, 'INTEGER')})"
        case bool():
            return str(literal.value).upper()
        case str():
            return "'" + literal.value.replace("'", "''") + "'"
        case float() if not math.isfinite(literal.value):
            return f"CAST('{literal.value}' AS DOUBLE)"
        case int() | float():
            return f"CAST({literal.value!r} AS {TYPES[literal.type]})"
    raise ValueError(f"DuckDB is not asked about the literal {literal.value!r}")

"""Expressions as readable SQL."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import assert_never

from tidegate.errors import QueryError
from tidegate.expressions.coercion import cast_can_fail
from tidegate.expressions.functions.resolve import resolve, user_call
from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, InList, Literal, Value
from tidegate.expressions.parse.times import interval_parts
from tidegate.schema import Type


class Strength(IntEnum):
    """The binding strength of operators, the loosest first."""

    OR = 1
    AND = 2
    NOT = 3
    COMPARISON = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7
    ATOM = 8


TextWithStrength = tuple[str, Strength]

_INFIX = {
    "or": Strength.OR,
    "and": Strength.AND,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "like", "subset of", "superset of"), Strength.COMPARISON),
    **dict.fromkeys(("+", "-", "||"), Strength.SUM),
    **dict.fromkeys(("*", "/", "%", "div"), Strength.PRODUCT),
}
_ASSOCIATIVE = frozenset({"or", "and", "||"})
_TESTS = {"is_null": "NULL", "is_true": "TRUE", "is_false": "FALSE"}
_PLAIN_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def to_sql(expression: Expression) -> str:
    """Return the expression as SQL, with no more parentheses than needed.

    Examples
    --------
    >>> a, b = Column("a", Type.INT), Column("b", Type.INT)
    >>> to_sql(Call("*", (Call("+", (a, b), Type.INT), Literal(2, Type.INT)), Type.INT))
    '(a + b) * 2'
    """
    return _write(expression)[0]


def to_operand(expression: Expression) -> str:
    """Return the expression as SQL, in parentheses unless it can occur anywhere without."""
    return _operand_text(expression, Strength.ATOM)


def _write(expression: Expression) -> TextWithStrength:
    match expression:
        case Literal(value=value, type=type_):
            return _literal(value, type_)
        case Column(name=name):
            return _quote_name(name), Strength.ATOM
        case Call():
            return _call(_without_implicit_casts(expression))
        case Cast(argument=argument, type=type_):
            return f"CAST({to_sql(argument)} AS {type_.name})", Strength.ATOM
        case Case():
            return _case(expression), Strength.ATOM
        case InList():
            return _in(expression, "IN"), Strength.COMPARISON
    assert_never(expression)


def _without_implicit_casts(call: Call) -> Call:
    """Remove the casts that binding would insert again."""
    arguments = call.arguments
    for i in reversed(range(len(arguments))):
        fewer = (*arguments[:i], _without_widening(arguments[i]), *arguments[i + 1 :])
        arguments = fewer if _is_same_call(fewer, call) else arguments
    return replace(call, arguments=arguments)


def _is_same_call(arguments: Sequence[Expression], call: Call) -> bool:
    """Return whether the call with these arguments, once written and read again, is the same call."""
    read = tuple(_as_parsed(a) for a in arguments)
    try:
        return (user_call(call.user, read, call.span) if call.user else resolve(call.function, read, call.span)) == call
    except QueryError:
        return False


def _as_parsed(argument: Expression) -> Expression:
    match argument:
        case Literal(value=None):
            return replace(argument, type=Type.NULL)
        case Literal(value=int() as number, type=Type.BIGINT) if -(2**31) <= number < 2**31:
            return replace(argument, type=Type.INT)
    return argument


def _without_widening(argument: Expression) -> Expression:
    match argument:
        case Cast(argument=inner, type=type_) if not cast_can_fail(inner.type, type_):
            return inner
    return argument


def _call(call: Call) -> TextWithStrength:
    match call.function, call.arguments:
        case "not", (argument,):
            return _not(argument)
        case "negate", (argument,):
            shown = _operand_text(argument, Strength.SIGN)
            return f"-({shown})" if shown.startswith("-") else f"-{shown}", Strength.SIGN  # `--` begins a comment
        case ("is_null" | "is_true" | "is_false") as test, (argument,):
            return f"{_operand_text(argument, Strength.COMPARISON)} IS {_TESTS[test]}", Strength.COMPARISON
        case ("array" | "map") as word, arguments:
            return f"{word.upper()}[{', '.join(to_sql(a) for a in arguments)}]", Strength.ATOM
        case "element", (collection, place):
            return f"{_operand_text(collection, Strength.ATOM)}[{to_sql(place)}]", Strength.ATOM
        case "like", arguments:
            return _like(arguments, "LIKE"), Strength.COMPARISON
        case function, (left, right) if function in _INFIX:
            return _infix(function, left, right)
        case function, arguments:
            return f"{function}({', '.join(to_sql(a) for a in arguments)})", Strength.ATOM


def _infix(function: str, left: Expression, right: Expression) -> TextWithStrength:
    strength = _INFIX[function]
    # Operators group from left to right: a right operand that binds no tighter needs parentheses.
    tighter = strength if function in _ASSOCIATIVE and _is_call(right, function) else Strength(strength + 1)
    return f"{_operand_text(left, strength)} {function.upper()} {_operand_text(right, tighter)}", strength


def _is_call(expression: Expression, function: str) -> bool:
    return isinstance(expression, Call) and expression.function == function


def _not(argument: Expression) -> TextWithStrength:
    match argument:
        case Call(function=function, arguments=(inner,)) if function in _TESTS:
            return f"{_operand_text(inner, Strength.COMPARISON)} IS NOT {_TESTS[function]}", Strength.COMPARISON
        case Call(function="like", arguments=arguments):
            return _like(arguments, "NOT LIKE"), Strength.COMPARISON
        case InList():
            return _in(argument, "NOT IN"), Strength.COMPARISON
    return f"NOT {_operand_text(argument, Strength.NOT)}", Strength.NOT


def _like(arguments: Sequence[Expression], word: str) -> str:
    text, pattern, *escape = arguments
    shown = f"{_operand_text(text, Strength.COMPARISON)} {word} {to_sql(pattern)}"
    return f"{shown} ESCAPE {to_sql(escape[0])}" if escape else shown


def _in(expression: InList, word: str) -> str:
    options = ", ".join(to_sql(o) for o in expression.options)
    return f"{_operand_text(expression.argument, Strength.COMPARISON)} {word} ({options})"


def _case(case: Case) -> str:
    branches = " ".join(f"WHEN {to_sql(c)} THEN {to_sql(v)}" for c, v in case.branches)
    match case.otherwise:
        case Literal(value=None):
            return f"CASE {branches} END"
    return f"CASE {branches} ELSE {to_sql(case.otherwise)} END"


def _operand_text(expression: Expression, strength: Strength) -> str:
    shown, own = _write(expression)
    return shown if own >= strength else f"({shown})"


def _quote_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _literal(value: Value, type_: Type) -> TextWithStrength:
    match value:
        case None:
            return "NULL", Strength.ATOM
        case bool():
            return ("TRUE" if value else "FALSE"), Strength.ATOM
        case float() if not math.isfinite(value):
            return f"CAST('{value}' AS {type_.name})", Strength.ATOM
        case int() | float():
            return str(value), Strength.ATOM if math.copysign(1, value) > 0 else Strength.SIGN
        case str():
            return "'" + value.replace("'", "''") + "'", Strength.ATOM
        case datetime():
            return f"TIMESTAMP '{value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=' ')}Z'", Strength.ATOM
        case timedelta():
            return _interval(value // timedelta(microseconds=1))


def _interval(micros: int) -> TextWithStrength:
    amount, unit = interval_parts(abs(micros))
    shown = f"INTERVAL {amount} {unit.upper()}" + ("" if amount == 1 else "S")
    return (shown, Strength.ATOM) if micros >= 0 else (f"-{shown}", Strength.SIGN)

"""Resolution of functions and operators by name: choose the overload, and insert the casts that it needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tidegate.errors import QueryError, Span, suggest_name
from tidegate.expressions.coercion import cast, cast_can_fail, coerce, common_type, conversion_distance, unify
from tidegate.expressions.functions.aggregates import AGGREGATES
from tidegate.expressions.functions.like_patterns import DEFAULT_ESCAPE, find_misuse
from tidegate.expressions.functions.signatures import ALIASES, FUNCTIONS, NOT_NAMES, Function, Signature
from tidegate.expressions.functions.time_functions import PARTS, TRUNCATIONS
from tidegate.expressions.functions.user_registry import find_function, user_names
from tidegate.expressions.nodes import Call, Case, Cast, Expression, Literal, walk
from tidegate.expressions.user_calls import UserFunction
from tidegate.schema import Type

__all__ = ["can_fail", "cast", "coerce", "common_type", "function_names", "resolve", "unify"]

Arguments = tuple[Expression, ...]


def resolve(name: str, arguments: Sequence[Expression], span: Span) -> Expression:
    """Apply a function or operator: choose the overload and insert the casts that it needs.

    Examples
    --------
    >>> from tidegate.expressions.nodes import Column
    >>> resolve("+", (Column("a", Type.INT), Column("b", Type.BIGINT)), Span(0, 5)).type.name
    'BIGINT'
    """
    if (user := find_function(name)) is not None:
        return user_call(user, tuple(arguments), span)
    function = FUNCTIONS.get(ALIASES.get(name.lower(), name.lower()))
    if function is None:
        raise QueryError("Q120", f"unknown function '{name}'", span, hint=_suggest_name(name))
    given = tuple(arguments)
    if special := _SPECIAL.get(function.name):
        return special(function, given, span)
    signature = _nearest_overload(function, given)
    if signature is None:
        raise _mismatch_error(function, given, span)
    return _call(function.name, given, signature, span)


def user_call(user: UserFunction, arguments: Arguments, span: Span) -> Expression:
    """Apply a user-defined function."""
    signature = Signature(user.parameters, user.result)
    if _signature_distance(signature, arguments) is None:
        given = ", ".join(a.type.name for a in arguments)
        raise QueryError("Q121", f"{user.name} does not take ({given})", span, hint=f"it takes {signature}")
    return replace(_call(user.name, arguments, signature, span), user=user)


def function_names() -> list[str]:
    """Return the names that can be called, without operators and aggregates."""
    return sorted((FUNCTIONS.keys() | ALIASES.keys() | set(user_names())) - NOT_NAMES - {"!="})


def can_fail(expression: Expression) -> bool:
    """Return whether the expression could make a row a dead letter; True in case of doubt."""
    return any(_may_fail_itself(e) for e in walk(expression))


def _may_fail_itself(expression: Expression) -> bool:
    match expression:
        case Cast(argument=argument, type=type_):
            return cast_can_fail(argument.type, type_)
        case Call(user=UserFunction()):
            return True
        case Call(function=name, arguments=arguments):
            types = tuple(a.type for a in arguments)
            return any(s.fails for s in FUNCTIONS[name].signatures if s.parameters == types) or name == "date_trunc"
    return False


def _nearest_overload(function: Function, arguments: Arguments) -> Signature | None:
    """Return the nearest signature; the first of equally near ones."""
    best: tuple[int, Signature] | None = None
    for signature in function.signatures:
        far = _signature_distance(signature, arguments)
        if far is not None and (best is None or far < best[0]):
            best = far, signature
    return None if best is None else best[1]


def _signature_distance(signature: Signature, arguments: Arguments) -> int | None:
    if len(signature.parameters) != len(arguments):
        return None
    total = 0
    for parameter, argument in zip(signature.parameters, arguments, strict=True):
        far = conversion_distance(argument, parameter)
        if far is None:
            return None
        total += far
    return total


def _call(name: str, arguments: Arguments, signature: Signature, span: Span) -> Call:
    pairs = zip(arguments, signature.parameters, strict=True)
    return Call(name, tuple(coerce(a, p, span) for a, p in pairs), signature.result, span)


def _suggest_name(name: str) -> str | None:
    return suggest_name(name, [*function_names(), *AGGREGATES])


def _mismatch_error(function: Function, arguments: Arguments, span: Span) -> QueryError:
    given = ", ".join(a.type.name for a in arguments)
    hint = f"it takes {function.usage()}"
    return QueryError("Q121", f"{_display_name(function)} does not take ({given})", span, hint=hint)


def _display_name(function: Function) -> str:
    words = {"negate": "-", "is_null": "IS NULL", "is_true": "IS TRUE", "is_false": "IS FALSE", "element": "[]"}
    if function.name not in NOT_NAMES:
        return function.name
    return f"'{words.get(function.name, function.name.upper())}'"


# ---- functions that accept arguments of many types


def _unify_or_refuse(function: Function, arguments: Arguments, span: Span) -> Arguments:
    same = unify(arguments, span)
    if same is None:
        raise _mismatch_error(function, arguments, span)
    return same


def _compare(function: Function, arguments: Arguments, span: Span) -> Expression:
    if len(arguments) != 2:
        raise _mismatch_error(function, arguments, span)
    same = _unify_or_refuse(function, arguments, span)
    if function.name not in ("=", "<>"):
        _refuse_unordered(function, same[0].type, span)
    if same[0].type is Type.NULL:  # unknown, whatever the type
        same = tuple(coerce(a, Type.BOOLEAN, span) for a in same)
    return Call(function.name, same, Type.BOOLEAN, span)


def _refuse_unordered(function: Function, type_: Type, span: Span) -> None:
    if not type_.is_ordered:
        hint = "arrays and maps have no order; compare them with = or <>"
        raise QueryError("Q121", f"{_display_name(function)} does not take {type_.name}", span, hint=hint)


def _choose(function: Function, arguments: Arguments, span: Span) -> Expression:
    if not arguments or (function.name == "nullif" and len(arguments) != 2):
        raise _mismatch_error(function, arguments, span)
    same = _unify_or_refuse(function, arguments, span)
    if function.name in ("greatest", "least"):
        _refuse_unordered(function, same[0].type, span)
    if len(same) == 1 or same[0].type is Type.NULL:
        return same[0]
    return Call(function.name, same, same[0].type, span)


def _if(function: Function, arguments: Arguments, span: Span) -> Expression:
    if len(arguments) != 3 or conversion_distance(arguments[0], Type.BOOLEAN) is None:
        raise _mismatch_error(function, arguments, span)
    values = unify(arguments[1:], span)
    if values is None:
        raise _mismatch_error(function, arguments, span)
    condition = coerce(arguments[0], Type.BOOLEAN, span)
    return Case(((condition, values[0]),), values[1], values[0].type, span)


def _is_null(function: Function, arguments: Arguments, span: Span) -> Expression:
    if len(arguments) != 1:
        raise _mismatch_error(function, arguments, span)
    return Call(function.name, arguments, Type.BOOLEAN, span)


def _concat(function: Function, arguments: Arguments, span: Span) -> Expression:
    if len(arguments) < (2 if function.name == "||" else 1):
        raise _mismatch_error(function, arguments, span)
    return Call(function.name, tuple(cast(a, Type.STRING, a.span) for a in arguments), Type.STRING, span)


def _like(function: Function, arguments: Arguments, span: Span) -> Expression:
    constants = [a.value for a in arguments[1:] if isinstance(a, Literal)]
    fits = len(constants) == len(arguments) - 1 and all(conversion_distance(a, Type.STRING) == 0 for a in arguments)
    if len(arguments) not in (2, 3) or not fits:
        raise _mismatch_error(function, arguments, span)
    pattern, escape, *_ = (*constants, DEFAULT_ESCAPE)
    if isinstance(pattern, str) and isinstance(escape, str) and (wrong := find_misuse(pattern, escape)):
        raise QueryError("Q121", wrong, span)
    return Call("like", tuple(coerce(a, Type.STRING, span) for a in arguments), Type.BOOLEAN, span)


def _array(function: Function, arguments: Arguments, span: Span) -> Expression:
    same = _unify_or_refuse(function, arguments, span) if arguments else ()
    if not same or same[0].type is Type.NULL:
        hint = "write for example CAST('[]' AS ARRAY<INT>)" if not same else "CAST one of them"
        raise QueryError("Q121", "the type of this array's elements is unknown", span, hint=hint)
    type_ = Type.of_parts(same[0].type)
    if type_ is None:
        raise QueryError("Q121", f"an array cannot hold {same[0].type.name}", span, hint="arrays hold plain values")
    return Call(function.name, same, type_, span)


def _pi(function: Function, arguments: Arguments, span: Span) -> Expression:
    if arguments:
        raise _mismatch_error(function, arguments, span)
    return Literal(math.pi, Type.DOUBLE, span)


def _position(function: Function, arguments: Arguments, span: Span) -> Expression:
    if _nearest_overload(function, arguments) is None:
        raise _mismatch_error(function, arguments, span)
    return resolve("strpos", (arguments[1], arguments[0]), span)


def _date_part(function: Function, arguments: Arguments, span: Span) -> Expression:
    match arguments:
        case (Literal(value=str(part)), time):
            if part.lower() == "epoch":
                return resolve("epoch_seconds", (time,), span)
            return resolve(_check_word(part, PARTS, "part of a time", span), (time,), span)
    raise _mismatch_error(function, arguments, span)


def _date_trunc(function: Function, arguments: Arguments, span: Span) -> Expression:
    match arguments:
        case (Literal(value=str(unit)) as written, time) if conversion_distance(time, Type.TIMESTAMP) is not None:
            known = Literal(_check_word(unit, TRUNCATIONS, "unit of time", span), Type.STRING, written.span)
            return Call("date_trunc", (known, coerce(time, Type.TIMESTAMP, span)), Type.TIMESTAMP, span)
    raise _mismatch_error(function, arguments, span)


def _check_word(word: str, words: Mapping[str, object], what: str, span: Span) -> str:
    if word.lower() not in words:
        raise QueryError("Q121", f"'{word}' is not a {what}", span, hint=suggest_name(word, words))
    return word.lower()


_SPECIAL: dict[str, Callable[[Function, Arguments, Span], Expression]] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _compare),
    **dict.fromkeys(("coalesce", "greatest", "least", "nullif"), _choose),
    **dict.fromkeys(("||", "concat"), _concat),
    "if": _if,
    "array": _array,
    "is_null": _is_null,
    "like": _like,
    "pi": _pi,
    "position": _position,
    "date_part": _date_part,
    "date_trunc": _date_trunc,
}

"""UTILITY BY: the utility of results, by the rows that they consist of."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tidegate.algebra.similarity_join import Utility
from tidegate.errors import QueryError
from tidegate.expressions.coercion import coerce, conversion_distance, unify
from tidegate.expressions.nodes import Expression, Literal
from tidegate.language import syntax
from tidegate.language.bind.names import Scope, source_positions
from tidegate.language.bind.query.expressions import ExpressionContext, bind_expression, literal, without_aggregates
from tidegate.language.syntax import UtilityClause, Worth
from tidegate.schema import Type

_Key = int | float | str | bool

_EXAMPLE = "WORTH ('gold' = 10, ELSE = 1)"


def bind_utility(clause: UtilityClause, scope: Scope) -> Utility:
    """Return the utility of results, over the columns of FROM."""
    context = without_aggregates(scope, "UTILITY BY", hint="a utility depends on one row: use its columns")
    types = tuple(_bind_type(each, context) for each in clause.types)
    _refuse_repeated(types, scope)
    if not clause.worth:
        for each in types:
            _refuse_non_number(each)
        return Utility(types, average=clause.average)
    types = _unify_types(types)
    values, otherwise = _utility_values(clause.worth, types[0].type)
    return Utility(types, values, otherwise, clause.average)


# ---- types of rows


def _bind_type(node: syntax.Expression, context: ExpressionContext) -> Expression:
    expression = bind_expression(node, context)
    match [context.scope[i].alias for i in source_positions(expression, context.scope)]:
        case [_]:
            return expression
        case []:
            message, hint = "this UTILITY BY reads no source", "use a column of FROM"
        case [first, second, *_]:
            message = f"a utility depends on one row, but this reads '{first}' and '{second}'"
            hint = f"write an expression for each of them: UTILITY BY {first}.x, {second}.y"
    raise QueryError("Q127", message, node.span, hint=hint)


def _refuse_repeated(types: Sequence[Expression], scope: Scope) -> None:
    seen: set[int] = set()
    for each in types:
        [which] = source_positions(each, scope)
        if which in seen:
            hint = "combine them in one expression, or write one for another source of FROM"
            raise QueryError("Q127", f"UTILITY BY has two expressions for '{scope[which].alias}'", each.span, hint=hint)
        seen.add(which)


def _refuse_non_number(type_: Expression) -> None:
    if not type_.type.is_numeric:
        message = f"without WORTH a utility is a number, but this is {type_.type.name}"
        raise QueryError("Q127", message, type_.span, hint=f"give the worth of its values: {_EXAMPLE}")


def _unify_types(types: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Cast the types of rows to one type, which the constants of WORTH must have."""
    span = types[0].span.to(types[-1].span)
    alike = unify(types, span)
    if alike is None:
        kinds = ", ".join(dict.fromkeys(each.type.name for each in types))
        hint = f"they are {kinds}; CAST them to one type"
        raise QueryError("Q127", "the values of WORTH must have one type", span, hint=hint)
    found = alike[0].type
    if found is Type.REAL:  # as in comparisons, constants are DOUBLE
        return tuple(coerce(each, Type.DOUBLE, span) for each in alike)
    if not (found.is_numeric or found in (Type.STRING, Type.BOOLEAN)):
        hint = "WORTH takes texts, numbers and truth values: compute one, for example hour(…) of a time"
        raise QueryError("Q127", f"WORTH takes no values of type {found.name}", span, hint=hint)
    return alike


# ---- WORTH


def _utility_values(worth: Sequence[Worth], type_: Type) -> tuple[tuple[tuple[_Key, float], ...], float]:
    """Return the utility of each value, and that of all others."""
    known: dict[_Key, float] = {}
    otherwise: float | None = None
    for each in worth:
        utility = _utility_number(each.utility)
        if each.value is None:
            if otherwise is not None:
                raise QueryError("Q105", "ELSE is given twice", each.span, hint="remove one of them")
            otherwise = utility
            continue
        key = _constant_key(each.value, type_)
        if key in known:
            raise QueryError("Q105", "this value is given twice", each.value.span, hint="remove one of them")
        known[key] = utility
    if not known:
        hint = f"give the worth of values, for example {_EXAMPLE}"
        raise QueryError("Q127", "this WORTH names no value", worth[0].span, hint=hint)
    return tuple(known.items()), otherwise or 0.0


def _constant_key(value: syntax.Constant, type_: Type) -> _Key:
    constant = literal(value)
    if conversion_distance(constant, type_) is not None:
        match coerce(constant, type_, value.span):
            case Literal(value=bool() | int() | float() | str() as key):
                return key
    message = f"this is {constant.type.name}, but UTILITY BY is {type_.name}"
    hint = f"write a constant of type {type_.name}, or CAST the expression of UTILITY BY"
    raise QueryError("Q127", message, value.span, hint=hint)


def _utility_number(utility: syntax.Constant) -> float:
    match utility.value:
        case int() | float() as number if 0 <= number <= sys.float_info.max:
            return float(number)
    raise QueryError(
        "Q127", "a utility is a number of 0 or more", utility.span, hint="write 0 for results without value"
    )

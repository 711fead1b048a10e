"""Expressions, one row at a time: SQL's three values, and failure as an outcome of its own.

A function of a failed argument fails. Failure is lazy where evaluation is: AND forgets a failed
side beside FALSE, OR beside TRUE, and CASE, COALESCE and IF look only at what they need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from reference.functions import apply, cast
from reference.values import Failed, canonical, is_equal
from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, InList, Literal
from tidegate.schema import Type


def evaluate(expression: Expression, row: Mapping[str, object]) -> object:
    """The canonical value, None for NULL, or a `Failed`."""
    match expression:
        case Literal(value=value):
            return canonical(value)
        case Column(name=name):
            return row[name]
        case Call("and", arguments):
            return junction([evaluate(a, row) for a in arguments], deciding=False)
        case Call("or", arguments):
            return junction([evaluate(a, row) for a in arguments], deciding=True)
        case Call("coalesce", arguments):
            return _first_known(evaluate(a, row) for a in arguments)
        case Call("if", (condition, then, otherwise)):
            return _case(((condition, then),), otherwise, row)
        case Case(branches=branches, otherwise=otherwise):
            return _case(branches, otherwise, row)
        case Cast(argument=argument, type=type_):
            given = evaluate(argument, row)
            return given if given is None or isinstance(given, Failed) else cast(given, type_)
        case InList(argument=argument, options=options):
            return _is_in(evaluate(argument, row), [canonical(o.value) for o in options])
        case Call(function=function, arguments=arguments, type=type_):
            return _strict(function, [evaluate(a, row) for a in arguments], type_)
    raise AssertionError(expression)


def _strict(function: str, values: list[object], type_: Type) -> object:
    failed = together(values)
    return failed if failed is not None else apply(function, values, type_)


def together(values: list[object]) -> Failed | None:
    """All failures among the values as one, or None."""
    failed = [v.kinds for v in values if isinstance(v, Failed)]
    return Failed(frozenset().union(*failed)) if failed else None


def key_terms(predicate: Expression, left: frozenset[str]) -> tuple[list[Expression], list[Expression]]:
    """The terms of a join's conjunction: equalities between the sides, and the others."""
    terms = _terms(predicate)
    keys = [t for t in terms if _is_between(t, left)]
    return keys, [t for t in terms if t not in keys]


def _terms(predicate: Expression) -> list[Expression]:
    match predicate:
        case Call("and", arguments):
            return [term for a in arguments for term in _terms(a)]
    return [predicate]


def _is_between(term: Expression, left: frozenset[str]) -> bool:
    match term:
        case Call("=", (a, b)):
            sides = [{name in left for name in _names(side)} for side in (a, b)]
            return sides in ([{True}, {False}], [{False}, {True}])
    return False


def _names(expression: Expression) -> Iterable[str]:
    match expression:
        case Column(name=name):
            return [name]
        case Call(arguments=arguments):
            return [name for a in arguments for name in _names(a)]
        case Cast(argument=argument) | InList(argument=argument):
            return _names(argument)
        case Case(branches=branches, otherwise=otherwise):
            return [name for part in (*(p for b in branches for p in b), otherwise) for name in _names(part)]
    return []


def junction(values: list[object], *, deciding: bool) -> object:
    """AND decides at FALSE, OR at TRUE, whatever else is unknown or failed."""
    if any(v is deciding for v in values):
        return deciding
    failed = together(values)
    if failed is not None:
        return failed
    return None if None in values else not deciding


def _first_known(values: Iterator[object]) -> object:
    return next((v for v in values if v is not None), None)


def _case(
    branches: tuple[tuple[Expression, Expression], ...], otherwise: Expression, row: Mapping[str, object]
) -> object:
    for condition, value in branches:
        decision = evaluate(condition, row)
        if isinstance(decision, Failed):
            return decision
        if decision is True:
            return evaluate(value, row)
    return evaluate(otherwise, row)


def _is_in(value: object, options: list[object]) -> object:
    if value is None or isinstance(value, Failed):
        return value
    if any(o is not None and is_equal(value, o) for o in options):
        return True
    return None if None in options else False

"""Written conditions taken apart: terms of a conjunction, negations pushed inwards to the queries in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

from tidegate.language import syntax
from tidegate.language.syntax import Exists, Expression, InQuery, Operation, Quantified, QueryExpression, QueryValue

INVERSE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""Comparisons, and those that are true where they are false."""

_STRICT = frozenset({*INVERSE, "+", "-", "*", "/", "%", "div", "negate", "||", "like"})
"""Operators that are unknown if an argument is."""


def queries_in(node: object) -> Iterator[QueryExpression]:
    """The queries in an expression, but not those inside of them."""
    match node:
        case QueryValue() | Exists():
            yield node
        case InQuery(argument=argument) | Quantified(argument=argument):
            yield node
            yield from queries_in(argument)
        case tuple():
            for part in node:
                yield from queries_in(part)
        case _ if is_dataclass(node):
            for each in fields(node):
                yield from queries_in(getattr(node, each.name))


def has_query(node: Expression) -> bool:
    return next(queries_in(node), None) is not None


def terms(condition: Expression) -> Iterator[Expression]:
    """What must all be true for the condition to be true; terms that have queries begin with no NOT."""
    match condition:
        case Operation("and", arguments):
            for argument in arguments:
                yield from terms(argument)
        case Operation("not", (argument,)) if has_query(argument):
            inward = negated(argument)
            yield from (inward,) if inward == condition else terms(inward)
        case _:
            yield condition


def negated(node: Expression) -> Expression:
    """The opposite of a condition, with NOT as far inside as it goes."""
    match node:
        case Operation("not", (argument,)):
            return argument
        case Operation("and" | "or" as operator, arguments) if has_query(node):
            other = "or" if operator == "and" else "and"
            return replace(node, operator=other, arguments=tuple(negated(a) for a in arguments))
        case Operation(operator=operator) if operator in INVERSE:
            return replace(node, operator=INVERSE[operator])
        case Exists() | InQuery():
            return replace(node, negated=not node.negated)
        case Quantified(operator=operator, every=every):
            return replace(node, operator=INVERSE[operator], every=not every)
    return Operation("not", (node,), node.span)


def only_value(term: Expression) -> QueryValue | None:
    """The query in a term that is unknown whenever that query has no row; None if it is not that simple."""
    match term:
        case Operation(operator=operator) if operator in INVERSE or operator == "like":
            found = list(queries_in(term))
            if len(found) == 1 and isinstance(found[0], QueryValue) and _is_strict(term):
                return found[0]
    return None


def _is_strict(node: Expression) -> bool:
    match node:
        case Operation(operator=operator, arguments=arguments) if operator in _STRICT:
            return all(_is_strict(a) or not has_query(a) for a in arguments)
        case syntax.CastTo(argument=argument):
            return _is_strict(argument)
    return isinstance(node, QueryValue)

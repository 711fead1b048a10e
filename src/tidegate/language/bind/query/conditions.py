"""Decomposition of written conditions: terms of a conjunction, with negations pushed inwards to subqueries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

from tidegate.language import syntax
from tidegate.language.syntax import (
    Exists,
    Expression,
    InQuery,
    Operation,
    QuantifiedComparison,
    QueryExpression,
    QueryValue,
)

INVERSE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""Comparisons, and their negations."""

_STRICT = frozenset({*INVERSE, "+", "-", "*", "/", "%", "div", "negate", "||", "like"})
"""Operators that are unknown if an argument is unknown."""


def queries_in(node: object) -> Iterator[QueryExpression]:
    """Yield the queries in an expression, but not those nested in them."""
    match node:
        case QueryValue() | Exists():
            yield node
        case InQuery(argument=argument) | QuantifiedComparison(argument=argument):
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


def split_terms(condition: Expression) -> Iterator[Expression]:
    """Yield the terms that must all be true for the condition to be true; terms with queries have no leading NOT."""
    match condition:
        case Operation("and", arguments):
            for argument in arguments:
                yield from split_terms(argument)
        case Operation("not", (argument,)) if has_query(argument):
            inward = negate(argument)
            yield from (inward,) if inward == condition else split_terms(inward)
        case _:
            yield condition


def negate(node: Expression) -> Expression:
    """Return the negation of a condition, with NOT as far inside as possible."""
    match node:
        case Operation("not", (argument,)):
            return argument
        case Operation("and" | "or" as operator, arguments) if has_query(node):
            other = "or" if operator == "and" else "and"
            return replace(node, operator=other, arguments=tuple(negate(a) for a in arguments))
        case Operation(operator=operator) if operator in INVERSE:
            return replace(node, operator=INVERSE[operator])
        case Exists() | InQuery():
            return replace(node, negated=not node.negated)
        case QuantifiedComparison(operator=operator, every=every):
            return replace(node, operator=INVERSE[operator], every=not every)
    return Operation("not", (node,), node.span)


def single_query_value(term: Expression) -> QueryValue | None:
    """Return the only query in a term that is unknown whenever that query has no row; None for other terms."""
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

"""Bound, typed expressions: frozen values over the columns of one schema.

Operators are calls, too: ``a + b`` is ``Call("+", (a, b), …)``; the names are those of the table in `functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from datetime import datetime, timedelta

from tidegate.errors import NOWHERE, Span
from tidegate.expressions.user_calls import UserFunction
from tidegate.schema import Type
from tidegate.values import value

Value = bool | int | float | str | datetime | timedelta | None


@value
class Literal:
    """A constant; timestamps are aware datetimes in UTC, intervals are timedeltas."""

    value: Value
    type: Type
    span: Span = field(default=NOWHERE, compare=False)


@value
class Column:
    name: str
    type: Type
    span: Span = field(default=NOWHERE, compare=False)


@value
class Call:
    """A call of a built-in or user-defined function; arguments already have the types that it requires."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    span: Span = field(default=NOWHERE, compare=False)
    user: UserFunction | None = None


@value
class Cast:
    argument: Expression
    type: Type
    span: Span = field(default=NOWHERE, compare=False)


@value
class Case:
    """The value of the first branch whose condition is true, else `otherwise`."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    type: Type
    span: Span = field(default=NOWHERE, compare=False)


@value
class InList:
    """A test for equality with one of the constants, in SQL's three-valued logic."""

    argument: Expression
    options: tuple[Literal, ...]
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def type(self) -> Type:
        return Type.BOOLEAN


Expression = Literal | Column | Call | Cast | Case | InList

TRUE = Literal(True, Type.BOOLEAN)  # noqa: FBT003 - the value is the point


def children(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Literal() | Column():
            return ()
        case Call(arguments=arguments):
            return arguments
        case Cast(argument=argument):
            return (argument,)
        case InList(argument=argument, options=options):
            return (argument, *options)
        case Case(branches=branches, otherwise=otherwise):
            return (*(part for branch in branches for part in branch), otherwise)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and all below it, parents first."""
    # A recursive generator would hand each node up through all levels of a long chain of ANDs.
    waiting = [expression]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += reversed(children(each))


def columns_of(expression: Expression) -> frozenset[str]:
    """Return the names of the columns that the expression reads."""
    return frozenset(e.name for e in walk(expression) if isinstance(e, Column))


def transform(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Rebuild the expression bottom-up, replacing each node by the result of `change`."""
    match expression:
        case Call(arguments=arguments):
            expression = replace(expression, arguments=tuple(transform(a, change) for a in arguments))
        case Cast(argument=argument):
            expression = replace(expression, argument=transform(argument, change))
        case InList(argument=argument):
            expression = replace(expression, argument=transform(argument, change))
        case Case(branches=branches, otherwise=otherwise):
            expression = replace(
                expression,
                branches=tuple((transform(c, change), transform(v, change)) for c, v in branches),
                otherwise=transform(otherwise, change),
            )
    return change(expression)


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """Return the terms of a conjunction, flattened; none for the constant TRUE."""
    match expression:
        case Call("and", (left, right)):
            return conjuncts(left) + conjuncts(right)
        case Literal(value=True):
            return ()
    return (expression,)


def conjunction(terms: tuple[Expression, ...]) -> Expression:
    """Return the AND of all terms; TRUE if there are none."""
    if not terms:
        return TRUE
    first, *rest = terms
    for term in rest:
        first = Call("and", (first, term), Type.BOOLEAN, Span(first.span.start, term.span.end))
    return first

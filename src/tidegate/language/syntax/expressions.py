"""Written expressions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tidegate.errors import Span
from tidegate.values import value

if TYPE_CHECKING:
    from tidegate.language.syntax.queries import Query


@value
class Name:
    """An identifier without its quotes, in its written case."""

    text: str
    span: Span


@value
class Constant:
    """A number, text, truth value, NULL, instant (aware, in UTC) or interval."""

    value: bool | int | float | str | datetime | timedelta | None
    span: Span


@value
class ColumnReference:
    qualifier: Name | None
    name: Name
    span: Span


@value
class Operation:
    """An operator, by its name in the table of functions, with its arguments."""

    operator: str
    arguments: tuple[Expression, ...]
    span: Span


@value
class FunctionCall:
    """A call of a function or aggregate; DISTINCT and FILTER are for aggregates only."""

    name: Name
    arguments: tuple[Expression, ...]
    span: Span
    distinct: bool = False
    filter: Expression | None = None


@value
class CountStar:
    """``f(*)``, which has a meaning for COUNT only."""

    name: Name
    span: Span
    filter: Expression | None = None


@value
class Between:
    argument: Expression
    low: Expression
    high: Expression
    span: Span


@value
class OneOf:
    """``argument IN (options)``."""

    argument: Expression
    options: tuple[Expression, ...]
    span: Span


@value
class SameAs:
    """``left IS NOT DISTINCT FROM right``: equal, or both NULL."""

    left: Expression
    right: Expression
    span: Span


@value
class CaseWhen:
    """CASE; with a subject, branches hold values to compare it with instead of conditions."""

    subject: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None
    span: Span


@value
class CastTo:
    argument: Expression
    type: Name
    span: Span


@value
class QueryValue:
    """A query used as a value: it has one column, and at most one row at every instant."""

    query: Query
    span: Span


@value
class Exists:
    """``EXISTS (query)``."""

    query: Query
    span: Span
    negated: bool = False


@value
class InQuery:
    """``argument IN (query)``."""

    argument: Expression
    query: Query
    span: Span
    negated: bool = False


@value
class QuantifiedComparison:
    """``argument >= ALL (query)`` and the like; without `every` it is ANY."""

    argument: Expression
    operator: str
    every: bool
    query: Query
    span: Span


QueryExpression = QueryValue | Exists | InQuery | QuantifiedComparison
"""Expressions that contain a query."""

Expression = (
    Constant
    | ColumnReference
    | Operation
    | FunctionCall
    | CountStar
    | Between
    | OneOf
    | SameAs
    | CaseWhen
    | CastTo
    | QueryExpression
)

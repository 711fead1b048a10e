"""Written expressions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tidegate.errors import Span

if TYPE_CHECKING:
    from tidegate.language.syntax.queries import Query


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier without its quotes, in its written case."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, text, truth value, NULL, instant (aware, in UTC) or interval."""

    value: bool | int | float | str | datetime | timedelta | None
    span: Span


@dataclass(frozen=True, slots=True)
class ColumnReference:
    qualifier: Name | None
    name: Name
    span: Span


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator, by its name in the table of functions, with its arguments."""

    operator: str
    arguments: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a function or aggregate; DISTINCT and FILTER are for aggregates only."""

    name: Name
    arguments: tuple[Expression, ...]
    span: Span
    distinct: bool = False
    filter: Expression | None = None


@dataclass(frozen=True, slots=True)
class CountStar:
    """``f(*)``, which has a meaning for COUNT only."""

    name: Name
    span: Span
    filter: Expression | None = None


@dataclass(frozen=True, slots=True)
class Between:
    argument: Expression
    low: Expression
    high: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class OneOf:
    """``argument IN (options)``."""

    argument: Expression
    options: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class SameAs:
    """``left IS NOT DISTINCT FROM right``: equal, or both NULL."""

    left: Expression
    right: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class CaseWhen:
    """CASE; with a subject, branches hold values to compare it with instead of conditions."""

    subject: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None
    span: Span


@dataclass(frozen=True, slots=True)
class CastTo:
    argument: Expression
    type: Name
    span: Span


@dataclass(frozen=True, slots=True)
class QueryValue:
    """A query used as a value: it has one column, and at most one row at every instant."""

    query: Query
    span: Span


@dataclass(frozen=True, slots=True)
class Exists:
    """``EXISTS (query)``."""

    query: Query
    span: Span
    negated: bool = False


@dataclass(frozen=True, slots=True)
class InQuery:
    """``argument IN (query)``."""

    argument: Expression
    query: Query
    span: Span
    negated: bool = False


@dataclass(frozen=True, slots=True)
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

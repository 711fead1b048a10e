"""The syntax tree: what was written, and where; nothing is looked up yet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.errors import Span


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier without its quotes, in the case it was written in."""

    text: str
    span: Span


# ---- expressions


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
    """An operator, by its name in the table of functions, applied."""

    operator: str
    arguments: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class FunctionCall:
    name: Name
    arguments: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class CountStar:
    """``f(*)``, which means something for COUNT alone."""

    name: Name
    span: Span


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


Expression = (
    Constant | ColumnReference | Operation | FunctionCall | CountStar | Between | OneOf | SameAs | CaseWhen | CastTo
)


# ---- queries


@dataclass(frozen=True, slots=True)
class WindowClause:
    """Validity in microseconds (None: for ever) and how often the window moves."""

    size: int | None
    slide: int
    span: Span


@dataclass(frozen=True, slots=True)
class StreamReference:
    name: Name
    window: WindowClause | None
    alias: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class Subquery:
    query: Query
    window: WindowClause | None
    alias: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class JoinClause:
    """An explicit JOIN; without a condition it is a CROSS JOIN."""

    left: Source
    right: Source
    condition: Expression | None
    span: Span


Source = StreamReference | Subquery | JoinClause


@dataclass(frozen=True, slots=True)
class Star:
    qualifier: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class Item:
    expression: Expression
    alias: Name | None
    span: Span


@dataclass(frozen=True, slots=True)
class Select:
    items: tuple[Item | Star, ...]
    sources: tuple[Source, ...]
    where: Expression | None
    group_by: tuple[Expression, ...]
    having: Expression | None
    distinct: bool
    span: Span


@dataclass(frozen=True, slots=True)
class UnionAll:
    """At least two queries, none of them a UnionAll itself."""

    queries: tuple[Select, ...]
    span: Span


Query = Select | UnionAll


# ---- statements


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    name: Name
    type: Name
    span: Span


@dataclass(frozen=True, slots=True)
class CreateSource:
    name: Name
    columns: tuple[ColumnDefinition, ...]
    location: str
    time_column: Name | None
    delay: int
    options: tuple[tuple[str, str], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class CreateDerived:
    name: Name
    query: Query
    span: Span


@dataclass(frozen=True, slots=True)
class QueryStatement:
    query: Query
    span: Span


@dataclass(frozen=True, slots=True)
class Insert:
    path: str
    query: Query
    span: Span


Statement = CreateSource | CreateDerived | QueryStatement | Insert

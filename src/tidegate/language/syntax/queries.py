"""Written queries."""

from __future__ import annotations

from enum import Enum

from tidegate.errors import Span
from tidegate.language.syntax.expressions import ColumnReference, Expression, Name
from tidegate.language.syntax.shedding import QueryOptions, UtilityClause
from tidegate.values import value


@value
class WindowClause:
    """A window by time: its length in microseconds (None: for ever), and the step in which it moves.

    `least` is the MIN of the clause. Keys are checked, but change nothing.
    """

    size: int | None
    slide: int
    span: Span
    least: int | None = None
    keys: tuple[ColumnReference, ...] = ()


@value
class RowsClause:
    """The last rows (None: all), per group of equal keys; `least` as in `WindowClause`."""

    rows: int | None
    slide: int
    keys: tuple[ColumnReference, ...]
    span: Span
    least: int | None = None


@value
class GranularityClause:
    """Steps of time in microseconds, between the size, which is the finest, and `coarsest`."""

    size: int
    span: Span
    coarsest: int | None = None


AnyWindow = WindowClause | RowsClause


@value
class StreamReference:
    name: Name
    window: AnyWindow | None
    alias: Name | None
    span: Span
    granularity: GranularityClause | None = None


@value
class Subquery:
    query: Query
    window: AnyWindow | None
    alias: Name | None
    span: Span
    granularity: GranularityClause | None = None


class JoinKind(Enum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"


@value
class JoinClause:
    """An explicit JOIN; without a condition and common columns it is a CROSS JOIN."""

    left: Source
    right: Source
    condition: Expression | None
    span: Span
    kind: JoinKind = JoinKind.INNER
    using: tuple[Name, ...] = ()


Source = StreamReference | Subquery | JoinClause


@value
class Star:
    qualifier: Name | None
    span: Span


@value
class Item:
    expression: Expression
    alias: Name | None
    span: Span


@value
class Select:
    """A SELECT; `coalesce` is the place of its COALESCE TIME."""

    items: tuple[Item | Star, ...]
    sources: tuple[Source, ...]
    where: Expression | None
    group_by: tuple[Expression, ...]
    having: Expression | None
    distinct: bool
    span: Span
    utility: UtilityClause | None = None
    coalesce: Span | None = None


@value
class UnionAll:
    """At least two queries, none of them a UnionAll itself."""

    queries: tuple[Query, ...]
    span: Span


@value
class SetQuery:
    """Two queries with ``union``, ``union max``, ``except``, ``intersect all``, … between them, in lower case."""

    operator: str
    left: Query
    right: Query
    span: Span


@value
class OrderBy:
    expression: Expression
    descending: bool
    nulls_first: bool | None
    span: Span


@value
class LimitClause:
    """The first rows after an offset, per group of equal keys; with ties, also the rows equal to the last."""

    count: int
    offset: int
    keys: tuple[Expression, ...]
    ties: bool
    span: Span


@value
class OrderedQuery:
    """A query with ORDER BY, LIMIT or both."""

    query: Query
    order: tuple[OrderBy, ...]
    limit: LimitClause | None
    span: Span


@value
class ChangesOf:
    """ISTREAM, DSTREAM or RSTREAM of a query, in lower case; ``dstream last`` looks ahead instead of back."""

    function: str
    query: Query
    span: Span


@value
class Definition:
    name: Name
    query: Query
    span: Span


@value
class WithQuery:
    """A query after the definitions of streams that only it can read."""

    definitions: tuple[Definition, ...]
    query: Query
    span: Span


@value
class QueryWithOptions:
    """A query with clauses on how it runs, which only a statement that runs may have.

    `early` is the position of EMIT EARLY, `changes` that of EMIT CHANGES, `admitted` that of ADMIT ANYWAY.
    """

    query: Query
    options: QueryOptions | None
    span: Span
    early: Span | None = None
    changes: Span | None = None
    admitted: Span | None = None


Query = Select | UnionAll | SetQuery | OrderedQuery | ChangesOf | WithQuery | QueryWithOptions

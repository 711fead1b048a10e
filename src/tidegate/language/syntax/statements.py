"""Written statements."""

from __future__ import annotations

from enum import Enum

from tidegate.errors import Span
from tidegate.language.syntax.alerts import AnyAlert
from tidegate.language.syntax.constraints import AnyConstraint
from tidegate.language.syntax.expressions import Expression, Name
from tidegate.language.syntax.queries import Query
from tidegate.language.syntax.shedding import QueryOptions
from tidegate.values import value


@value
class ColumnDefinition:
    """A column; `check` is the declared condition on its values."""

    name: Name
    type: Name
    span: Span
    check: Expression | None = None


@value
class SourceCall:
    """SOURCE f('a', …): a connector by its name, and its arguments."""

    name: Name
    arguments: tuple[str, ...]
    span: Span


@value
class CreateSource:
    """An external stream or table; `end_column` is the TO of VALID FROM … TO."""

    name: Name
    columns: tuple[ColumnDefinition, ...]
    location: str | SourceCall
    time_column: Name | None
    delay: int
    options: tuple[tuple[str, str], ...]
    span: Span
    end_column: Name | None = None
    idle_after: int | None = None
    is_table: bool = False
    key: tuple[Name, ...] = ()
    constraints: tuple[AnyConstraint, ...] = ()
    unit: Name | None = None
    stops_at_bad_file: bool = False


@value
class CreateDerived:
    name: Name
    query: Query
    span: Span


@value
class CreateQuery:
    """CREATE QUERY name AS query: a query that runs, with a name."""

    name: Name
    query: Query
    span: Span


@value
class CreateView:
    """CREATE MATERIALIZED VIEW name AS query: a query whose valid rows are kept."""

    name: Name
    options: QueryOptions | None
    query: Query
    span: Span


@value
class AlterStatement:
    """ALTER QUERY name AS query."""

    name: Name
    query: Query
    span: Span


@value
class PauseStatement:
    name: Name
    span: Span


@value
class ResumeStatement:
    name: Name
    span: Span


@value
class OptimizeStatement:
    name: Name
    span: Span


QueryChangeStatement = AlterStatement | PauseStatement | ResumeStatement | OptimizeStatement


@value
class QueryStatement:
    query: Query
    span: Span


@value
class Insert:
    path: str
    query: Query
    span: Span


class ObjectKind(Enum):
    """The kinds of objects that SHOW accepts; DROP accepts all but constraints and shedding."""

    STREAM = "stream"
    TABLE = "table"
    VIEW = "view"
    QUERY = "query"
    ALERT = "alert"
    CONSTRAINT = "constraint"
    SHEDDING = "shedding"


@value
class DropStatement:
    kind: ObjectKind
    name: Name
    span: Span


@value
class ShowStatement:
    kind: ObjectKind
    span: Span


@value
class ShowMetadataStatement:
    """SHOW METADATA; `query` limits it to one query."""

    query: Name | None
    span: Span


@value
class DescribeStatement:
    name: Name
    span: Span


@value
class ExplainStatement:
    query: Query | AnyAlert
    span: Span
    analyze: bool = False
    cost: bool = False


@value
class ExplainRunningStatement:
    """EXPLAIN ANALYZE QUERY name, or EXPLAIN COST QUERY name."""

    name: Name
    span: Span
    cost: bool = False


@value
class SetStatement:
    """SET name = value; only some names have a `mode`."""

    name: Name
    value: Name
    mode: Name | None
    span: Span


Statement = (
    CreateSource
    | CreateDerived
    | AnyAlert
    | CreateQuery
    | CreateView
    | AlterStatement
    | PauseStatement
    | ResumeStatement
    | OptimizeStatement
    | QueryStatement
    | Insert
    | DropStatement
    | ShowStatement
    | ShowMetadataStatement
    | DescribeStatement
    | ExplainStatement
    | ExplainRunningStatement
    | SetStatement
)

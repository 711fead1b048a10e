"""The catalog: source streams, derived streams and functions by name; and the program of a bound text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from types import MappingProxyType

from tidegate.algebra.constraints import Constraint, ConstraintSettings
from tidegate.algebra.plan import Plan, Validity
from tidegate.algebra.similarity_join import NO_SHEDDING, Policy, Shedding
from tidegate.algebra.size_columns import SizeColumn
from tidegate.catalog.limits import NO_LIMITS, ResourceLimits
from tidegate.errors import QueryError, TidegateWarning
from tidegate.expressions.functions.aggregates import aggregate_named
from tidegate.expressions.functions.resolve import function_names
from tidegate.expressions.functions.user_registry import UserDefined
from tidegate.schema import Domain, Field, Schema, Type
from tidegate.time import TimeUnit
from tidegate.values import value


@value
class SourceStream:
    """A stream or table that is read from a source.

    `location` is a path, glob or URI; a stream made from a DataFrame has the location
    ``dataframe://name``. `options` are the options of the connector, as the user wrote them.

    `validity` determines when rows are valid. INSTANT: at the time in `time_column`, or at their arrival
    if there is none. INTERVAL: from `time_column` to `end_column`. RELATION, which is a table: as long as
    the row is in the table; it has no time column. A stream that is silent for `idle_after` microseconds
    is idle, and queries do not wait for it.
    """

    name: str
    schema: Schema
    location: str
    time_column: str | None
    delay: int = 0
    options: tuple[tuple[str, str], ...] = ()
    validity: Validity = Validity.INSTANT
    end_column: str | None = None
    idle_after: int | None = None
    domains: tuple[tuple[str, Domain], ...] = ()
    """Declared domains of columns; rows with values outside become dead letters."""
    key: tuple[str, ...] = ()
    """Columns of the declared key: no two rows have the same values in them."""
    constraints: tuple[Constraint, ...] = ()
    """Declared constraints; names of referenced streams are as written, and the streams may be declared later."""
    unit: TimeUnit | None = None
    """Declared unit of integers in time columns; if None, they are microseconds."""
    stops_at_bad_file: bool = False
    """True if a bad file ends the run instead of becoming a dead letter."""
    arguments: tuple[str, ...] = ()
    """Arguments of SOURCE f(…), if it was written as a call; the location has f as its scheme."""

    @property
    def times(self) -> frozenset[str]:
        """The time columns: start and end of the validity."""
        return frozenset(c for c in (self.time_column, self.end_column) if c is not None)

    @property
    def is_table(self) -> bool:
        return self.validity is Validity.RELATION

    @property
    def is_timed_by_arrival(self) -> bool:
        return self.validity is Validity.INSTANT and self.time_column is None


@value
class DerivedStream:
    """A stream defined by a named query: its elements are the output of the query.

    `reads` has the streams that the query names, in lower case. The alarms of an alert are a derived
    stream, too; an alert runs even if no query reads it, and so does a materialized view.
    """

    name: str
    plan: Plan
    reads: frozenset[str] = frozenset()
    is_alert: bool = False
    is_view: bool = False

    @property
    def schema(self) -> Schema:
        return self.plan.schema


Stream = SourceStream | DerivedStream


@value
class Catalog:
    """Immutable collection of streams and user functions by name, with the settings of queries.

    The case of names does not matter.
    """

    streams: Mapping[str, Stream] = field(default_factory=lambda: MappingProxyType({}))
    functions: Mapping[str, UserDefined] = field(default_factory=lambda: MappingProxyType({}))
    settings: ConstraintSettings = field(default_factory=ConstraintSettings)
    shedding: Shedding = NO_SHEDDING
    """Shedding of queries that do not declare their own."""
    limits: ResourceLimits = NO_LIMITS
    """Limits on what all queries together use."""
    quality_columns: bool = False
    """Whether results of queries have columns with the sizes in force."""

    def with_stream(self, stream: Stream) -> Catalog:
        return replace(self, streams=MappingProxyType({**self.streams, stream.name.lower(): stream}))

    def without_stream(self, name: str) -> Catalog:
        left = {key: stream for key, stream in self.streams.items() if key != name.lower()}
        return replace(self, streams=MappingProxyType(left))

    def with_function(self, function: UserDefined) -> Catalog:
        """Return the catalog with a user function, which replaces an earlier one with the same name."""
        if function.name in function_names() or aggregate_named(function.name) is not None:
            raise QueryError("Q122", f"a function '{function.name}' already exists", hint="choose another name")
        return replace(self, functions=MappingProxyType({**self.functions, function.name: function}))

    def with_settings(self, settings: ConstraintSettings) -> Catalog:
        return replace(self, settings=settings)

    def with_shedding(self, shedding: Shedding) -> Catalog:
        return replace(self, shedding=shedding)

    def with_limits(self, limits: ResourceLimits) -> Catalog:
        return replace(self, limits=limits)

    def with_quality_columns(self, *, shown: bool) -> Catalog:
        return replace(self, quality_columns=shown)

    def find(self, name: str) -> Stream | None:
        return self.streams.get(name.lower())

    def __iter__(self) -> Iterator[Stream]:
        return iter(self.streams.values())


OP = "op"
"""Column of a changelog that says what happens to a row: "+", it is valid from now on; "-", it no longer is."""


@value
class Query:
    """A named plan to run; `into` is the path for its results, if it declares one, and `reads` are its streams.

    `notify` is the target for the alarms of an alert, as the user wrote it. `shedding` is what the query may shed.
    With `early`, a result is also emitted when its validity begins, not only when its end is known.
    """

    name: str
    plan: Plan
    into: str | None = None
    reads: frozenset[str] = frozenset()
    is_alert: bool = False
    notify: str | None = None
    shedding: Shedding = NO_SHEDDING
    early: bool = False
    history: int | None = None
    """Of a materialized view: for how many microseconds its rows are kept after their end. None: it is not a view."""
    is_changelog: bool = False
    """Whether the query reports the changes of its relation, instead of rows with validities."""
    admit_anyway: bool = False
    """Whether the query is registered even if it does not fit into the limits."""
    sizes: tuple[SizeColumn, ...] = ()
    """Columns of the results, after those of the plan, that say which sizes were in force."""
    text: str = field(default="", compare=False)
    """The statement that defines the query."""

    @property
    def columns(self) -> Schema:
        """Columns of the output, without times and without what changes."""
        return self.plan.schema + Schema(tuple(each.field for each in self.sizes)) if self.sizes else self.plan.schema

    @property
    def schema(self) -> Schema:
        """Columns of the output, without times."""
        return Schema((Field(OP, Type.STRING), *self.columns)) if self.is_changelog else self.columns

    @property
    def may_shed(self) -> bool:
        return self.shedding.policy is not Policy.OFF

    @property
    def is_view(self) -> bool:
        return self.history is not None

    @property
    def is_derived(self) -> bool:
        """Whether the query is in the catalog, too, and runs even if no other query reads it."""
        return self.is_alert or self.is_view


@value
class ShowStreams:
    """SHOW STREAMS, with the source and derived streams known at this point of the text."""

    streams: tuple[Stream, ...]


@value
class ShowTables:
    """SHOW TABLES, with the tables known at this point of the text."""

    tables: tuple[SourceStream, ...]


@value
class ShowViews:
    """SHOW VIEWS, with the materialized views known at this point of the text."""

    views: tuple[DerivedStream, ...]


@value
class ShowQueries:
    """SHOW QUERIES, with the queries of the text so far and those that are running."""

    queries: tuple[Query, ...]


@value
class ShowAlerts:
    """SHOW ALERTS, with the alerts known at this point of the text."""

    alerts: tuple[DerivedStream, ...]


@value
class ShowConstraints:
    """SHOW CONSTRAINTS, with the source streams known at this point of the text."""

    streams: tuple[SourceStream, ...]


@value
class ShowShedding:
    """SHOW SHEDDING, with the queries and alerts of the text so far and those that are running."""

    queries: tuple[Query, ...]


@value
class ShowMetadata:
    """SHOW METADATA, of all queries that run, or of one."""

    query: str | None


@value
class Describe:
    """DESCRIBE name, with the stream, table, alert or query of that name."""

    subject: Stream | Query


@value
class Explain:
    """EXPLAIN query: the query is not run, except with ANALYZE, to measure it."""

    query: Query
    analyze: bool = False
    cost: bool = False
    """EXPLAIN COST: what it is estimated to need."""
    views: tuple[str, ...] | None = None
    """Of a snapshot query: the views that it reads. None: the query would be registered."""


@value
class SnapshotQuery:
    """A query that is answered at once, over materialized views and tables as they are at one instant.

    For its plan, views are tables: `catalog` has them as such.
    """

    query: Query
    views: tuple[str, ...]
    catalog: Catalog


@value
class ExplainRunning:
    """EXPLAIN ANALYZE QUERY name: the stages of a query that runs, with their figures.

    With `cost`, EXPLAIN COST QUERY name: also with estimates.
    """

    name: str
    cost: bool = False


@value
class DropQuery:
    """DROP QUERY, ALERT or VIEW of a query that is not in this text; the session that runs the query stops it."""

    name: str


@value
class AlterQuery:
    """ALTER QUERY: the query of the same name goes on as this one."""

    query: Query


@value
class PauseQuery:
    """PAUSE QUERY name."""

    name: str


@value
class ResumeQuery:
    """RESUME QUERY name."""

    name: str


@value
class OptimizeQuery:
    """OPTIMIZE QUERY name."""

    name: str


QueryChange = AlterQuery | PauseQuery | ResumeQuery | OptimizeQuery
"""Change of a query that runs in a live session."""

Command = (
    ShowStreams
    | ShowTables
    | ShowViews
    | ShowQueries
    | ShowAlerts
    | ShowConstraints
    | ShowShedding
    | ShowMetadata
    | Describe
    | Explain
    | SnapshotQuery
    | ExplainRunning
    | DropQuery
    | QueryChange
)
"""Statement that is answered or executed, in order, when the text is run."""


@value
class Program:
    """Meaning of a text of statements: the catalog, the queries to run, and the commands."""

    catalog: Catalog
    queries: tuple[Query, ...]
    commands: tuple[Command, ...] = ()
    warnings: tuple[TidegateWarning, ...] = ()
    """Warnings about statements that probably do not mean what their author thinks, in the order of the text."""
    text: str = ""
    """The text itself, to show places in it."""

    @property
    def settings(self) -> ConstraintSettings:
        """Settings of all queries, from SET; a session keeps them with the catalog."""
        return self.catalog.settings

"""What is known by name: sources, derived streams and queries; and what a file of statements says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tidegate.algebra.constraints import Constraint, Settings
from tidegate.algebra.plan import Plan, Validity
from tidegate.algebra.similarity_join import NEVER, Policy, Shedding
from tidegate.errors import QueryError, TidegateWarning
from tidegate.expressions.functions.aggregates import aggregate_named
from tidegate.expressions.functions.resolve import function_names
from tidegate.expressions.functions.user import UserDefined
from tidegate.schema import Domain, Schema
from tidegate.time import TimeUnit


@dataclass(frozen=True, slots=True)
class SourceStream:
    """A stream or table that comes from outside.

    `location` is a path, glob or URI; a stream made from a DataFrame has the location
    ``dataframe://name``. `options` are the connector's, as the user wrote them.

    `validity` says how long its rows are valid. INSTANT: at the time in `time_column`, or when they
    arrive if there is none. INTERVAL: from `time_column` to `end_column`. RELATION, a table: while
    the row is there; it has no time column. A stream that is silent for `idle_after` microseconds
    is no longer waited for.
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
    """What the declaration says of the values of columns; rows with others are dead letters."""
    key: tuple[str, ...] = ()
    """Columns in which no two rows agree, if it says so."""
    constraints: tuple[Constraint, ...] = ()
    """What it says of how rows arrive; the streams referred to may be made later, and are spelt as written."""
    unit: TimeUnit | None = None
    """What whole numbers in its time columns count; None: nothing is declared, they are microseconds."""
    stops_at_bad_file: bool = False
    """Whether a file that cannot be read ends the run, instead of becoming a dead letter."""

    @property
    def times(self) -> frozenset[str]:
        """The columns that say when a row is valid."""
        return frozenset(c for c in (self.time_column, self.end_column) if c is not None)

    @property
    def is_table(self) -> bool:
        return self.validity is Validity.RELATION

    @property
    def is_timed_by_arrival(self) -> bool:
        return self.validity is Validity.INSTANT and self.time_column is None


@dataclass(frozen=True, slots=True)
class DerivedStream:
    """A named query; whoever reads the stream reads the query's output.

    `reads` are the streams that the query names, in lower case. The alarms of an alert are such a
    stream, too; alerts run whether someone reads them or not.
    """

    name: str
    plan: Plan
    reads: frozenset[str] = frozenset()
    is_alert: bool = False

    @property
    def schema(self) -> Schema:
        return self.plan.schema


Stream = SourceStream | DerivedStream


@dataclass(frozen=True, slots=True)
class Catalog:
    """Streams and users' functions by name, and settings for the queries that read them.

    Names are looked up without regard to case; a catalog never changes.
    """

    streams: Mapping[str, Stream] = field(default_factory=lambda: MappingProxyType({}))
    functions: Mapping[str, UserDefined] = field(default_factory=lambda: MappingProxyType({}))
    settings: Settings = field(default_factory=Settings)
    shedding: Shedding = NEVER
    """What queries may leave out that do not say it themselves."""

    def with_stream(self, stream: Stream) -> Catalog:
        return replace(self, streams=MappingProxyType({**self.streams, stream.name.lower(): stream}))

    def without(self, name: str) -> Catalog:
        left = {key: stream for key, stream in self.streams.items() if key != name.lower()}
        return replace(self, streams=MappingProxyType(left))

    def with_function(self, function: UserDefined) -> Catalog:
        """With a user's function, in place of an earlier one of its name."""
        if function.name in function_names() or aggregate_named(function.name) is not None:
            raise QueryError("Q122", f"there already is a function '{function.name}'", hint="choose another name")
        return replace(self, functions=MappingProxyType({**self.functions, function.name: function}))

    def with_settings(self, settings: Settings) -> Catalog:
        return replace(self, settings=settings)

    def with_shedding(self, shedding: Shedding) -> Catalog:
        return replace(self, shedding=shedding)

    def find(self, name: str) -> Stream | None:
        return self.streams.get(name.lower())

    def __iter__(self) -> Iterator[Stream]:
        return iter(self.streams.values())


@dataclass(frozen=True, slots=True)
class Query:
    """A plan to run, its name, the path its results are inserted into, if it names one, and what it reads.

    `notify` is where alarms of an alert are to be sent, as the user wrote it; `shedding` is what it may leave out.
    With `early`, a value is reported when it begins, too, and not only when its end is known.
    """

    name: str
    plan: Plan
    into: str | None = None
    reads: frozenset[str] = frozenset()
    is_alert: bool = False
    notify: str | None = None
    shedding: Shedding = NEVER
    early: bool = False

    @property
    def may_shed(self) -> bool:
        return self.shedding.policy is not Policy.OFF


@dataclass(frozen=True, slots=True)
class ShowStreams:
    """SHOW STREAMS: the streams known where it stands, source and derived."""

    streams: tuple[Stream, ...]


@dataclass(frozen=True, slots=True)
class ShowTables:
    """SHOW TABLES: the tables known where it stands."""

    tables: tuple[SourceStream, ...]


@dataclass(frozen=True, slots=True)
class ShowQueries:
    """SHOW QUERIES: the queries of the text so far, and those that ran before it."""

    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class ShowAlerts:
    """SHOW ALERTS: the alerts known where it stands."""

    alerts: tuple[DerivedStream, ...]


@dataclass(frozen=True, slots=True)
class ShowConstraints:
    """SHOW CONSTRAINTS: the source streams known where it stands, with their keys and constraints."""

    streams: tuple[SourceStream, ...]


@dataclass(frozen=True, slots=True)
class ShowShedding:
    """SHOW SHEDDING: the queries and alerts of the text so far, and those that ran before it."""

    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE name: a stream, a table, an alert, or a query of the text."""

    subject: Stream | Query


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN query: how a query would run, which does not run."""

    query: Query


@dataclass(frozen=True, slots=True)
class DropQuery:
    """DROP QUERY or ALERT name of one that is not of this text: the session that runs it ends it."""

    name: str


Command = (
    ShowStreams
    | ShowTables
    | ShowQueries
    | ShowAlerts
    | ShowConstraints
    | ShowShedding
    | Describe
    | Explain
    | DropQuery
)
"""What a text asks for that is no query: answered or done when the text is run, in order."""


@dataclass(frozen=True, slots=True)
class Program:
    """All that a file of statements says: the streams, the queries to run over them, and commands."""

    catalog: Catalog
    queries: tuple[Query, ...]
    commands: tuple[Command, ...] = ()
    warnings: tuple[TidegateWarning, ...] = ()
    """What probably does not mean what its author thinks, in the order of the text."""
    text: str = ""
    """What was written, to show places in it."""

    @property
    def settings(self) -> Settings:
        """What SET says, for all of its queries; a session remembers it with the catalog."""
        return self.catalog.settings

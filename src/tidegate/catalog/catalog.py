"""What is known by name: source streams and derived streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tidegate.algebra.plan import Plan
from tidegate.schema import Schema


@dataclass(frozen=True, slots=True)
class SourceStream:
    """A stream that comes from outside.

    `location` is a path, glob or URI; a stream made from a DataFrame has the location
    ``dataframe://name``. `options` are the connector's, as the user wrote them.
    """

    name: str
    schema: Schema
    location: str
    time_column: str
    delay: int = 0
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DerivedStream:
    """A named query; whoever reads the stream reads the query's output."""

    name: str
    plan: Plan

    @property
    def schema(self) -> Schema:
        return self.plan.schema


Stream = SourceStream | DerivedStream


@dataclass(frozen=True, slots=True)
class Catalog:
    """Streams by name. Names are looked up without regard to case; a catalog never changes."""

    streams: Mapping[str, Stream] = field(default_factory=lambda: MappingProxyType({}))

    def with_stream(self, stream: Stream) -> Catalog:
        return Catalog(MappingProxyType({**self.streams, stream.name.lower(): stream}))

    def find(self, name: str) -> Stream | None:
        return self.streams.get(name.lower())

    def __iter__(self) -> Iterator[Stream]:
        return iter(self.streams.values())


@dataclass(frozen=True, slots=True)
class Query:
    """A plan to run, its name, and the path its results are inserted into, if it names one."""

    name: str
    plan: Plan
    into: str | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """All that a file of statements says: the streams, and the queries to run over them."""

    catalog: Catalog
    queries: tuple[Query, ...]

"""SHOW, DESCRIBE, EXPLAIN ANALYZE QUERY and DROP."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.algebra.plan import Validity
from tidegate.catalog.catalog import (
    Catalog,
    Command,
    DerivedStream,
    Describe,
    ExplainRunning,
    Query,
    ShowAlerts,
    ShowConstraints,
    ShowMetadata,
    ShowQueries,
    ShowShedding,
    ShowStreams,
    ShowTables,
    ShowViews,
    SourceStream,
)
from tidegate.errors import QueryError, suggest_name
from tidegate.language import syntax
from tidegate.language.bind.constraints.declared import referrers
from tidegate.language.bind.create import kind_of, with_article
from tidegate.language.bind.names import is_same_name
from tidegate.language.syntax import Name, ObjectKind

Question = (
    syntax.ShowStatement | syntax.ShowMetadataStatement | syntax.ExplainRunningStatement | syntax.DescribeStatement
)
"""Statement about objects or queries that exist."""


def bind_question(statement: Question, catalog: Catalog, queries: Sequence[Query]) -> Command:
    """Return the command for SHOW, DESCRIBE or EXPLAIN ANALYZE QUERY."""
    match statement:
        case syntax.ShowStatement(kind=kind):
            return _bind_show(kind, catalog, queries)
        case syntax.ShowMetadataStatement(query=None):
            return ShowMetadata(None)
        case syntax.ShowMetadataStatement(query=Name() as name):
            return ShowMetadata(_find_query(name, queries).name)
        case syntax.ExplainRunningStatement(name=name, cost=cost):
            return ExplainRunning(_find_query(name, queries).name, cost)
        case syntax.DescribeStatement(name=name):
            return _bind_describe(name, catalog, queries)
    raise AssertionError(statement)


def _bind_show(kind: ObjectKind, catalog: Catalog, queries: Sequence[Query]) -> Command:
    """Return the command for SHOW."""
    match kind:
        case ObjectKind.STREAM:
            return ShowStreams(tuple(s for s in catalog if kind_of(s) == "stream"))
        case ObjectKind.TABLE:
            tables = (s for s in catalog if isinstance(s, SourceStream) and s.validity is Validity.RELATION)
            return ShowTables(tuple(tables))
        case ObjectKind.VIEW:
            return ShowViews(tuple(s for s in catalog if isinstance(s, DerivedStream) and s.is_view))
        case ObjectKind.QUERY:
            return ShowQueries(tuple(q for q in queries if not q.is_derived))
        case ObjectKind.ALERT:
            return ShowAlerts(tuple(s for s in catalog if isinstance(s, DerivedStream) and s.is_alert))
        case ObjectKind.CONSTRAINT:
            return ShowConstraints(tuple(s for s in catalog if isinstance(s, SourceStream) and not s.is_table))
        case ObjectKind.SHEDDING:
            return ShowShedding(tuple(queries))


def _find_query(name: Name, queries: Sequence[Query]) -> Query:
    """Return the query or alert of a name."""
    found = next((query for query in queries if is_same_name(query.name, name.text)), None)
    if found is None:
        hint = suggest_name(name.text, [query.name for query in queries]) or "SHOW QUERIES lists the queries"
        raise QueryError("Q101", f"there is no query '{name.text}'", name.span, hint=hint)
    return found


def _bind_describe(name: Name, catalog: Catalog, queries: Sequence[Query]) -> Command:
    """Return the command for DESCRIBE of a stream, a table, an alert or a query."""
    query = next((q for q in queries if is_same_name(q.name, name.text)), None)
    subject = query if query is not None and query.is_alert else catalog.find(name.text) or query
    if subject is None:
        raise _unknown_object(
            "stream, table, alert or query", name, [*(s.name for s in catalog), *(q.name for q in queries)]
        )
    return Describe(subject)


def drop_from(catalog: Catalog, kind: ObjectKind, name: Name, queries: Iterable[Query]) -> Catalog:
    """Return the catalog without a stream, table or alert; refuse if anything still reads or references it."""
    found = catalog.find(name.text)
    if found is None:
        raise _unknown_object(kind.value, name, (s.name for s in catalog if kind_of(s) == kind.value))
    if kind_of(found) != kind.value:
        hint = f"write DROP {kind_of(found).upper()} {found.name}"
        message = f"'{name.text}' is {with_article(kind_of(found))}, not {with_article(kind.value)}"
        raise QueryError("Q101", message, name.span, hint=hint)
    readers = [s.name for s in catalog if isinstance(s, DerivedStream) and name.text.lower() in s.reads]
    readers += [q.name for q in queries if name.text.lower() in q.reads and q.name not in readers]
    _refuse_used(kind, name, readers, "reads", "read")
    _refuse_used(kind, name, referrers(name.text, catalog), "refers to", "refer to")
    return catalog.without_stream(name.text)


def refuse_unknown_query(name: Name, catalog: Catalog, queries: Sequence[Query]) -> None:
    """Refuse to drop a query if the name is unknown or belongs to a stream."""
    if (stream := catalog.find(name.text)) is not None:
        hint = f"write DROP {kind_of(stream).upper()} {stream.name}"
        raise QueryError("Q101", f"'{name.text}' is {with_article(kind_of(stream))}", name.span, hint=hint)
    if not any(is_same_name(query.name, name.text) for query in queries):
        known = [query.name for query in queries]
        hint = suggest_name(name.text, known) or "SHOW QUERIES lists the queries"
        raise QueryError("Q101", f"there is no query '{name.text}'", name.span, hint=hint)


def _refuse_used(kind: ObjectKind, name: Name, users: Sequence[str], does: str, do: str) -> None:
    """Refuse to drop an object that others use; `does` and `do` are the verb for one and for several users."""
    if not users:
        return
    listed = ", ".join(f"'{user}'" for user in users)
    verb = does if len(users) == 1 else do
    hint = f"first drop what {does} it: " + ", ".join(users)
    raise QueryError("Q118", f"{kind.value} '{name.text}' is in use: {listed} {verb} it", name.span, hint=hint)


def _unknown_object(what: str, name: Name, known: Iterable[str]) -> QueryError:
    hint = suggest_name(name.text, known) or f"no {what} exists"
    return QueryError("Q101", f"there is no {what} '{name.text}'", name.span, hint=hint)

"""Materialized views, and the queries that are answered at once from what views keep."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.plan import Validity
from tidegate.algebra.similarity_join import NO_SHEDDING
from tidegate.catalog.catalog import Catalog, DerivedStream, Query, SnapshotQuery, SourceStream, Stream
from tidegate.errors import QueryError
from tidegate.language import syntax
from tidegate.language.bind.context import BindContext
from tidegate.language.bind.queries import bind_plan, make_query, streams_of_query
from tidegate.language.bind.shedding.statement import without_run_clauses
from tidegate.time import LATEST, parse_duration

HISTORY = 10_000_000
"""For how many microseconds a view keeps rows after their end, unless it says otherwise.

Views over several streams are never at the same instant. A query over them needs an instant that all of them keep.
"""

_TIMED = (syntax.WindowClause, syntax.RowsClause, syntax.GranularityClause, syntax.ChangesOf)


def is_snapshot(query: syntax.Query, catalog: Catalog) -> bool:
    """Return whether a query is answered at once: it reads only views and tables, and says nothing about time."""
    reads = streams_of_query(query)
    if isinstance(query, syntax.QueryWithOptions) or not reads:
        return False
    if not all(_is_table(found) or _is_view(found) for found in map(catalog.find, reads)):
        return False
    return not any(isinstance(node, _TIMED) for node in syntax.walk(query))


def _is_table(stream: Stream | None) -> bool:
    return isinstance(stream, SourceStream) and stream.is_table


def _is_view(stream: Stream | None) -> bool:
    return isinstance(stream, DerivedStream) and stream.is_view


def bind_view(statement: syntax.CreateView, around: BindContext) -> tuple[DerivedStream, Query]:
    """Return a materialized view, as a stream that others can read and as the query that runs."""
    name = statement.name
    _refuse_run_clauses(statement)
    plan = bind_plan(statement.query, replace(around, making=name.text))
    view = DerivedStream(name.text, plan, streams_of_query(statement.query), is_view=True)
    query = make_query(view.name, plan, view.reads, NO_SHEDDING)
    return view, replace(query, history=_history_of(statement.options))


def bind_snapshot(query: syntax.Query, around: BindContext) -> SnapshotQuery:
    """Return a query over the rows that views and tables have at one instant."""
    reads = streams_of_query(query)
    catalog = _with_views_as_tables(around.catalog)
    plan = bind_plan(_with_limit(query), replace(around, catalog=catalog))
    views = tuple(s.name for s in around.catalog if s.name.lower() in reads and not _is_table(s))
    return SnapshotQuery(make_query("snapshot", plan, reads, NO_SHEDDING), views, catalog)


def _with_views_as_tables(catalog: Catalog) -> Catalog:
    """Return the catalog in which each view is a table: at one instant, both are bags of rows."""
    for stream in catalog:
        if isinstance(stream, DerivedStream) and stream.is_view:
            kept = SourceStream(stream.name, stream.schema, f"view://{stream.name}", None, validity=Validity.RELATION)
            catalog = catalog.with_stream(kept)
    return catalog


def _with_limit(query: syntax.Query) -> syntax.Query:
    """Return the query with a LIMIT that all rows pass, if it has an ORDER BY alone: its answer is a table in order."""
    match query:
        case syntax.OrderedQuery(limit=None, span=span):
            return replace(query, limit=syntax.LimitClause(LATEST, 0, (), ties=False, span=span))
        case syntax.WithQuery(query=below):
            return replace(query, query=_with_limit(below))
    return query


def _history_of(options: syntax.QueryOptions | None) -> int:
    """Return for how many microseconds a view keeps rows after their end."""
    history = HISTORY
    for option in () if options is None else options.given:
        if option.name.text.lower() != "history":
            hint = "the option of a view is history, for example WITH (history = '1 minute')"
            raise QueryError("Q126", f"a view has no option '{option.name.text}'", option.name.span, hint=hint)
        try:
            history = parse_duration(option.value.text)
        except QueryError:
            history = -1
        if not 0 <= history <= LATEST:
            message = f"history cannot be '{option.value.text}'"
            raise QueryError("Q126", message, option.value.span, hint="write a time, for example '1 minute'") from None
    return history


def _refuse_run_clauses(statement: syntax.CreateView) -> None:
    """Refuse WITH (…), EMIT EARLY and UTILITY BY after the query of a view: a view keeps exactly what is valid."""
    if without_run_clauses(statement.query) != statement.query:
        message = "the query of a view has no WITH (…), EMIT EARLY or UTILITY BY: the view keeps exactly what is valid"
        raise QueryError("Q126", message, statement.query.span, hint="remove the clause")

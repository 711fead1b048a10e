"""Shedding of a statement that runs: WITH (…) after it, and UTILITY BY in it."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.similarity_join import Policy, Shedding
from tidegate.errors import QueryError, Span
from tidegate.language import syntax
from tidegate.language.bind.context import BindContext
from tidegate.language.bind.names import Scope
from tidegate.language.bind.query.select import bind_definitions, bind_query
from tidegate.language.bind.query.sources import read_from
from tidegate.language.bind.shedding.options import shedding_of
from tidegate.language.bind.shedding.utility import bind_utility


def without_run_clauses(query: syntax.Query) -> syntax.Query:
    """Return the query without the clauses on how it runs."""
    if isinstance(query, syntax.QueryWithOptions):
        query = query.query
    return query if _utility_clause(query) is None else _without_utility(query)


def early_clause(query: syntax.Query) -> Span | None:
    """Return the position of EMIT EARLY in a query; None if it has none."""
    return query.early if isinstance(query, syntax.QueryWithOptions) else None


def changes_clause(query: syntax.Query) -> Span | None:
    """Return the position of EMIT CHANGES in a query; None if it has none."""
    return query.changes if isinstance(query, syntax.QueryWithOptions) else None


def is_admitted(query: syntax.Query) -> bool:
    """Return whether a query has ADMIT ANYWAY."""
    return isinstance(query, syntax.QueryWithOptions) and query.admitted is not None


def query_shedding(query: syntax.Query, around: BindContext) -> Shedding:
    """Return the shedding of a query that runs."""
    options = query.options if isinstance(query, syntax.QueryWithOptions) else None
    query = query.query if isinstance(query, syntax.QueryWithOptions) else query
    shedding, utility = shedding_of(options, around.catalog.shedding), _utility_clause(query)
    if utility is None:
        return shedding
    if shedding.policy is Policy.OFF:
        message = "UTILITY BY has no effect while shedding is off: all results are made"
        hint = "add WITH (shedding = on) after the query, or remove UTILITY BY"
        raise QueryError("Q127", message, utility.span, hint=hint)
    if shedding.policy is Policy.SAMPLE:
        hint = "write WITH (shedding = on) to shed comparisons, or remove UTILITY BY"
        raise QueryError("Q127", "UTILITY BY has no effect on a sample", utility.span, hint=hint)
    return replace(shedding, utility=bind_utility(utility, _outermost_scope(query, around)))


def refuse_in_derived(statement: syntax.CreateDerived) -> None:
    """Refuse WITH (…), EMIT CHANGES and UTILITY BY of a stream that does not run by itself."""
    query, name = statement.query, statement.name.text
    if (changes := changes_clause(query)) is not None:
        message = "a derived stream has no EMIT CHANGES: it runs as part of the query that reads it"
        raise QueryError("Q126", message, changes, hint=f"write it after the query that reads {name}")
    if isinstance(query, syntax.QueryWithOptions) and query.options is not None:
        message = "a derived stream has no WITH (…): it runs as part of the query that reads it"
        hint = f"write it after the query that reads {name}"
        raise QueryError("Q126", message, query.options.span, hint=hint)
    if (utility := _utility_clause(query.query if isinstance(query, syntax.QueryWithOptions) else query)) is not None:
        message = "a derived stream has no UTILITY BY: it runs as part of the query that reads it"
        hint = f"write it into the query that reads {name}"
        raise QueryError("Q127", message, utility.span, hint=hint)


# ---- the outermost SELECT


def _utility_clause(query: syntax.Query) -> syntax.UtilityClause | None:
    match query:
        case syntax.Select(utility=utility):
            return utility
        case syntax.OrderedQuery(query=below) | syntax.ChangesOf(query=below) | syntax.WithQuery(query=below):
            return _utility_clause(below)
    return None


def _without_utility(query: syntax.Query) -> syntax.Query:
    match query:
        case syntax.Select():
            return replace(query, utility=None)
        case syntax.OrderedQuery(query=below) | syntax.ChangesOf(query=below) | syntax.WithQuery(query=below):
            return replace(query, query=_without_utility(below))
    return query


def _outermost_scope(query: syntax.Query, around: BindContext) -> Scope:
    """Return the names in the FROM of the outermost SELECT."""
    match query:
        case syntax.Select(sources=sources):
            return read_from(sources, around, bind_query).scope
        case syntax.WithQuery(query=below):
            return _outermost_scope(below, bind_definitions(query, around))
        case syntax.OrderedQuery(query=below) | syntax.ChangesOf(query=below):
            return _outermost_scope(below, around)
    return ()

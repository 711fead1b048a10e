"""Bind statements that change a query of a live session: ALTER, PAUSE, RESUME, OPTIMIZE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.catalog.catalog import (
    AlterQuery,
    Command,
    OptimizeQuery,
    PauseQuery,
    Query,
    QueryChange,
    ResumeQuery,
)
from tidegate.errors import QueryError
from tidegate.language import syntax
from tidegate.language.bind.commands import refuse_unknown_query
from tidegate.language.bind.context import BindContext
from tidegate.language.bind.names import is_same_name
from tidegate.language.bind.queries import standalone_query
from tidegate.language.syntax import Name

LIVE_HINT = "start `tidegate serve`, or use tidegate.live.session.LiveSession"


def is_change_of(name: Name, command: Command) -> bool:
    """Return whether a command changes the query of a name."""
    match command:
        case AlterQuery(query=query):
            return is_same_name(query.name, name.text)
        case PauseQuery(name=own) | ResumeQuery(name=own) | OptimizeQuery(name=own):
            return is_same_name(own, name.text)
    return False


def bind_query_change(
    statement: syntax.QueryChangeStatement, text: str, around: BindContext, known: Sequence[Query], *, live: bool
) -> QueryChange:
    """Bind a change of one of the known queries."""
    name = statement.name
    if not live:
        message = "ALTER, PAUSE, RESUME and OPTIMIZE need a live session: here, queries run until their text ends"
        raise QueryError("Q317", message, statement.span, hint=LIVE_HINT)
    found = next((query for query in known if is_same_name(query.name, name.text)), None)
    if found is not None and found.is_view:
        hint = f"write DROP VIEW {found.name}, then CREATE MATERIALIZED VIEW"
        raise QueryError("Q318", f"'{found.name}' is a view, and cannot be changed", statement.span, hint=hint)
    if found is None or not found.is_alert:
        refuse_unknown_query(name, around.catalog, known)
    assert found is not None
    match statement:
        case syntax.AlterStatement(query=query, span=span):
            _refuse_change_of_alert(found, "altered", statement)
            altered = standalone_query(found.name, query, around, into=found.into)
            return AlterQuery(replace(altered, text=text[span.start : span.end]))
        case syntax.OptimizeStatement():
            _refuse_change_of_alert(found, "moved to another plan", statement)
            return OptimizeQuery(found.name)
        case syntax.PauseStatement() if found.is_changelog:
            message = "a query with EMIT CHANGES cannot be paused: what its readers keep would become wrong"
            raise QueryError("Q318", message, statement.span, hint=f"write DROP QUERY {found.name}")
        case syntax.PauseStatement():
            return PauseQuery(found.name)
        case syntax.ResumeStatement():
            return ResumeQuery(found.name)


def _refuse_change_of_alert(query: Query, what: str, statement: syntax.QueryChangeStatement) -> None:
    if query.is_alert:
        hint = f"write DROP ALERT {query.name}, then CREATE ALERT"
        raise QueryError("Q318", f"an alert cannot be {what}", statement.span, hint=hint)

"""Streams that a query defines: derived streams and alerts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tidegate.algebra.refusals import refuse_unsupported
from tidegate.algebra.similarity_join import NO_SHEDDING, Policy, Shedding
from tidegate.catalog.catalog import DerivedStream, Query
from tidegate.errors import QueryError, Span, TidegateWarning
from tidegate.language.bind.context import BindContext
from tidegate.language.bind.create import refuse_known
from tidegate.language.bind.names import is_same_name
from tidegate.language.bind.queries import bind_plan, refuse_early_coalesce, streams_of_query
from tidegate.language.bind.shedding.options import shedding_of
from tidegate.language.bind.shedding.statement import refuse_in_derived, without_run_clauses
from tidegate.language.syntax import AnyAlert, CreateAlert, CreateDerived, Name


def is_known(name: Name, queries: Iterable[Query]) -> bool:
    """Return whether a query has a name."""
    return any(is_same_name(query.name, name.text) for query in queries)


def bind_derived(statement: CreateDerived, around: BindContext) -> DerivedStream:
    """Bind CREATE STREAM … AS."""
    refuse_known(statement.name, around.catalog)
    refuse_in_derived(statement)
    refuse_early_coalesce(statement.query)
    around = replace(around, making=statement.name.text)
    return DerivedStream(
        statement.name.text, bind_plan(without_run_clauses(statement.query), around), streams_of_query(statement.query)
    )


def idle_early_warning(name: Name, place: Span) -> TidegateWarning:
    """Return the warning about EMIT EARLY in a stream that only others read."""
    message = f"EMIT EARLY has no effect here: {name.text} is read by another query, which decides when it reports"
    return TidegateWarning("W213", message, place, hint=f"write EMIT EARLY after the query that reads {name.text}")


def bind_alert_stream(statement: AnyAlert, around: BindContext, known: Sequence[Query]) -> DerivedStream:
    """Bind CREATE ALERT; `known` are the queries that exist."""
    from tidegate.language.bind.alerts.threshold import bind_alert
    from tidegate.language.bind.alerts.totals import bind_total

    refuse_known(statement.name, around.catalog)
    name = statement.name.text
    if is_known(statement.name, known):
        raise QueryError("Q105", f"a query '{name}' already exists", statement.name.span, hint="choose another name")
    making = replace(around, making=name)
    plan = bind_alert(statement, making) if isinstance(statement, CreateAlert) else bind_total(statement, making)
    refuse_unsupported(plan)
    return DerivedStream(name, plan, streams_of_query(statement), is_alert=True)


def shedding_of_alert(statement: AnyAlert, around: BindContext) -> Shedding:
    """Return how an alert may shed."""
    # Alerts on one stream make no combinations that could be shed.
    if not isinstance(statement, CreateAlert) or len(statement.sources) == 1:
        return NO_SHEDDING
    shedding = shedding_of(statement.options, around.catalog.shedding)
    if shedding.policy is Policy.SAMPLE:
        message = "an alert cannot be decided by a sample: it would miss alarms"
        hint = "write WITH (shedding = off) after it, or shedding = on to shed combinations"
        raise QueryError("Q129", message, statement.name.span, hint=hint)
    return shedding

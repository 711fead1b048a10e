"""Bind queries that run by themselves, and name the streams that they read."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.plan import Map, Plan, Union, inputs
from tidegate.algebra.refusals import refuse_unsupported
from tidegate.algebra.similarity_join import Policy, Shedding
from tidegate.catalog.catalog import OP, Query
from tidegate.errors import QueryError, Span
from tidegate.language import syntax
from tidegate.language.bind.context import BindContext
from tidegate.language.bind.names import is_same_name
from tidegate.language.bind.plan_limits import refuse_too_large
from tidegate.language.bind.query.select import bind_query
from tidegate.language.bind.shedding.sampling import sample_query
from tidegate.language.bind.shedding.statement import (
    changes_clause,
    early_clause,
    is_admitted,
    query_shedding,
    without_run_clauses,
)
from tidegate.language.bind.size_columns import with_size_columns
from tidegate.language.syntax import AnyAlert

_RESERVED = ("valid_from", "valid_to")


def standalone_query(name: str, query: syntax.Query, around: BindContext, *, into: str | None = None) -> Query:
    """Return a query that runs by itself."""
    plan = bind_plan(without_run_clauses(query), around)
    made = make_query(name, plan, streams_of_query(query), query_shedding(query, around), into=into)
    if (place := changes_clause(query)) is not None:
        _refuse_op(plan, place)
    early, admitted = early_clause(query) is not None, is_admitted(query)
    refuse_early_coalesce(query)
    made = replace(made, early=early, is_changelog=place is not None, admit_anyway=admitted)
    return with_size_columns(made, query) if around.catalog.quality_columns else made


def refuse_early_coalesce(query: syntax.Query) -> None:
    """Refuse EMIT EARLY of results that COALESCE TIME puts together."""
    written, early = without_run_clauses(query), early_clause(query)
    if early is not None and isinstance(written, syntax.Select) and written.coalesce is not None:
        message = "EMIT EARLY reports a row in two parts, which COALESCE TIME puts together"
        raise QueryError("Q126", message, early, hint="remove one of them")


def _refuse_op(plan: Plan, place: Span) -> None:
    if any(is_same_name(name, OP) for name in plan.schema.names):
        message = f"a query with EMIT CHANGES cannot have a column '{OP}'"
        raise QueryError("Q112", message, place, hint=f"'{OP}' says what changes; give the column an alias")


def bind_plan(query: syntax.Query, around: BindContext) -> Plan:
    plan = bind_query(query, around)
    refuse_too_large(plan, query.span)
    refuse_unsupported(plan)
    return plan


def make_query(name: str, plan: Plan, read: frozenset[str], shedding: Shedding, *, into: str | None = None) -> Query:
    if shedding.policy is Policy.SAMPLE:
        plan = sample_query(plan, shedding)
    for output, span in zip(plan.schema.names, _output_spans(plan), strict=True):
        if output.lower() in _RESERVED:
            hint = "every row of a result has its own valid_from and valid_to; give the column an alias"
            raise QueryError("Q112", f"a result cannot have a column '{output}'", span, hint=hint)
    return Query(name, plan, into, read, shedding=shedding)


def _output_spans(plan: Plan) -> tuple[Span, ...]:
    """Return the positions of the columns of a result in the text."""
    match plan:
        case Map(outputs=outputs):
            return tuple(output.expression.span for output in outputs)
        case Union(inputs=(source, *_)):
            return _output_spans(source)
    below = inputs(plan)
    return _output_spans(below[0]) if len(below) == 1 else (plan.span,) * len(plan.schema)


def streams_of_query(query: syntax.Query | AnyAlert) -> frozenset[str]:
    """Return the streams that a query reads anywhere, in lower case, without those that it defines itself."""
    nodes = list(syntax.walk(query))
    own = {node.name.text.lower() for node in nodes if isinstance(node, syntax.Definition)}
    return frozenset(n.name.text.lower() for n in nodes if isinstance(n, syntax.StreamReference)) - own

"""FROM and conditions of alerts: streams of instants, each read separately."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.algebra.plan import Filter, Plan
from tidegate.algebra.properties import is_chronon
from tidegate.algebra.subscription_tables import reads_only_tables, reads_table
from tidegate.errors import QueryError
from tidegate.expressions.nodes import Expression, conjunction
from tidegate.language import syntax
from tidegate.language.bind.context import BindContext, BoundSource
from tidegate.language.bind.create import kind_of
from tidegate.language.bind.names import Scope
from tidegate.language.bind.query.expressions import AggregateNode, ExpressionContext
from tidegate.language.bind.query.select import bind_query
from tidegate.language.bind.query.sources import read_separately
from tidegate.language.syntax import Source


def read_streams(
    sources: Sequence[Source], around: BindContext, *, counts: bool = False, tables: bool = False
) -> list[BoundSource]:
    """Return the elements of each stream of an alert, which counts them (`counts`) or joins them.

    With `tables`, a source may be a table, too.
    """
    for source in sources:
        refuse_source(source, around, counts=counts, tables=tables)
    reads = read_separately(sources, around, bind_query)
    about = "an alert counts elements of single instants" if counts else "WITHIN compares the times of elements"
    for source, read in zip(sources, reads, strict=True):
        if is_chronon(read.plan) or (tables and reads_table(read.plan)):
            continue
        if tables and reads_only_tables(read.plan):
            message = f"'{read.scope[0].alias}' joins or groups rows of tables, but subscriptions are rows of one table"
            hint = "read the table itself, or filter it: FROM stream t, (SELECT … FROM table WHERE …) r"
        else:
            message = f"{about}, but '{read.scope[0].alias}' has elements that last"
            hint = "read a stream with TIMESTAMP BY, a query that filters or joins it, or ISTREAM(…) of any query"
        raise QueryError("Q212", message, source.span, hint=hint)
    return reads


def refuse_source(source: Source, around: BindContext, *, counts: bool, tables: bool = False) -> None:
    """Refuse joins, windows and, unless they may be subscriptions, tables in FROM."""
    if isinstance(source, syntax.JoinClause):
        hint = "write FROM a, b: WITHIN says which of their elements meet"
        if counts:
            hint = "count the elements of a query that joins them: FROM (SELECT … FROM stream, table WHERE …) t"
        raise QueryError("Q212", "the streams of an alert cannot be joined in FROM", source.span, hint=hint)
    if (window := source.window or source.granularity) is not None:
        hint = "remove it: WITHIN is the window and says how near in time elements must be"
        if counts:
            hint = "remove it and write WITHIN 1 HOUR after FROM to count the elements of the last hour"
        raise QueryError("Q212", "a stream of an alert cannot have a window", window.span, hint=hint)
    if isinstance(source, syntax.StreamReference) and not tables:
        stream = around.catalog.find(source.name.text)
        if stream is not None and kind_of(stream) == "table":
            message = f"an alert cannot read the table '{stream.name}': its rows have no times"
            hint = "join it with a stream first: FROM (SELECT … FROM stream, table WHERE …) x, …"
            if counts:
                hint = "read a stream with TIMESTAMP BY; a table may be joined with one: FROM (SELECT …) x"
            raise QueryError("Q212", message, source.name.span, hint=hint)


def alert_context(scope: Scope, place: str) -> ExpressionContext:
    """Return the context of a clause of an alert, which refuses aggregates and queries."""

    def refuse(node: AggregateNode) -> Expression:
        hint = "an alert takes single elements; for groups write SELECT … GROUP BY … HAVING …"
        raise QueryError("Q107", f"an aggregate is not allowed in the {place} of an alert", node.span, hint=hint)

    def refuse_query(node: syntax.QueryExpression) -> Expression:
        hint = "join with it in FROM: FROM (SELECT … FROM stream, table WHERE …) x, …"
        raise QueryError("Q116", f"a query is not allowed in the {place} of an alert", node.span, hint=hint)

    return ExpressionContext(scope, refuse, refuse_query)


def filter_plan(plan: Plan, terms: Sequence[Expression]) -> Plan:
    """Return the elements for which all terms are true."""
    predicate = conjunction(tuple(terms))
    return Filter(plan, predicate, predicate.span) if terms else plan

"""FROM: streams, tables and subqueries, their windows, and joins between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.algebra.adaptable import has_range, why_fixed, with_one_size
from tidegate.algebra.plan import (
    Changes,
    CountWindow,
    Granularity,
    Join,
    Map,
    Output,
    Plan,
    Scan,
    SemiJoin,
    Split,
    Union,
    Validity,
    Window,
    inputs,
    rewrite,
    walk,
)
from tidegate.catalog.catalog import DerivedStream, SourceStream, Stream
from tidegate.errors import QueryError, Span, suggest_name
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import TRUE, Column, Expression, Literal, conjunction
from tidegate.language import syntax
from tidegate.language.bind.constraints.declared import known_constraints
from tidegate.language.bind.context import BindContext, BoundSource, QueryBinder
from tidegate.language.bind.names import Scope, VisibleStream, find_column, is_same_name, unique_name
from tidegate.language.bind.query.expressions import bind_condition, without_aggregates
from tidegate.language.bind.warnings.idle_clauses import warn_of_fixed_size, warn_of_time_clauses
from tidegate.language.bind.warnings.unwindowed import JOINED, is_lookup, unwindowed_names, warn_unwindowed
from tidegate.language.syntax import JoinKind, Name
from tidegate.time import CHRONON


def read_from(sources: Sequence[syntax.Source], around: BindContext, bind_query: QueryBinder) -> BoundSource:
    """Return the combinations of elements of all sources, and the names of their columns."""
    read = _bind_source(sources[0], around, (), bind_query)
    for source in sources[1:]:
        span = read.plan.span.to(source.span)
        read = _cross_join(read, _bind_source(source, around, read.scope, bind_query), span, around)
    return read


def read_separately(
    sources: Sequence[syntax.Source], around: BindContext, bind_query: QueryBinder
) -> list[BoundSource]:
    """Return the elements of each source separately, and the names of their columns."""
    reads: list[BoundSource] = []
    for source in sources:
        before = tuple(visible for read in reads for visible in read.scope)
        reads.append(_bind_source(source, around, before, bind_query))
    return reads


def _cross_join(left: BoundSource, right: BoundSource, span: Span, around: BindContext) -> BoundSource:
    open_ = left.unwindowed + right.unwindowed
    plan, is_lookup_ = Join(left.plan, right.plan, TRUE, span), left.is_lookup and right.is_lookup
    if not (left.is_lookup or right.is_lookup):
        has_keys = any(isinstance(node, Scan) and node.key for node in walk(plan))
        warn_unwindowed(open_, JOINED, around, has_keys=has_keys)
    return BoundSource(plan, left.scope + right.scope, open_, is_lookup_)


def _bind_source(source: syntax.Source, around: BindContext, before: Scope, bind_query: QueryBinder) -> BoundSource:
    match source:
        case syntax.JoinClause(left=left, right=right):
            first = _bind_source(left, around, before, bind_query)
            second = _bind_source(right, around, before + first.scope, bind_query)
            return _bind_join(source, first, second, around)
        case syntax.StreamReference(name=name, alias=alias):
            plan, stream = _stream_plan(source, around)
            windowed = _apply_time_clauses(plan, source, (alias.text if alias else "", stream.name), around)
            read = _qualify_columns(windowed, alias or name, stream.name, before, around)
            return replace(read, unwindowed=unwindowed_names(source, windowed), is_lookup=is_lookup(source, windowed))
        case syntax.Subquery(query=query, alias=alias, span=span):
            plan = bind_query(query, replace(around, outer=()))
            plan = _apply_time_clauses(plan, source, (alias.text if alias else "",), around)
            read = _qualify_columns(plan, alias or _anonymous_alias(before, span), None, before, around)
            read = replace(read, unwindowed=unwindowed_names(source, plan), is_lookup=is_lookup(source, plan))
            if alias is not None:
                return read
            # Columns of a subquery without an alias keep the names that they have inside it.
            return replace(read, scope=(replace(read.scope[0], origins=_origins(plan)),))


def _anonymous_alias(before: Scope, span: Span) -> Name:
    return Name(unique_name("subquery", (v.alias for v in before)), span)


def _origins(plan: Plan) -> tuple[str, ...]:
    """Return the names of the columns of a plan inside it, qualified with their stream."""
    while not isinstance(plan, Map):
        if len(inputs(plan)) != 1:
            return ()
        plan = inputs(plan)[0]
    return tuple(o.expression.name if isinstance(o.expression, Column) else "" for o in plan.outputs)


def _qualify_columns(plan: Plan, alias: Name, stream: str | None, before: Scope, around: BindContext) -> BoundSource:
    """Rename the columns of a plan to alias.column, so that they differ from those of other streams."""
    if any(is_same_name(visible.alias, alias.text) for visible in before):
        hint = f"give it another alias: {alias.text} AS {unique_name(alias.text, [alias.text])}"
        raise QueryError("Q105", f"there are two '{alias.text}' in this FROM", alias.span, hint=hint)
    taken = [*(name for visible in before for name in visible.plan_names), *around.outer_names]
    prefix = unique_name(alias.text, (visible.alias for scope in around.outer for visible in scope))
    names = tuple(unique_name(f"{prefix}.{field.name}", taken) for field in plan.schema)
    outputs = tuple(Output(n, Column(f.name, f.type, alias.span)) for n, f in zip(names, plan.schema, strict=True))
    visible = VisibleStream(alias.text, stream, plan.schema.fields, names)
    return BoundSource(Map(plan, outputs, alias.span), (visible,))


# ---- streams and tables


def _stream_plan(reference: syntax.StreamReference, around: BindContext) -> tuple[Plan, Stream]:
    match around.catalog.find(reference.name.text):
        case SourceStream() as stream:
            return _scan(stream, reference.name.span, around), stream
        case DerivedStream() as stream:
            ours = stream.name.lower() in around.made_here
            return stream.plan if ours else _move_spans(stream.plan, reference.span), stream
    raise _unknown_stream(reference.name, around)


def _scan(stream: SourceStream, span: Span, around: BindContext) -> Scan:
    constraints = known_constraints(stream, around, span)
    return Scan(stream.name, stream.schema, span, stream.validity, stream.domains, stream.key, constraints)


def _move_spans(plan: Plan, span: Span) -> Plan:
    """Move all positions of the plan to where it is read, because its own are in another text."""
    return rewrite(plan, lambda node: replace(node, span=span))


def _unknown_stream(name: Name, around: BindContext) -> QueryError:
    hint = suggest_name(name.text, (stream.name for stream in around.catalog))
    if is_same_name(around.making, name.text):
        hint = "read another stream, or give the new one another name"
        return QueryError("Q105", f"stream '{name.text}' cannot read itself", name.span, hint=hint)
    if name.text.lower() in around.made_later:
        hint = "it is created further below; move it before this query"
        if around.making is not None:
            hint += f"; if it also reads '{around.making}', the two form a cycle: remove one of them"
    return QueryError("Q101", f"unknown stream '{name.text}'", name.span, hint=hint)


# ---- windows


def _apply_time_clauses(
    plan: Plan, source: syntax.StreamReference | syntax.Subquery, qualifiers: tuple[str, ...], around: BindContext
) -> Plan:
    window, granularity = source.window, source.granularity
    warn_of_time_clauses(source, plan, around)
    if window is not None:
        plan = _keep_range(_apply_window(plan, window, qualifiers), window, around)
    if granularity is None:
        return plan
    coarse = Granularity(plan, granularity.size, granularity.span, granularity.coarsest)
    return _keep_range(coarse, granularity, around)


def _keep_range(plan: Plan, clause: syntax.AnyWindow | syntax.GranularityClause, around: BindContext) -> Plan:
    """Return a window or granularity without its range of sizes if that has no effect, and warn."""
    if not has_range(plan) or (why := why_fixed(plan)) is None:
        return plan
    warn_of_fixed_size(clause, why, around)
    return with_one_size(plan)


def _apply_window(plan: Plan, window: syntax.AnyWindow, qualifiers: tuple[str, ...]) -> Plan:
    keys = tuple(_partition_column(plan, column, qualifiers) for column in window.keys)
    # The window of one chronon changes nothing: it is the identity (PIPES, section 9.2).
    if isinstance(window, syntax.WindowClause) and (window.size, window.slide) == (CHRONON, CHRONON):
        return plan
    if _is_relation(plan):
        message = "a table cannot have a window: its rows are valid while they are in it"
        hint = "remove the window, or put it after the stream that the table is joined with"
        raise QueryError("Q205", message, window.span, hint=hint)
    match window:
        case syntax.WindowClause(size=size, slide=slide, span=span):
            return Window(plan, size, slide, span, least=window.least)
        case syntax.RowsClause(rows=rows, slide=slide, span=span):
            return CountWindow(plan, rows, slide, keys, span, window.least)


def _partition_column(plan: Plan, column: syntax.ColumnReference, qualifiers: tuple[str, ...]) -> str:
    """Return the column to partition by; it must belong to the stream itself."""
    qualifier = column.qualifier
    if qualifier is not None and not any(is_same_name(known, qualifier.text) for known in qualifiers):
        hint = "a window partitions by columns of its own stream: write the column alone"
        raise QueryError("Q101", f"'{qualifier.text}' is not this stream", qualifier.span, hint=hint)
    for field in plan.schema:
        if is_same_name(field.name, column.name.text):
            return field.name
    meant = suggest_name(column.name.text, plan.schema.names)
    raise QueryError("Q102", f"this stream has no column '{column.name.text}'", column.name.span, hint=meant)


def _is_relation(plan: Plan) -> bool:
    """Return whether rows are valid while they are in a table, hence for an unknown time."""
    match plan:
        case Scan(validity=validity):
            return validity is Validity.RELATION
        case Join(left=left, right=right):
            return _is_relation(left) and _is_relation(right)
        case SemiJoin(left=left):
            return _is_relation(left)
        case Changes() | Split():
            return False
    return any(_is_relation(each) for each in inputs(plan))


# ---- joins


def _bind_join(join: syntax.JoinClause, left: BoundSource, right: BoundSource, around: BindContext) -> BoundSource:
    both = _cross_join(left, right, join.span, around)
    if join.using:
        predicate, scope = _bind_using(join, left, right)
        both = replace(both, scope=scope)
    elif join.condition is None:
        return both
    else:
        predicate = bind_condition(
            join.condition, without_aggregates(both.scope, "ON", hint="put conditions on aggregates into HAVING")
        )
    matched = Join(left.plan, right.plan, predicate, join.span)
    parts: list[Plan] = [matched]
    if join.kind in (JoinKind.LEFT, JoinKind.FULL):
        parts.append(_unmatched_rows(matched, left.plan, right.plan))
    if join.kind in (JoinKind.RIGHT, JoinKind.FULL):
        parts.append(_unmatched_rows(matched, right.plan, left.plan))
    return replace(both, plan=matched if len(parts) == 1 else Union(tuple(parts), join.span))


def _unmatched_rows(join: Join, kept: Plan, other: Plan) -> Plan:
    """Return elements without a partner, with NULLs in the partner's columns."""
    alone = SemiJoin(kept, other, join.predicate, anti=True, span=join.span)
    outputs = (
        Output(f.name, Column(f.name, f.type) if f.name in kept.schema else Literal(None, f.type)) for f in join.schema
    )
    return Map(alone, tuple(outputs), join.span)


def _bind_using(join: syntax.JoinClause, left: BoundSource, right: BoundSource) -> tuple[Expression, Scope]:
    """Return the equality of the USING columns, and the scope; an unqualified name means the preserved side."""
    if join.kind is JoinKind.FULL:
        hint = "write ON, and COALESCE(a.x, b.x) for the column of either"
        raise QueryError("Q002", "USING in a FULL JOIN is not supported yet", join.using[0].span, hint=hint)
    terms = []
    for name in join.using:
        sides = [find_column(read.scope, syntax.ColumnReference(None, name, name.span)) for read in (left, right)]
        terms.append(resolve("=", sides, name.span))
    shared = frozenset(name.text.lower() for name in join.using)
    scopes = [left.scope, right.scope]
    less = 0 if join.kind is JoinKind.RIGHT else 1
    scopes[less] = tuple(replace(visible, hidden=visible.hidden | shared) for visible in scopes[less])
    return conjunction(tuple(terms)), scopes[0] + scopes[1]

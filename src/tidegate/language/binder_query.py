"""From a written query to a logical plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.algebra.plan import Distinct, Filter, Join, Map, Output, Plan, Scan, Window, rewrite
from tidegate.catalog.catalog import Catalog, DerivedStream, SourceStream, Stream
from tidegate.errors import QueryError, Span, nearest
from tidegate.expressions.nodes import TRUE, Column
from tidegate.language import syntax
from tidegate.language.binder_expressions import Context, bind_condition, bind_expression, without_aggregates
from tidegate.language.binder_groups import Aggregates, Item, aliases, bind_keys, group
from tidegate.language.binder_union import settled, union_all
from tidegate.language.names import Scope, Visible, all_unique, expand, output_name, same, unique
from tidegate.time import CHRONON


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a query can read: streams known so far, which of them this text made, and which it makes later."""

    catalog: Catalog
    made_here: frozenset[str] = frozenset()
    made_later: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Read:
    """What FROM, or a part of it, gives: a plan and the names in it."""

    plan: Plan
    scope: Scope


def bind_query(query: syntax.Query, around: Surroundings) -> Plan:
    """The plan of a query; its columns have the names and types that the result has."""
    match query:
        case syntax.UnionAll(queries=queries, span=span):
            return settled(union_all([_select(each, around) for each in queries], queries, span))
        case syntax.Select():
            return settled(_select(query, around))


# ---- FROM


def _from(sources: Sequence[syntax.Source], around: Surroundings) -> _Read:
    read = _source(sources[0], around, ())
    for source in sources[1:]:
        read = _pair(read, _source(source, around, read.scope), read.plan.span.to(source.span))
    return read


def _pair(left: _Read, right: _Read, span: Span) -> _Read:
    return _Read(Join(left.plan, right.plan, TRUE, span), left.scope + right.scope)


def _source(source: syntax.Source, around: Surroundings, before: Scope) -> _Read:
    match source:
        case syntax.JoinClause(left=left, right=right, condition=condition, span=span):
            first = _source(left, around, before)
            both = _pair(first, _source(right, around, before + first.scope), span)
            return both if condition is None else _on(both, condition)
        case syntax.StreamReference(name=name, window=window, alias=alias):
            plan, stream = _stream_plan(source, around)
            return _named(_windowed(plan, window), alias or name, stream.name, before)
        case syntax.Subquery(query=query, window=window, alias=alias, span=span):
            plan = _windowed(bind_query(query, around), window)
            return _named(plan, alias or _anonymous(before, span), None, before)


def _on(read: _Read, condition: syntax.Expression) -> _Read:
    predicate = bind_condition(condition, without_aggregates(read.scope, "ON"))
    match read.plan:
        case Join() as join:
            return replace(read, plan=replace(join, predicate=predicate))
    return read


def _anonymous(before: Scope, span: Span) -> syntax.Name:
    return syntax.Name(unique("subquery", (v.alias for v in before)), span)


def _stream_plan(reference: syntax.StreamReference, around: Surroundings) -> tuple[Plan, Stream]:
    match around.catalog.find(reference.name.text):
        case SourceStream() as stream:
            return Scan(stream.name, stream.schema, reference.name.span), stream
        case DerivedStream() as stream:
            ours = stream.name.lower() in around.made_here
            return stream.plan if ours else _as_read_here(stream.plan, reference.span), stream
    raise _unknown_stream(reference.name, around)


def _as_read_here(plan: Plan, span: Span) -> Plan:
    """The plan with all its places set to where it is read: its own are in some other text."""
    return rewrite(plan, lambda node: replace(node, span=span))


def _unknown_stream(name: syntax.Name, around: Surroundings) -> QueryError:
    hint = nearest(name.text, (stream.name for stream in around.catalog))
    if name.text.lower() in around.made_later:
        hint = "it is created further below; streams come before their readers"
    return QueryError("Q101", f"unknown stream '{name.text}'", name.span, hint=hint)


def _windowed(plan: Plan, window: syntax.WindowClause | None) -> Plan:
    # The window of one chronon changes nothing: it is the identity (PIPES, section 9.2).
    if window is None or (window.size, window.slide) == (CHRONON, CHRONON):
        return plan
    return Window(plan, window.size, window.slide, window.span)


def _named(plan: Plan, alias: syntax.Name, stream: str | None, before: Scope) -> _Read:
    """Call the columns of a plan alias.column, so that they are unique beside those of other streams."""
    if any(same(visible.alias, alias.text) for visible in before):
        hint = f"give it another alias: {alias.text} AS {unique(alias.text, [alias.text])}"
        raise QueryError("Q105", f"there are two '{alias.text}' in this FROM", alias.span, hint=hint)
    taken = [name for visible in before for name in visible.plan_names]
    names = tuple(unique(f"{alias.text}.{field.name}", taken) for field in plan.schema)
    outputs = tuple(Output(n, Column(f.name, f.type, alias.span)) for n, f in zip(names, plan.schema, strict=True))
    visible = Visible(alias.text, stream, plan.schema.fields, names)
    return _Read(Map(plan, outputs, alias.span), (visible,))


# ---- SELECT


def _select(select: syntax.Select, around: Surroundings) -> Plan:
    read = _from(select.sources, around)
    plan = _where(read, select.where)
    aggregates = Aggregates(read.scope, plan.schema.names)
    context = Context(read.scope, aggregates.add)
    items = _items(select.items, context)
    having = None if select.having is None else bind_condition(select.having, replace(context, aliases=aliases(items)))
    if select.group_by or select.having is not None or aggregates.calls:
        grouped = group(plan, bind_keys(select.group_by, items, aggregates), aggregates.calls, select.span)
        items = [replace(item, expression=grouped.over(item.expression)) for item in items]
        plan = grouped.plan if having is None else Filter(grouped.plan, grouped.over(having), having.span)
    return _result(plan, items, select)


def _where(read: _Read, condition: syntax.Expression | None) -> Plan:
    if condition is None:
        return read.plan
    context = without_aggregates(read.scope, "WHERE", hint="conditions on aggregates stand in HAVING")
    return Filter(read.plan, bind_condition(condition, context), condition.span)


def _items(written: Sequence[syntax.Item | syntax.Star], context: Context) -> list[Item]:
    items: list[Item] = []
    for node in written:
        match node:
            case syntax.Star():
                items += [Item(name, column) for name, column in expand(context.scope, node)]
            case syntax.Item(expression=expression, alias=None):
                items.append(Item(output_name(expression, len(items) + 1), bind_expression(expression, context)))
            case syntax.Item(expression=expression, alias=syntax.Name(text=alias)):
                items.append(Item(alias, bind_expression(expression, context), is_alias=True))
    return items


def _result(plan: Plan, items: Sequence[Item], select: syntax.Select) -> Plan:
    names = all_unique(item.name for item in items)
    outputs = tuple(Output(name, item.expression) for name, item in zip(names, items, strict=True))
    result = Map(plan, outputs, select.span)
    return Distinct(settled(result), select.span) if select.distinct else result

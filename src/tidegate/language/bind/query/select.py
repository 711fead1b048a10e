"""Bind a written query to a logical plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tidegate.algebra.plan import Change, Changes, Distinct, Filter, Map, Output, Plan, Split
from tidegate.catalog.catalog import DerivedStream
from tidegate.errors import QueryError
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import Call, Column, Expression, columns_of, conjunction, conjuncts, transform
from tidegate.language import syntax
from tidegate.language.bind.context import BindContext, Read
from tidegate.language.bind.names import Scope, all_unique, expand, output_name, unique
from tidegate.language.bind.query.conditions import has_query
from tidegate.language.bind.query.empty_value import value_of_nothing
from tidegate.language.bind.query.expressions import Context, bind_condition, bind_expression, without_aggregates
from tidegate.language.bind.query.groups import Aggregates, Grouped, Item, aliases, bind_keys, group
from tidegate.language.bind.query.order import bind_ordered
from tidegate.language.bind.query.polarity import narrow_marks
from tidegate.language.bind.query.sets import set_operation, settled, union_all
from tidegate.language.bind.query.sources import read_from
from tidegate.language.bind.query.subqueries import Inner, Subqueries
from tidegate.language.bind.query.unnesting import Test, refuse_unknown, with_steps, with_tests
from tidegate.language.bind.warnings.unwindowed import COMPARED, DISTINCT_ROWS, GROUPED, warn_instants, warn_unwindowed
from tidegate.time import CHRONON

_CHANGES = {"istream": Change.INSERTED, "dstream": Change.DELETED, "dstream last": Change.DELETED_LAST}


def bind_query(query: syntax.Query, around: BindContext) -> Plan:
    """Return the plan of a query, with the column names and types of its result."""
    match query:
        case syntax.UnionAll(queries=queries, span=span):
            return settled(union_all([_unsettled(each, around) for each in queries], queries, span))
        case syntax.SetQuery(operator=operator, left=left, right=right, span=span):
            plans = [bind_query(each, around) for each in (left, right)]
            for each, plan in zip((left, right), plans, strict=True):
                warn_instants(each, plan, f"{operator.upper()} compares only rows of one instant", around)
            return set_operation(operator, plans, (left, right), span)
        case syntax.Ordered():
            return bind_ordered(query, around, bind_query)
        case syntax.ChangesOf(function=function, query=below, span=span):
            plan = bind_query(below, around)
            return Split(plan, CHRONON, span) if function == "rstream" else Changes(plan, _CHANGES[function], span)
        case syntax.WithQuery():
            return bind_query(query.query, defined(query, around))
        case syntax.QueryWithOptions(options=options):
            what, place = ("EMIT EARLY", query.early) if options is None else ("WITH (…)", options.span)
            hint = "write it at the end of the statement that runs: it holds for all of it"
            raise QueryError("Q126", f"{what} cannot stand behind a part of a query", place or query.span, hint=hint)
        case syntax.Select():
            return settled(_select(query, around))


def _unsettled(query: syntax.Query, around: BindContext) -> Plan:
    # A bare NULL takes the type of the column with which UNION ALL aligns it.
    return _select(query, around) if isinstance(query, syntax.Select) else bind_query(query, around)


def defined(query: syntax.WithQuery, around: BindContext) -> BindContext:
    """Return the context of a query after the definitions of its WITH."""
    seen: set[str] = set()
    for definition in query.definitions:
        name = definition.name.text
        if name.lower() in seen:
            raise QueryError("Q105", f"there are two '{name}' in this WITH", definition.name.span, hint="rename one")
        seen.add(name.lower())
        catalog = around.catalog.with_stream(DerivedStream(name, bind_query(definition.query, around)))
        around = replace(around, catalog=catalog, made_here=around.made_here | {name.lower()})
    return around


# ---- SELECT


@dataclass(frozen=True, slots=True)
class _Selected:
    """A SELECT before its projection: the plan of its items, and their correlation with the enclosing query."""

    plan: Plan
    items: list[Item]
    correlation: tuple[Expression, ...] = ()
    is_grouped: bool = False
    nothing: tuple[Expression | None, ...] = ()
    """The values of the items of an aggregating query over no elements; None: unknown."""


def _select(select: syntax.Select, around: BindContext) -> Plan:
    selected = _selected(select, around)
    names = all_unique(item.name for item in selected.items)
    outputs = tuple(Output(name, item.expression) for name, item in zip(names, selected.items, strict=True))
    result = Map(selected.plan, outputs, select.span)
    if not select.distinct:
        return result
    warn_instants(select, result, DISTINCT_ROWS, around)
    return Distinct(settled(result), select.span)


def _selected(select: syntax.Select, around: BindContext) -> _Selected:
    if select.utility is not None:
        hint = "it is about the results of a whole statement: write it into the outermost SELECT; a UNION has none"
        raise QueryError("Q127", "UTILITY BY cannot stand in a part of a query", select.utility.span, hint=hint)
    read = read_from(select.sources, around, bind_query)
    plan, correlation = _where(read, select.where, around)
    aggregates = Aggregates(read.scope, plan.schema.names)
    queries = replace(_subqueries(read.scope, plan, around), counts=aggregates.has_count)
    context = _context(read.scope, aggregates, queries)
    items = _items(select.items, replace(context, outer=around.outer))
    context = replace(context, aliases=aliases(items))
    having, tests = ([], []) if select.having is None else queries.conditions(select.having, context)
    if not (select.group_by or select.having is not None or aggregates.calls):
        return _Selected(with_steps(plan, queries.steps, _as_it_is), items, correlation)
    warn_unwindowed(read.unwindowed, GROUPED, around)
    keys = bind_keys(select.group_by, items, aggregates)
    pairs = [_equality(term, plan) for term in correlation]
    every_key = tuple(dict.fromkeys((*keys, *(inner for inner, _ in pairs))))
    grouped = group(plan, every_key, aggregates.calls, select.span)
    tested = [part for test in tests for part in test.expressions]
    queries.steps = narrow_marks(queries.steps, having, [*(item.expression for item in items), *tested])
    plan = _having(grouped, having, tests, queries)
    over = replace(grouped, plan=plan).over
    items = [replace(item, expression=over(item.expression)) for item in items]
    bound = tuple(resolve("=", (over(inner), outer), outer.span) for inner, outer in pairs)
    made = [step.column.name for step in queries.steps]
    nothing = tuple(value_of_nothing(item.expression, aggregates.calls, made) for item in items)
    return _Selected(plan, items, bound, is_grouped=True, nothing=nothing)


def _as_it_is(expression: Expression, _others: Iterable[str]) -> Expression:
    return expression


def _context(scope: Scope, aggregates: Aggregates, queries: Subqueries) -> Context:
    def query(node: syntax.QueryExpression) -> Expression:
        return queries.value(node, context)

    context = Context(scope, aggregates.add, query)
    return context


def _having(grouped: Grouped, having: Sequence[Expression], tests: Sequence[Test], queries: Subqueries) -> Plan:
    plan, made = grouped.plan, frozenset(step.column.name for step in queries.steps)
    first = [term for term in having if not columns_of(term) & made]
    plan = _filtered(plan, [grouped.over(term) for term in first])
    plan = with_tests(plan, (t for t in tests if not columns_of(t.predicate) & made), grouped.over)
    plan = with_steps(plan, queries.steps, grouped.over)
    over = replace(grouped, plan=plan).over
    plan = with_tests(plan, (t for t in tests if columns_of(t.predicate) & made), over)
    return _filtered(plan, [over(term) for term in having if columns_of(term) & made])


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


# ---- WHERE


def _where(read: Read, condition: syntax.Expression | None, around: BindContext) -> tuple[Plan, tuple[Expression, ...]]:
    """Return the elements for which a condition is true, and its terms that read columns of the outer query."""
    if condition is None:
        return read.plan, ()
    queries = _subqueries(read.scope, read.plan, around)
    context = without_aggregates(read.scope, "WHERE", hint="conditions on aggregates stand in HAVING")
    context = replace(context, outer=around.outer)
    within = replace(context, query=lambda node: queries.value(node, context))
    if has_query(condition):
        plain, tests = queries.conditions(condition, within)
    else:
        whole = bind_condition(condition, context)
        plain, tests = [whole] if columns_of(whole) <= set(read.plan.schema.names) else list(conjuncts(whole)), []
    return _restricted(read.plan, plain, tests, queries)


def _restricted(
    plan: Plan, plain: Sequence[Expression], tests: Sequence[Test], queries: Subqueries
) -> tuple[Plan, tuple[Expression, ...]]:
    made, own = frozenset(step.column.name for step in queries.steps), frozenset(plan.schema.names)
    here = [term for term in plain if columns_of(term) <= own]
    later = [term for term in plain if columns_of(term) & made]
    correlation = tuple(term for term in plain if term not in here and term not in later)
    plan = with_tests(_filtered(plan, here), (t for t in tests if not columns_of(t.predicate) & made), _as_it_is)
    tested = [part for test in tests for part in test.expressions]
    plan = with_steps(plan, narrow_marks(queries.steps, later, [*correlation, *tested]), _as_it_is)
    plan = with_tests(plan, (t for t in tests if columns_of(t.predicate) & made), _as_it_is)
    for term in later:
        refuse_unknown(term, plan.schema.names)
    return _filtered(plan, later), correlation


def _filtered(plan: Plan, terms: Sequence[Expression]) -> Plan:
    if not terms:
        return plan
    predicate = conjunction(tuple(terms))
    return Filter(plan, predicate, predicate.span)


# ---- queries inside expressions


def _subqueries(scope: Scope, plan: Plan, around: BindContext) -> Subqueries:
    within = replace(around, outer=(scope, *around.outer))
    return Subqueries(lambda query: _inner(query, within), plan)


def _inner(query: syntax.Query, around: BindContext) -> Inner:
    match query:
        case syntax.Select():
            selected = _selected(query, around)
            warn_instants(query, selected.plan, COMPARED, around)
            values = tuple(item.expression for item in selected.items)
            single = selected.is_grouped and not query.group_by
            inner = Inner(selected.plan, values, selected.correlation, single)
            return _apart(replace(inner, nothing=selected.nothing[0]) if single else inner, around)
        case syntax.Ordered(limit=syntax.LimitClause(count=1, keys=())):
            single = True
        case _:
            single = False
    plan = bind_query(query, replace(around, outer=()))
    return _apart(Inner(plan, tuple(Column(f.name, f.type) for f in plan.schema), (), single), around)


def _apart(inner: Inner, around: BindContext) -> Inner:
    """Rename the columns of an inner query so that they differ from those of the enclosing query."""
    aliases_ = (visible.alias for scope in around.outer for visible in scope)
    prefix, taken = unique("subquery", aliases_), tuple(around.outer_names)
    plan = inner.plan
    names = {n: n if "." in n else unique(f"{prefix}.{n}", taken) for n in plan.schema.names}
    if all(old == new for old, new in names.items()):
        return inner

    def renamed(expression: Expression) -> Expression:
        return transform(
            expression, lambda e: replace(e, name=names.get(e.name, e.name)) if isinstance(e, Column) else e
        )

    outputs = tuple(Output(names[f.name], Column(f.name, f.type)) for f in plan.schema)
    values, correlation = map(renamed, inner.values), map(renamed, inner.correlation)
    return replace(inner, plan=Map(plan, outputs, plan.span), values=tuple(values), correlation=tuple(correlation))


def _equality(term: Expression, plan: Plan) -> tuple[Expression, Expression]:
    """Return the inner and the outer side of a condition between a grouped query and the enclosing one."""
    own = frozenset(plan.schema.names)
    match term:
        case Call("=", (a, b)):
            for inner, outer in ((a, b), (b, a)):
                if columns_of(inner) <= own and not columns_of(outer) & own:
                    return inner, outer
    message = "a query with aggregates can be bound to the query around it by equality only"
    hint = "write inner.x = outer.x, or join the streams and group the result"
    raise QueryError("Q117", message, term.span, hint=hint)

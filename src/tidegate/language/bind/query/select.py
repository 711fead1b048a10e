"""Bind a written query to a logical plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tidegate.algebra.plan import WHOLE, Change, Changes, Coalesce, Distinct, Filter, Map, Output, Plan, Split
from tidegate.catalog.catalog import DerivedStream
from tidegate.errors import QueryError
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import Call, Column, Expression, columns_of, conjunction, conjuncts, transform
from tidegate.language import syntax
from tidegate.language.bind.context import BindContext, BoundSource
from tidegate.language.bind.names import Scope, expand_star, output_name, unique_name, unique_names
from tidegate.language.bind.query.conditions import has_query
from tidegate.language.bind.query.empty_value import value_of_empty
from tidegate.language.bind.query.expressions import (
    ExpressionContext,
    bind_condition,
    bind_expression,
    without_aggregates,
)
from tidegate.language.bind.query.groups import (
    Aggregates,
    BoundItem,
    GroupedPlan,
    alias_expressions,
    bind_keys,
    group_plan,
)
from tidegate.language.bind.query.order import bind_ordered
from tidegate.language.bind.query.polarity import narrow_marks
from tidegate.language.bind.query.sets import cast_bare_nulls, set_operation, union_all
from tidegate.language.bind.query.sources import read_from
from tidegate.language.bind.query.subqueries import InnerQuery, Subqueries
from tidegate.language.bind.query.unnesting import SemiJoinTest, refuse_unknown, with_steps, with_tests
from tidegate.language.bind.warnings.unwindowed import COMPARED, DISTINCT_ROWS, GROUPED, warn_instants, warn_unwindowed
from tidegate.time import CHRONON
from tidegate.values import value

_CHANGES = {"istream": Change.INSERTED, "dstream": Change.DELETED, "dstream last": Change.DELETED_LAST}


def bind_query(query: syntax.Query, around: BindContext) -> Plan:
    """Return the plan of a query, with the column names and types of its result."""
    match query:
        case syntax.UnionAll(queries=queries, span=span):
            return cast_bare_nulls(union_all([_bind_with_bare_nulls(each, around) for each in queries], queries, span))
        case syntax.SetQuery(operator=operator, left=left, right=right, span=span):
            plans = [bind_query(each, around) for each in (left, right)]
            for each, plan in zip((left, right), plans, strict=True):
                warn_instants(each, plan, f"{operator.upper()} compares only rows of one instant", around)
            return set_operation(operator, plans, (left, right), span)
        case syntax.OrderedQuery():
            return bind_ordered(query, around, bind_query)
        case syntax.ChangesOf(function=function, query=below, span=span):
            plan = bind_query(below, around)
            return Split(plan, CHRONON, span) if function == "rstream" else Changes(plan, _CHANGES[function], span)
        case syntax.WithQuery():
            return bind_query(query.query, bind_definitions(query, around))
        case syntax.QueryWithOptions(options=options):
            with_clause = None if options is None else options.span
            clauses = (
                ("EMIT EARLY", query.early),
                ("EMIT CHANGES", query.changes),
                ("ADMIT ANYWAY", query.admitted),
                ("WITH (…)", with_clause),
            )
            what, place = next((what, place) for what, place in clauses if place is not None)
            hint = "write it at the end of the whole statement"
            raise QueryError("Q126", f"{what} is not allowed after a part of a query", place, hint=hint)
        case syntax.Select():
            return cast_bare_nulls(_bind_select(query, around))


def _bind_with_bare_nulls(query: syntax.Query, around: BindContext) -> Plan:
    # A bare NULL takes the type of the column with which UNION ALL aligns it.
    return _bind_select(query, around) if isinstance(query, syntax.Select) else bind_query(query, around)


def bind_definitions(query: syntax.WithQuery, around: BindContext) -> BindContext:
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


@value
class _UnprojectedSelect:
    """A SELECT before its projection: the plan of its items, and their correlation with the enclosing query."""

    plan: Plan
    items: list[BoundItem]
    correlation: tuple[Expression, ...] = ()
    is_grouped: bool = False
    empty_values: tuple[Expression | None, ...] = ()
    """The values of the items of an aggregating query over no elements; None: unknown."""


def _bind_select(select: syntax.Select, around: BindContext) -> Plan:
    selected = _bind_unprojected(select, around)
    names = unique_names(item.name for item in selected.items)
    outputs = tuple(Output(name, item.expression) for name, item in zip(names, selected.items, strict=True))
    result: Plan = Map(selected.plan, outputs, select.span)
    if select.distinct:
        warn_instants(select, result, DISTINCT_ROWS, around)
        result = Distinct(cast_bare_nulls(result), select.span)
    return result if select.coalesce is None else Coalesce(cast_bare_nulls(result), WHOLE, select.coalesce)


def _bind_unprojected(select: syntax.Select, around: BindContext) -> _UnprojectedSelect:
    if select.utility is not None:
        hint = "write it into the outermost SELECT; a UNION takes none"
        raise QueryError("Q127", "UTILITY BY is not allowed in a part of a query", select.utility.span, hint=hint)
    read = read_from(select.sources, around, bind_query)
    plan, correlation = _bind_where(read, select.where, around)
    aggregates = Aggregates(read.scope, plan.schema.names)
    queries = replace(_subquery_binder(read.scope, plan, around), is_count=aggregates.is_count)
    context = _select_context(read.scope, aggregates, queries)
    items = _bind_items(select.items, replace(context, outer=around.outer))
    context = replace(context, aliases=alias_expressions(items))
    having, tests = ([], []) if select.having is None else queries.split_condition(select.having, context)
    if not (select.group_by or select.having is not None or aggregates.calls):
        return _UnprojectedSelect(with_steps(plan, queries.steps, _identity), items, correlation)
    warn_unwindowed(read.unwindowed, GROUPED, around)
    keys = bind_keys(select.group_by, items, aggregates)
    pairs = [_split_equality(term, plan) for term in correlation]
    every_key = tuple(dict.fromkeys((*keys, *(inner for inner, _ in pairs))))
    grouped = group_plan(plan, every_key, aggregates.calls, select.span)
    tested = [part for test in tests for part in test.expressions]
    queries.steps = narrow_marks(queries.steps, having, [*(item.expression for item in items), *tested])
    plan = _filter_groups(grouped, having, tests, queries)
    over = replace(grouped, plan=plan).over_groups
    items = [replace(item, expression=over(item.expression)) for item in items]
    bound = tuple(resolve("=", (over(inner), outer), outer.span) for inner, outer in pairs)
    made = [step.column.name for step in queries.steps]
    nothing = tuple(value_of_empty(item.expression, aggregates.calls, made) for item in items)
    return _UnprojectedSelect(plan, items, bound, is_grouped=True, empty_values=nothing)


def _identity(expression: Expression, _others: Iterable[str]) -> Expression:
    return expression


def _select_context(scope: Scope, aggregates: Aggregates, queries: Subqueries) -> ExpressionContext:
    def bind_subquery(node: syntax.QueryExpression) -> Expression:
        return queries.bind_value(node, context)

    context = ExpressionContext(scope, aggregates.add, bind_subquery)
    return context


def _filter_groups(
    grouped: GroupedPlan, having: Sequence[Expression], tests: Sequence[SemiJoinTest], queries: Subqueries
) -> Plan:
    plan, made = grouped.plan, frozenset(step.column.name for step in queries.steps)
    first = [term for term in having if not columns_of(term) & made]
    plan = _filter_plan(plan, [grouped.over_groups(term) for term in first])
    plan = with_tests(plan, (t for t in tests if not columns_of(t.predicate) & made), grouped.over_groups)
    plan = with_steps(plan, queries.steps, grouped.over_groups)
    over = replace(grouped, plan=plan).over_groups
    plan = with_tests(plan, (t for t in tests if columns_of(t.predicate) & made), over)
    return _filter_plan(plan, [over(term) for term in having if columns_of(term) & made])


def _bind_items(written: Sequence[syntax.Item | syntax.Star], context: ExpressionContext) -> list[BoundItem]:
    items: list[BoundItem] = []
    for node in written:
        match node:
            case syntax.Star():
                items += [BoundItem(name, column) for name, column in expand_star(context.scope, node)]
            case syntax.Item(expression=expression, alias=None):
                items.append(BoundItem(output_name(expression, len(items) + 1), bind_expression(expression, context)))
            case syntax.Item(expression=expression, alias=syntax.Name(text=alias)):
                items.append(BoundItem(alias, bind_expression(expression, context), is_alias=True))
    return items


# ---- WHERE


def _bind_where(
    read: BoundSource, condition: syntax.Expression | None, around: BindContext
) -> tuple[Plan, tuple[Expression, ...]]:
    """Return the elements for which a condition is true, and its terms that read columns of the outer query."""
    if condition is None:
        return read.plan, ()
    queries = _subquery_binder(read.scope, read.plan, around)
    context = without_aggregates(read.scope, "WHERE", hint="put conditions on aggregates into HAVING")
    context = replace(context, outer=around.outer)
    within = replace(context, query=lambda node: queries.bind_value(node, context))
    if has_query(condition):
        plain, tests = queries.split_condition(condition, within)
    else:
        whole = bind_condition(condition, context)
        plain, tests = [whole] if columns_of(whole) <= set(read.plan.schema.names) else list(conjuncts(whole)), []
    return _apply_conditions(read.plan, plain, tests, queries)


def _apply_conditions(
    plan: Plan, plain: Sequence[Expression], tests: Sequence[SemiJoinTest], queries: Subqueries
) -> tuple[Plan, tuple[Expression, ...]]:
    made, own = frozenset(step.column.name for step in queries.steps), frozenset(plan.schema.names)
    here = [term for term in plain if columns_of(term) <= own]
    later = [term for term in plain if columns_of(term) & made]
    correlation = tuple(term for term in plain if term not in here and term not in later)
    plan = with_tests(_filter_plan(plan, here), (t for t in tests if not columns_of(t.predicate) & made), _identity)
    tested = [part for test in tests for part in test.expressions]
    plan = with_steps(plan, narrow_marks(queries.steps, later, [*correlation, *tested]), _identity)
    plan = with_tests(plan, (t for t in tests if columns_of(t.predicate) & made), _identity)
    for term in later:
        refuse_unknown(term, plan.schema.names)
    return _filter_plan(plan, later), correlation


def _filter_plan(plan: Plan, terms: Sequence[Expression]) -> Plan:
    if not terms:
        return plan
    predicate = conjunction(tuple(terms))
    return Filter(plan, predicate, predicate.span)


# ---- queries inside expressions


def _subquery_binder(scope: Scope, plan: Plan, around: BindContext) -> Subqueries:
    within = replace(around, outer=(scope, *around.outer))
    return Subqueries(lambda query: _bind_inner(query, within), plan)


def _bind_inner(query: syntax.Query, around: BindContext) -> InnerQuery:
    match query:
        case syntax.Select():
            selected = _bind_unprojected(query, around)
            warn_instants(query, selected.plan, COMPARED, around)
            values = tuple(item.expression for item in selected.items)
            single = selected.is_grouped and not query.group_by
            inner = InnerQuery(selected.plan, values, selected.correlation, single)
            return _rename_apart(replace(inner, empty_value=selected.empty_values[0]) if single else inner, around)
        case syntax.OrderedQuery(limit=syntax.LimitClause(count=1, keys=())):
            single = True
        case _:
            single = False
    plan = bind_query(query, replace(around, outer=()))
    return _rename_apart(InnerQuery(plan, tuple(Column(f.name, f.type) for f in plan.schema), (), single), around)


def _rename_apart(inner: InnerQuery, around: BindContext) -> InnerQuery:
    """Rename the columns of an inner query so that they differ from those of the enclosing query."""
    aliases_ = (visible.alias for scope in around.outer for visible in scope)
    prefix, taken = unique_name("subquery", aliases_), tuple(around.outer_names)
    plan = inner.plan
    names = {n: n if "." in n else unique_name(f"{prefix}.{n}", taken) for n in plan.schema.names}
    if all(old == new for old, new in names.items()):
        return inner

    def rename_columns(expression: Expression) -> Expression:
        return transform(
            expression, lambda e: replace(e, name=names.get(e.name, e.name)) if isinstance(e, Column) else e
        )

    outputs = tuple(Output(names[f.name], Column(f.name, f.type)) for f in plan.schema)
    values, correlation = map(rename_columns, inner.values), map(rename_columns, inner.correlation)
    return replace(inner, plan=Map(plan, outputs, plan.span), values=tuple(values), correlation=tuple(correlation))


def _split_equality(term: Expression, plan: Plan) -> tuple[Expression, Expression]:
    """Return the inner and the outer side of a condition between a grouped query and the enclosing one."""
    own = frozenset(plan.schema.names)
    match term:
        case Call("=", (a, b)):
            for inner, outer in ((a, b), (b, a)):
                if columns_of(inner) <= own and not columns_of(outer) & own:
                    return inner, outer
    message = "a query with aggregates can be compared with the query around it by equality only"
    hint = "write inner.x = outer.x, or join the streams and group the result"
    raise QueryError("Q117", message, term.span, hint=hint)

"""ORDER BY and LIMIT: the first rows of every instant."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.plan import Limit, Map, Order, Output, Plan
from tidegate.errors import QueryError, Span, suggest_name
from tidegate.expressions.nodes import Column
from tidegate.language import syntax
from tidegate.language.bind.context import BindContext, QueryBinder
from tidegate.language.bind.names import is_same_name, unique_name
from tidegate.language.bind.warnings.unwindowed import LIMITED, warn_instants
from tidegate.language.syntax import Expression, Name
from tidegate.schema import Schema, Type


def bind_ordered(query: syntax.OrderedQuery, around: BindContext, bind_query: QueryBinder) -> Plan:
    """Return the first rows of a query at every instant, in the requested order."""
    limit = query.limit
    if limit is None:
        span = query.order[0].span.to(query.order[-1].span)
        message = "ORDER BY needs a LIMIT: the rows valid at an instant are a set, without an order"
        raise QueryError("Q204", message, span, hint="add for example LIMIT 10, or remove ORDER BY")
    if limit.count < 1:
        raise QueryError("Q111", "LIMIT 0 returns no rows", limit.span, hint="write LIMIT 1 or more")
    if limit.ties and not query.order:
        message = "WITH TIES needs an ORDER BY: it decides which rows are equal"
        raise QueryError("Q204", message, limit.span, hint="add ORDER BY and a column")
    wanted = (*(order.expression for order in query.order), *limit.keys)
    plan, columns, visible = _bind_with_order_columns(query.query, wanted, around, bind_query)
    for column, each in zip(columns, query.order, strict=False):
        _refuse_unordered(plan.schema.type_of(column), each.span)
    order = tuple(
        Order(column, each.descending, each.nulls_first or False)
        for column, each in zip(columns, query.order, strict=False)
    )
    # Without ORDER BY, any order that does not depend on arrival is right.
    order = order or tuple(Order(name) for name in plan.schema.names)
    keys = columns[len(query.order) :]
    warn_instants(query.query, plan, LIMITED, around)
    first = Limit(plan, order, limit.count, limit.offset, keys, limit.span, limit.ties)
    if len(visible) == len(plan.schema):
        return first
    return Map(first, tuple(Output(f.name, Column(f.name, f.type, query.span)) for f in visible), query.span)


def _refuse_unordered(type_: Type, span: Span) -> None:
    if not type_.is_ordered:
        hint = "order by one of its values, or by CARDINALITY(…)"
        raise QueryError("Q204", f"{type_.name} has no order: no value is less than another", span, hint=hint)


def _bind_with_order_columns(
    query: syntax.Query, wanted: tuple[Expression, ...], around: BindContext, bind_query: QueryBinder
) -> tuple[Plan, tuple[str, ...], Schema]:
    """Return a plan, its columns for the wanted expressions, and the schema that the query itself selects."""
    plan = bind_query(query, around)
    schema = plan.schema
    found = [_find_result_column(each, schema) for each in wanted]
    missing = [each for each, column in zip(wanted, found, strict=True) if column is None]
    if not missing:
        return plan, tuple(column for column in found if column is not None), schema
    select = _extensible_select(query, missing[0], schema)
    names = [unique_name(f"order_{n}", schema.names) for n in range(1, len(missing) + 1)]
    more = (syntax.Item(e, Name(name, e.span), e.span) for name, e in zip(names, missing, strict=True))
    plan = bind_query(replace(select, items=(*select.items, *more)), around)
    rest = iter(names)
    return plan, tuple(next(rest) if column is None else column for column in found), schema


def _find_result_column(wanted: Expression, schema: Schema) -> str | None:
    """Return the column of the result that an expression gives by name or position."""
    match wanted:
        case syntax.Constant(value=int() as number, span=span) if not isinstance(number, bool):
            if not 1 <= number <= len(schema):
                raise QueryError("Q106", f"this SELECT has no column {number}", span, hint=f"it has {len(schema)}")
            return schema.names[number - 1]
        case syntax.ColumnReference(qualifier=None, name=name):
            return next((own for own in schema.names if is_same_name(own, name.text)), None)
    return None


def _extensible_select(query: syntax.Query, wanted: Expression, schema: Schema) -> syntax.Select:
    """Return a SELECT that can have additional columns to order by."""
    if isinstance(query, syntax.Select) and not query.distinct:
        return query
    what = "SELECT DISTINCT" if isinstance(query, syntax.Select) else "several queries"
    hint = suggest_name("", schema.names)
    raise QueryError("Q106", f"the result of {what} can be ordered only by its columns", wanted.span, hint=hint)

"""Bind written expressions to typed expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from datetime import datetime

from tidegate.errors import QueryError, Span, suggest_name
from tidegate.expressions.coercion import cast, coerce, unify
from tidegate.expressions.functions.aggregates import AGGREGATES
from tidegate.expressions.functions.resolve import function_names, resolve
from tidegate.expressions.functions.user_registry import find_aggregate
from tidegate.expressions.nodes import Case, Expression, InList, Literal
from tidegate.language import syntax
from tidegate.language.bind.names import Scope, find_column, find_type
from tidegate.schema import Type
from tidegate.values import value

AggregateNode = syntax.FunctionCall | syntax.CountStar


@value
class ExpressionContext:
    """The meaning of columns, aggregates, aliases of SELECT and queries in an expression.

    `outer` are the columns of the enclosing queries, the nearest first.
    """

    scope: Scope
    aggregate: Callable[[AggregateNode], Expression]
    query: Callable[[syntax.QueryExpression], Expression]
    aliases: Mapping[str, Expression] = field(default_factory=dict)
    outer: tuple[Scope, ...] = ()


def without_aggregates(scope: Scope, place: str, *, hint: str | None = None) -> ExpressionContext:
    """Return the context of a place where aggregates and queries are refused."""

    def refuse(node: AggregateNode) -> Expression:
        raise QueryError("Q107", f"an aggregate is not allowed in {place}", node.span, hint=hint)

    def refuse_query(node: syntax.QueryExpression) -> Expression:
        advice = "put it into WHERE, or into FROM and join with it"
        raise QueryError("Q116", f"a query is not allowed in {place}", node.span, hint=advice)

    return ExpressionContext(scope, refuse, refuse_query)


def bind_expression(node: syntax.Expression, context: ExpressionContext) -> Expression:
    """Return the typed expression, over the columns of the plan, for a written one."""
    match node:
        case syntax.Constant():
            return literal(node)
        case syntax.ColumnReference():
            return _bind_column(node, context)
        case syntax.CountStar(name=name, span=span):
            if name.text.lower() != "count":
                raise QueryError("Q107", f"{name.text.upper()} does not take a '*'", span, hint="only COUNT does")
            return context.aggregate(node)
        case syntax.FunctionCall(name=name) if find_aggregate(name.text) is not None:
            return context.aggregate(node)
        case syntax.FunctionCall(name=name, span=span) if node.distinct or node.filter is not None:
            word = "DISTINCT" if node.distinct else "FILTER"
            raise QueryError(
                "Q107",
                f"{word} is for aggregates, but '{name.text}' is not one",
                span,
                hint=suggest_name(name.text, AGGREGATES),
            )
        case syntax.FunctionCall(name=name, arguments=arguments, span=span):
            return _bind_call(name, _bind_all(arguments, context), span)
        case syntax.Operation(operator=operator, arguments=arguments, span=span):
            return resolve(operator, _bind_all(arguments, context), span)
        case syntax.Between(argument=argument, low=low, high=high, span=span):
            value, least, most = _bind_all((argument, low, high), context)
            return resolve("and", (resolve(">=", (value, least), span), resolve("<=", (value, most), span)), span)
        case syntax.SameAs(left=left, right=right, span=span):
            return _null_safe_equality(bind_expression(left, context), bind_expression(right, context), span)
        case syntax.OneOf(argument=argument, options=options, span=span):
            return _bind_one_of(bind_expression(argument, context), _bind_all(options, context), span)
        case syntax.CaseWhen():
            return _bind_case(node, context)
        case syntax.CastTo(argument=argument, type=type_, span=span):
            return cast(bind_expression(argument, context), find_type(type_), span)
        case syntax.QueryValue() | syntax.Exists() | syntax.InQuery() | syntax.QuantifiedComparison():
            return context.query(node)


def bind_condition(node: syntax.Expression, context: ExpressionContext) -> Expression:
    """Bind an expression that must be true or false."""
    return _require_boolean(bind_expression(node, context), node.span)


def literal(node: syntax.Constant) -> Literal:
    """Return a constant with the narrowest type that holds it."""
    match node.value:
        case None:
            return Literal(None, Type.NULL, node.span)
        case bool():
            return Literal(node.value, Type.BOOLEAN, node.span)
        case int():
            return Literal(node.value, _integer_type(node.value, node.span), node.span)
        case float():
            return Literal(node.value, Type.DOUBLE, node.span)
        case str():
            return Literal(node.value, Type.STRING, node.span)
        case datetime():
            return Literal(node.value, Type.TIMESTAMP, node.span)
    return Literal(node.value, Type.INTERVAL, node.span)


def _bind_column(node: syntax.ColumnReference, context: ExpressionContext) -> Expression:
    try:
        return find_column(context.scope, node)
    except QueryError as error:
        # As in other systems, an alias counts only if the streams have no such column.
        alias = context.aliases.get(node.name.text.lower()) if node.qualifier is None else None
        found = replace(alias, span=node.span) if alias is not None else _outer_column(node, context)
        if found is None or error.code == "Q103":
            raise
        return found


def _outer_column(node: syntax.ColumnReference, context: ExpressionContext) -> Expression | None:
    for depth, scope in enumerate(context.outer):
        try:
            column = find_column(scope, node)
        except QueryError:
            continue
        if depth == 0:
            return column
        message = f"'{node.name.text}' belongs to a query more than one level outside"
        hint = "a query in an expression can read only columns of the query directly around it"
        raise QueryError("Q117", message, node.span, hint=hint)
    return None


def _integer_type(value: int, span: Span) -> Type:
    if -(2**31) <= value < 2**31:
        return Type.INT
    if -(2**63) <= value < 2**63:
        return Type.BIGINT
    hint = f"write {value}.0 for a DOUBLE"
    raise QueryError("Q111", "this integer does not fit into 64 bits", span, hint=hint)


def _bind_all(nodes: Iterable[syntax.Expression], context: ExpressionContext) -> tuple[Expression, ...]:
    return tuple(bind_expression(node, context) for node in nodes)


def _require_boolean(expression: Expression, span: Span) -> Expression:
    if expression.type not in (Type.BOOLEAN, Type.NULL):
        message = f"a condition must be BOOLEAN, but this is {expression.type.name}"
        raise QueryError("Q113", message, span, hint="compare it with a value")
    return coerce(expression, Type.BOOLEAN, span)


def _bind_call(name: syntax.Name, arguments: tuple[Expression, ...], span: Span) -> Expression:
    known = name.text.lower() in function_names()
    return resolve(name.text, arguments, span if known else name.span)


def _null_safe_equality(left: Expression, right: Expression, span: Span) -> Expression:
    nulls = (resolve("is_null", (left,), span), resolve("is_null", (right,), span))
    either, both = resolve("or", nulls, span), resolve("and", nulls, span)
    return Case(((either, both),), resolve("=", (left, right), span), Type.BOOLEAN, span)


def _bind_case(node: syntax.CaseWhen, context: ExpressionContext) -> Expression:
    conditions = [_bind_branch(node.subject, condition, context) for condition, _ in node.branches]
    otherwise = node.otherwise or syntax.Constant(None, node.span)
    values = _bind_all([*(value for _, value in node.branches), otherwise], context)
    unified = unify(values, node.span)
    if unified is None:
        kinds = ", ".join(dict.fromkeys(v.type.name for v in values if v.type is not Type.NULL))
        hint = f"they are {kinds}; CAST them to one type"
        raise QueryError("Q115", "the branches of this CASE have no common type", node.span, hint=hint)
    *results, last = unified
    return Case(tuple(zip(conditions, results, strict=True)), last, last.type, node.span)


def _bind_branch(
    subject: syntax.Expression | None, condition: syntax.Expression, context: ExpressionContext
) -> Expression:
    if subject is None:
        return bind_condition(condition, context)
    return resolve("=", _bind_all((subject, condition), context), condition.span)


def _bind_one_of(argument: Expression, options: tuple[Expression, ...], span: Span) -> Expression:
    match unify((argument, *options), span):
        case (same_type, *constants) if same_type.type.is_ordered and all(isinstance(c, Literal) for c in constants):
            return InList(same_type, tuple(c for c in constants if isinstance(c, Literal)), span)
    return _any_of([resolve("=", (argument, option), option.span) for option in options], span)


def _any_of(terms: list[Expression], span: Span) -> Expression:
    """Return the OR of many terms, as a tree of logarithmic depth."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return resolve("or", (_any_of(terms[:middle], span), _any_of(terms[middle:], span)), span)

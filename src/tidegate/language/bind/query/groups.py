"""GROUP BY and aggregates: the expressions below an Aggregate, and those allowed above it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.algebra.plan import Aggregate, AggregateCall, Distinct, Map, Output, Plan
from tidegate.errors import QueryError, Span
from tidegate.expressions.coercion import coerce
from tidegate.expressions.functions.aggregates import AGGREGATES, AggregateFunction, Option, result_type
from tidegate.expressions.functions.user_registry import find_aggregate
from tidegate.expressions.nodes import Column, Expression, transform, walk
from tidegate.language import syntax
from tidegate.language.bind.names import Scope, output_name, unique_name
from tidegate.language.bind.query.expressions import AggregateNode, bind_expression, without_aggregates
from tidegate.schema import Type
from tidegate.values import value


@value
class BoundItem:
    """A column of the result: its name and value, and whether the query itself gave it that name."""

    name: str
    expression: Expression
    is_alias: bool = False


@value
class BoundAggregate:
    """An aggregate of the query, and the column that will hold it."""

    function: AggregateFunction
    arguments: tuple[Expression, ...]
    options: tuple[Option, ...]
    distinct: bool
    result: Column

    def over_columns(self, names: Mapping[Expression, str]) -> AggregateCall:
        """Return the call over the columns that hold the arguments."""
        columns = tuple(names[argument] for argument in self.arguments)
        call = AggregateCall(self.function.name, columns[0] if columns else None, self.result.name, self.result.type)
        user = None if AGGREGATES.get(self.function.name) is self.function else self.function
        return replace(call, others=columns[1:], options=self.options, distinct=self.distinct, user=user)


@dataclass(slots=True)
class Aggregates:
    """The aggregates of SELECT and HAVING, collected while these are bound, each once."""

    scope: Scope
    names_in_use: tuple[str, ...]
    calls: list[BoundAggregate] = field(default_factory=list)

    def add(self, node: AggregateNode) -> Column:
        function = find_aggregate(node.name.text)
        assert function is not None
        written = _arguments_with_filter(function, node)
        arguments = self._arguments(function, written[: function.arguments], node.span)
        options = tuple(_bind_option(function, each) for each in written[function.arguments :])
        if function.check is not None and (wrong := function.check(options)):
            raise QueryError("Q121", wrong, written[-1].span, hint=f"{node.name.text.upper()} takes {function.takes}")
        asked = function, arguments, options, _is_distinct(function, node)
        for call in self.calls:
            if (call.function, call.arguments, call.options, call.distinct) == asked:
                return Column(call.result.name, call.result.type, node.span)
        type_ = result_type(function, [a.type for a in arguments], node.span)
        name = unique_name(output_name(node, 0), (*self.names_in_use, *(c.result.name for c in self.calls)))
        self.calls.append(BoundAggregate(*asked, Column(name, type_, node.span)))
        return self.calls[-1].result

    def is_count(self, expression: Expression) -> bool:
        """Return whether an expression is the result of COUNT."""
        return any(call.result == expression for call in self.calls if call.function.name == "count")

    def _arguments(
        self, function: AggregateFunction, written: Sequence[syntax.Expression], span: Span
    ) -> tuple[Expression, ...]:
        context = without_aggregates(self.scope, "another aggregate", hint="aggregate first in a subquery in FROM")
        given = tuple(_with_concrete_type(bind_expression(each, context), Type.BIGINT, each.span) for each in written)
        if function.parameters is None:
            return given
        return tuple(coerce(a, p, span) for a, p in zip(given, function.parameters, strict=True))


def _arguments_with_filter(function: AggregateFunction, node: AggregateNode) -> tuple[syntax.Expression, ...]:
    """Return the arguments, NULL where FILTER excludes an element, because aggregates ignore NULL."""
    condition = node.filter
    match node:
        case syntax.CountStar(span=span):
            return () if condition is None else (_null_unless(condition, syntax.Constant(value=True, span=span)),)
        case syntax.FunctionCall():
            given = _check_argument_count(function, node)
            if condition is None:
                return given
            kept = (_null_unless(condition, each) for each in given[: function.arguments])
            return (*kept, *given[function.arguments :])


def _null_unless(condition: syntax.Expression, value: syntax.Expression) -> syntax.Expression:
    return syntax.CaseWhen(None, ((condition, value),), None, value.span)


def _check_argument_count(function: AggregateFunction, node: syntax.FunctionCall) -> tuple[syntax.Expression, ...]:
    """Return the arguments, if their number is right."""
    wanted, given = function.arguments + function.options, len(node.arguments)
    if given == wanted:
        return node.arguments
    other = {"min": "LEAST", "max": "GREATEST"}.get(function.name)
    hint = f"it takes {function.takes}" if wanted > 1 else None
    hint = f"{other} compares several values of one row" if other else hint
    many = "one argument" if wanted == 1 else f"{wanted} arguments"
    raise QueryError("Q107", f"{node.name.text.upper()} takes {many}, not {given}", node.span, hint=hint)


def _bind_option(function: AggregateFunction, written: syntax.Expression) -> Option:
    match written:
        case syntax.Constant(value=bool() | int() | float() | str() as value):
            return value
    hint = f"{function.name.upper()} takes {function.takes}"
    raise QueryError("Q121", "a constant is needed here", written.span, hint=hint)


def _is_distinct(function: AggregateFunction, node: AggregateNode) -> bool:
    """Return whether each value counts once; this does not matter for MIN, MAX, FIRST and LAST."""
    if isinstance(node, syntax.CountStar) or not node.distinct or function.sweep in ("min", "max") or function.by_time:
        return False
    if function.arguments > 1:
        message = f"{node.name.text.upper()}(DISTINCT …) is not defined"
        raise QueryError("Q107", message, node.span, hint="DISTINCT is for aggregates of one argument")
    return True


def bind_keys(
    written: Sequence[syntax.Expression], items: Sequence[BoundItem], aggregates: Aggregates
) -> tuple[Expression, ...]:
    """Return the expressions to group by, each once; they may be aliases or positions of columns of the result."""
    keys = [_with_concrete_type(_bind_key(node, items, aggregates), Type.STRING, node.span) for node in written]
    return tuple(dict.fromkeys(keys))


def _bind_key(node: syntax.Expression, items: Sequence[BoundItem], aggregates: Aggregates) -> Expression:
    match node:
        case syntax.Constant(value=int() as number, span=span) if not isinstance(number, bool):
            if not 1 <= number <= len(items):
                hint = f"it has {len(items)}"
                raise QueryError("Q106", f"this SELECT has no column {number}", span, hint=hint)
            key = items[number - 1].expression
        case _:
            context = without_aggregates(aggregates.scope, "GROUP BY", hint="group by columns of the streams")
            key = bind_expression(node, replace(context, aliases=alias_expressions(items)))
    results = {call.result.name for call in aggregates.calls}
    if any(isinstance(part, Column) and part.name in results for part in walk(key)):
        hint = "group by columns of the streams; put conditions on aggregates into HAVING"
        raise QueryError("Q107", "an aggregate is not allowed in GROUP BY", node.span, hint=hint)
    return key


def alias_expressions(items: Sequence[BoundItem]) -> dict[str, Expression]:
    """Return the expressions of the aliases of a SELECT; the first of equal aliases counts."""
    return {item.name.lower(): item.expression for item in reversed(items) if item.is_alias}


def _with_concrete_type(expression: Expression, instead: Type, span: Span) -> Expression:
    """Return the expression, with a concrete type instead of that of a bare NULL."""
    return coerce(expression, instead, span) if expression.type is Type.NULL else expression


@value
class GroupedPlan:
    """A plan with one row for each group, and its columns that hold the keys."""

    plan: Plan
    keys: Mapping[Expression, Column]
    """Computed keys only: a key that is a column keeps its name."""

    def over_groups(self, expression: Expression, others: Iterable[str] = ()) -> Expression:
        """Rewrite the expression over the groups instead of their elements; it may also read other columns."""
        known = {*self.plan.schema.names, *others}
        result = transform(expression, lambda e: replace(self.keys[e], span=e.span) if e in self.keys else e)
        for part in walk(result):
            if isinstance(part, Column) and part.name not in known:
                hint = "add it to GROUP BY, or aggregate it: MIN, MAX, …"
                message = f"column '{part.name}' is neither grouped nor aggregated"
                raise QueryError("Q106", message, part.span, hint=hint)
        return result


def group_plan(plan: Plan, keys: tuple[Expression, ...], calls: Sequence[BoundAggregate], span: Span) -> GroupedPlan:
    """Group a plan; computed keys and arguments become columns below the Aggregate."""
    names = _name_expressions(plan, keys, calls)
    if not all(isinstance(e, Column) for e in names):
        plan = Map(plan, tuple(Output(name, e) for e, name in names.items()), span)
    return GroupedPlan(
        _aggregate_plan(plan, tuple(names[k] for k in keys), calls, names, span), _key_columns(keys, names)
    )


def _name_expressions(
    plan: Plan, keys: tuple[Expression, ...], calls: Sequence[BoundAggregate]
) -> dict[Expression, str]:
    """Return the names of keys and arguments below the Aggregate; columns keep their names."""
    names: dict[Expression, str] = {}
    taken = {*plan.schema.names, *(call.result.name for call in calls)}
    arguments = (argument for call in calls for argument in call.arguments)
    for expression, kind in [*((k, "key") for k in keys), *((a, "argument") for a in arguments)]:
        if expression not in names:
            new = unique_name(f"{kind}_{len(names) + 1}", taken)
            names[expression] = expression.name if isinstance(expression, Column) else new
    return names


def _aggregate_plan(
    plan: Plan, keys: tuple[str, ...], calls: Sequence[BoundAggregate], names: Mapping[Expression, str], span: Span
) -> Plan:
    if keys and not calls:
        columns = tuple(Output(k, Column(k, plan.schema.type_of(k))) for k in keys)
        return Distinct(Map(plan, columns, span), span)
    made = [call.over_columns(names) for call in calls]
    # HAVING alone also groups: some column must show that there is a group.
    made = made or [AggregateCall("count", None, unique_name("count", plan.schema.names), Type.BIGINT)]
    return Aggregate(plan, keys, tuple(made), span)


def _key_columns(keys: tuple[Expression, ...], names: Mapping[Expression, str]) -> dict[Expression, Column]:
    """Return the columns by their expressions, in which smaller keys inside larger ones are already columns."""
    columns: dict[Expression, Column] = {}
    computed = [k for k in keys if not isinstance(k, Column)]
    for key in sorted(computed, key=lambda k: sum(1 for _ in walk(k))):
        columns[transform(key, lambda e: columns.get(e, e))] = Column(names[key], key.type, key.span)
    return columns

"""GROUP BY and aggregates: what stands below an Aggregate, and what may stand above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.algebra.plan import Aggregate, AggregateCall, Distinct, Map, Output, Plan
from tidegate.errors import QueryError, Span
from tidegate.expressions.aggregates import aggregate_type
from tidegate.expressions.coercion import coerce
from tidegate.expressions.nodes import Column, Expression, transform, walk
from tidegate.language import syntax
from tidegate.language.binder_expressions import AggregateNode, bind_expression, without_aggregates
from tidegate.language.names import Scope, output_name, unique
from tidegate.schema import Type


@dataclass(frozen=True, slots=True)
class Item:
    """A column of the result: its name and value, and whether the query itself gave it that name."""

    name: str
    expression: Expression
    is_alias: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate that the query asks for, and the column that will hold it."""

    function: str
    argument: Expression | None
    result: Column


@dataclass(slots=True)
class Aggregates:
    """Collects the aggregates of SELECT and HAVING while these are bound, each once."""

    scope: Scope
    taken: tuple[str, ...]
    calls: list[Call] = field(default_factory=list)

    def add(self, node: AggregateNode) -> Column:
        function = node.name.text.lower()
        argument = self._argument(node)
        for call in self.calls:
            if (call.function, call.argument) == (function, argument):
                return Column(call.result.name, call.result.type, node.span)
        type_ = aggregate_type(function, None if argument is None else argument.type, node.span)
        name = unique(output_name(node, 0), (*self.taken, *(c.result.name for c in self.calls)))
        self.calls.append(Call(function, argument, Column(name, type_, node.span)))
        return self.calls[-1].result

    def _argument(self, node: AggregateNode) -> Expression | None:
        match node:
            case syntax.CountStar():
                return None
            case syntax.FunctionCall(arguments=(only,)):
                argument = bind_expression(only, without_aggregates(self.scope, "another aggregate"))
                return _typed(argument, Type.BIGINT, only.span)
        name = node.name.text.upper()
        other = {"MIN": "LEAST", "MAX": "GREATEST"}.get(name)
        hint = None if other is None else f"{other} compares several values of one row"
        raise QueryError("Q107", f"{name} takes one argument, not {len(node.arguments)}", node.span, hint=hint)


def bind_keys(
    written: Sequence[syntax.Expression], items: Sequence[Item], aggregates: Aggregates
) -> tuple[Expression, ...]:
    """The expressions to group by, each once; they may name columns of the result or count them."""
    keys = [_typed(_key(node, items, aggregates), Type.STRING, node.span) for node in written]
    return tuple(dict.fromkeys(keys))


def _key(node: syntax.Expression, items: Sequence[Item], aggregates: Aggregates) -> Expression:
    match node:
        case syntax.Constant(value=int() as number, span=span) if not isinstance(number, bool):
            if not 1 <= number <= len(items):
                raise QueryError("Q106", f"there is no column {number} in this SELECT", span)
            key = items[number - 1].expression
        case _:
            context = without_aggregates(aggregates.scope, "GROUP BY")
            key = bind_expression(node, replace(context, aliases=aliases(items)))
    results = {call.result.name for call in aggregates.calls}
    if any(isinstance(part, Column) and part.name in results for part in walk(key)):
        raise QueryError("Q107", "an aggregate cannot stand in GROUP BY", node.span)
    return key


def aliases(items: Sequence[Item]) -> dict[str, Expression]:
    """What the aliases that a SELECT gives stand for; the first counts."""
    return {item.name.lower(): item.expression for item in reversed(items) if item.is_alias}


def _typed(expression: Expression, instead: Type, span: Span) -> Expression:
    """The expression, with a real type also where it is the bare NULL."""
    return coerce(expression, instead, span) if expression.type is Type.NULL else expression


@dataclass(frozen=True, slots=True)
class Grouped:
    """A plan with one row for each group, and the columns of it that hold the keys."""

    plan: Plan
    keys: Mapping[Expression, Column]
    """Computed keys only: a key that is a column keeps its name."""

    def over(self, expression: Expression) -> Expression:
        """The expression over the groups instead of their elements."""
        result = transform(expression, lambda e: replace(self.keys[e], span=e.span) if e in self.keys else e)
        for part in walk(result):
            if isinstance(part, Column) and part.name not in self.plan.schema:
                hint = "add it to GROUP BY, or aggregate it: MIN, MAX, …"
                message = f"column '{part.name}' is neither grouped nor aggregated"
                raise QueryError("Q106", message, part.span, hint=hint)
        return result


def group(plan: Plan, keys: tuple[Expression, ...], calls: Sequence[Call], span: Span) -> Grouped:
    """Group a plan; computed keys and arguments become columns below the Aggregate."""
    names = _names(plan, keys, calls)
    if not all(isinstance(e, Column) for e in names):
        plan = Map(plan, tuple(Output(name, e) for e, name in names.items()), span)
    return Grouped(_aggregate(plan, tuple(names[k] for k in keys), calls, names, span), _columns(keys, names))


def _names(plan: Plan, keys: tuple[Expression, ...], calls: Sequence[Call]) -> dict[Expression, str]:
    """What keys and arguments are called below the Aggregate: columns keep their names."""
    names: dict[Expression, str] = {}
    taken = {*plan.schema.names, *(call.result.name for call in calls)}
    arguments = (call.argument for call in calls if call.argument is not None)
    for expression, kind in [*((k, "key") for k in keys), *((a, "argument") for a in arguments)]:
        if expression not in names:
            new = unique(f"{kind}_{len(names) + 1}", taken)
            names[expression] = expression.name if isinstance(expression, Column) else new
    return names


def _aggregate(
    plan: Plan, keys: tuple[str, ...], calls: Sequence[Call], names: Mapping[Expression, str], span: Span
) -> Plan:
    if keys and not calls:
        columns = tuple(Output(k, Column(k, plan.schema.type_of(k))) for k in keys)
        return Distinct(Map(plan, columns, span), span)
    made = [
        AggregateCall(c.function, None if c.argument is None else names[c.argument], c.result.name, c.result.type)
        for c in calls
    ]
    # HAVING alone groups too: some column must say that there is a group.
    made = made or [AggregateCall("count", None, unique("count", plan.schema.names), Type.BIGINT)]
    return Aggregate(plan, keys, tuple(made), span)


def _columns(keys: tuple[Expression, ...], names: Mapping[Expression, str]) -> dict[Expression, Column]:
    """Columns by what they stand for, where smaller keys inside of larger ones are columns already."""
    columns: dict[Expression, Column] = {}
    computed = [k for k in keys if not isinstance(k, Column)]
    for key in sorted(computed, key=lambda k: sum(1 for _ in walk(k))):
        columns[transform(key, lambda e: columns.get(e, e))] = Column(names[key], key.type, key.span)
    return columns

"""Bind a written alert to a logical plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.algebra.alert_operators import ThresholdJoin
from tidegate.algebra.plan import Map, Output, Plan
from tidegate.algebra.similarity_join import NO_SHEDDING
from tidegate.algebra.threshold_alert import ALARM, INCIDENT, VALUE, Alert
from tidegate.errors import QueryError, Span
from tidegate.expressions.coercion import cast
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import Column, Expression, Literal, columns_of, conjunction, conjuncts
from tidegate.language import syntax
from tidegate.language.bind.alerts.distances import links_of, member_position, representation_of
from tidegate.language.bind.alerts.keys import Key, common_keys, is_implied
from tidegate.language.bind.alerts.sources import alert_context, filter_plan, read_streams
from tidegate.language.bind.alerts.total_when import refuse_aggregates
from tidegate.language.bind.context import BindContext
from tidegate.language.bind.names import Scope, source_positions, unique_names
from tidegate.language.bind.query.expressions import bind_condition, bind_expression
from tidegate.language.bind.shedding.options import shedding_of
from tidegate.language.syntax import CreateAlert, Operation
from tidegate.schema import Type

_THRESHOLDS = frozenset({">", ">=", "<", "<="})


def bind_alert(statement: CreateAlert, around: BindContext) -> Plan:
    """Return the plan of an alert; its rows are alarms."""
    reads = read_streams(statement.sources, around)
    scope = tuple(visible for read in reads for visible in read.scope)
    alone = len(reads) == 1
    if alone:
        refuse_aggregates(statement.when)
    value, crossing = _bind_threshold(statement.when, scope)
    terms = () if statement.where is None else conjuncts(_bind_where(statement.where, scope))
    # An equality between columns of one stream is a condition like any other.
    keys = common_keys(statement.matching, () if alone else terms, scope)
    wanted = [term for term in terms if not is_implied(term, keys)]
    links, step = ((), 1) if statement.within is None or alone else links_of(statement.within, scope)
    alert = Alert(
        statement.name.text,
        tuple(range(len(reads))),
        links,
        value,
        conjunction((crossing, *(() if alone else (t for t in wanted if len(source_positions(t, scope)) != 1)))),
        step,
        statement.everything,
        _members_of_assumption(statement.assumption, scope),
        shedding=NO_SHEDDING if alone else shedding_of(statement.options, around.catalog.shedding),
        representation=representation_of(statement.within) if alone else None,
    )
    inputs = tuple(
        filter_plan(read.plan, [term for term in wanted if alone or source_positions(term, scope) == [i]])
        for i, read in enumerate(reads)
    )
    columns = tuple(tuple(key[i].name for key in keys) for i in range(len(reads)))
    joined = ThresholdJoin(inputs, columns, (alert,), statement.span)
    return Map(joined, _outputs(keys, scope, alert, statement.name.span), statement.span)


# ---- WHEN and WHERE


def _bind_threshold(node: syntax.Expression, scope: Scope) -> tuple[Expression, Expression]:
    """Return the monitored value, and the comparison that makes it an alarm."""
    match node:
        case Operation("and"):
            hint = "keep the comparison with the threshold in WHEN, and put the others into WHERE"
            raise QueryError("Q213", "WHEN takes one comparison", node.span, hint=hint)
        case Operation(operator, arguments) if operator in _THRESHOLDS:
            left, right = (_bind_side(each, scope) for each in arguments)
        case _:
            hint = "write >, >=, < or <=, for example WHEN a.value + b.value > 10"
            raise QueryError("Q213", "WHEN compares a value with a threshold", node.span, hint=hint)
    comparison = resolve(operator, (left, right), node.span)
    _refuse_missing_streams(comparison, scope, node.span)
    if columns_of(left) and columns_of(right):
        sides = [cast(side, Type.DOUBLE, side.span) for side in (left, right)]
        return resolve("-", sides, node.span), comparison
    value = left if columns_of(left) else right
    return cast(value, Type.DOUBLE, value.span), comparison


def _bind_side(node: syntax.Expression, scope: Scope) -> Expression:
    side = bind_expression(node, alert_context(scope, "WHEN"))
    if not side.type.is_numeric:
        hint = "compare numbers; epoch_seconds(…) converts a time to a number"
        raise QueryError("Q213", f"a threshold is a number, but this is {side.type.name}", node.span, hint=hint)
    return side


def _refuse_missing_streams(comparison: Expression, scope: Scope, span: Span) -> None:
    match [scope[i].alias for i in source_positions(comparison, scope)]:
        case []:
            hint = "use columns, for example WHEN a.value + b.value > 10"
            raise QueryError("Q213", "this WHEN reads no stream", span, hint=hint)
        case [only] if len(scope) > 1:
            hint = "put conditions on one stream into WHERE; a WHEN reads at least two streams"
            raise QueryError("Q213", f"this WHEN reads '{only}' only", span, hint=hint)


def _bind_where(condition: syntax.Expression, scope: Scope) -> Expression:
    return bind_condition(condition, alert_context(scope, "WHERE"))


# ---- assumptions and outputs


def _members_of_assumption(assumption: syntax.Assumption | None, scope: Scope) -> tuple[int, ...]:
    if assumption is None:
        return ()
    if not assumption.names:
        return tuple(range(len(scope)))
    return tuple(sorted({member_position(scope, name) for name in assumption.names}))


def _outputs(keys: Sequence[Key], scope: Scope, alert: Alert, span: Span) -> tuple[Output, ...]:
    wanted = list(_output_columns(keys, scope, alert, span))
    names = unique_names(name for name, _ in wanted)
    return tuple(Output(name, expression) for name, (_, expression) in zip(names, wanted, strict=True))


def _output_columns(keys: Sequence[Key], scope: Scope, alert: Alert, span: Span) -> Iterator[tuple[str, Expression]]:
    """Yield the keys once, then the other columns of the elements, then the columns of the alarm."""
    common = {column.name for key in keys for column in key}
    first = {key[0].name for key in keys}
    yield from ((own, column) for own, column in scope[0] if column.name in first)
    for visible in scope:
        yield from ((f"{visible.alias}_{own}", column) for own, column in visible if column.name not in common)
    for field, name in ((VALUE, "value"), (INCIDENT, "incident"), (ALARM, "alarm")):
        yield name, Column(field.name, field.type, span)
    if alert.assumed:
        names = ", ".join(scope[i].alias for i in alert.assumed)
        yield "assumed", Literal(f"quasiconvex in {names}", Type.STRING, span)

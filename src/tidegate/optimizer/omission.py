"""Omission: determine which elements cannot change whether an alert raises an alarm.

For each member of an alert: how far apart two elements may be to replace those between them (the window), and whether
greater ones, smaller ones or both are needed for this (the shape of the function).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.algebra.alert_operators import ThresholdJoin
from tidegate.algebra.plan import Map, Output, Plan, rewrite
from tidegate.algebra.properties.domains import domain_of, range_of
from tidegate.algebra.threshold_alert import Alert, Demand, KeepAll, Link
from tidegate.errors import QueryError, Span
from tidegate.expressions.nodes import Call, Column, Expression, children, columns_of, conjuncts, transform, walk
from tidegate.expressions.shape.verdict import Proved, Refuted, Shape, Verdict
from tidegate.expressions.sql_text import to_sql
from tidegate.optimizer.names import select_columns
from tidegate.schema import Domain, Type

_SIDES = {Shape.RISING: (True, False), Shape.FALLING: (False, True), Shape.QUASICONVEX: (True, True)}


def omit_what_cannot_alarm(plan: Plan) -> Plan:
    """Return the plan, with alerts that state which elements they do not need."""
    return rewrite(plan, lambda node: _with_demands(node) if isinstance(node, ThresholdJoin) else node)


def _with_demands(join: ThresholdJoin) -> Plan:
    if all(alert.demands for alert in join.alerts):
        return join
    inputs = list(join.inputs)
    alerts = tuple(_add_demands(alert, inputs, join.span) for alert in join.alerts)
    return select_columns(replace(join, inputs=tuple(inputs), alerts=alerts), join.schema.names)


def _add_demands(alert: Alert, inputs: list[Plan], span: Span) -> Alert:
    """Return the alert with a demand for each member; add the columns that demands read to `inputs`."""
    alone = len(alert.members) == 1
    if alert.everything:
        every = "EMIT ALL asks for every element" if alone else "EMIT ALL asks for every combination"
        return replace(alert, demands=(KeepAll(every),) * len(alert.members))
    if alone:
        alert, only = _demand_of_only_member(alert, inputs, span)
        return replace(alert, demands=(only,))
    demands: list[Demand | KeepAll] = []
    for position in range(len(alert.members)):
        alert, demand = _demand_of_member(alert, position, inputs, span)
        demands.append(demand)
    return replace(alert, demands=tuple(demands))


def _demand_of_member(alert: Alert, position: int, inputs: list[Plan], span: Span) -> tuple[Alert, Demand | KeepAll]:
    """Return the demand on one member, and the alert, which may now read the value from a new column."""
    window = omission_window(alert, position)
    if isinstance(window, KeepAll):
        return alert, window
    value = _value_of_member(alert, frozenset(inputs[alert.members[position]].schema.names))
    if isinstance(value, KeepAll):
        return alert, value
    verdict = _verdict_on(value, alert, position, inputs)
    # For a part of the formula only bounds are known: a counterexample may use a value that it never has.
    is_refuted = isinstance(verdict, Refuted) and isinstance(value, Column)
    shape = _reliable_shape(verdict, alert, position, span, is_refuted=is_refuted)
    if isinstance(shape, KeepAll):
        return alert, shape
    return _demand_on_value(alert, position, inputs, value, _demand_of_shape(shape, *window))


def _demand_of_only_member(alert: Alert, inputs: list[Plan], span: Span) -> tuple[Alert, Demand | KeepAll]:
    """Return the demand on the elements of an alert on one stream, and the alert, which may read a new column.

    The demand must not compute what is costly. So its value is the smallest part of the formula that suffices, and not
    the largest one as with joins; user-defined functions are computed for needed elements only.
    """
    if alert.representation is None:
        return alert, KeepAll("without WITHIN each element is compared with the threshold")
    crossing = crossing_of(alert)
    parts = _sufficient_parts(crossing)
    if not parts:
        is_number = all(column.type.is_numeric for column in _columns_in(crossing))
        why = "several columns of it in several places" if is_number else "a value that is not a number"
        return alert, KeepAll(f"the threshold reads {why}")
    # What the author asserts is about what the function reads.
    parts = parts[:1] if alert.assumed else parts
    verdicts = [_verdict_on(part, alert, 0, inputs) for part in parts]
    chosen = next((place for place, verdict in enumerate(verdicts) if isinstance(verdict, Proved)), 0)
    value, verdict = parts[chosen], verdicts[chosen]
    is_refuted = isinstance(verdict, Refuted) and isinstance(value, Column)
    shape = _reliable_shape(verdict, alert, 0, span, is_refuted=is_refuted)
    if isinstance(shape, KeepAll):
        return alert, shape
    demand = _demand_of_shape(shape, alert.representation.window, strict=alert.representation.strict)
    return _demand_on_value(alert, 0, inputs, value, replace(demand, keeps_copies=True))


def _sufficient_parts(crossing: Expression) -> list[Expression]:
    """Return the numbers that determine an expression and need no user-defined function, the smallest ones first."""
    parts = dict.fromkeys(p for p in walk(crossing) if p.type.is_numeric and columns_of(p) and not _calls_user(p))
    rest = Column("", Type.DOUBLE)
    sufficient = [p for p in parts if columns_of(_substitute_part(crossing, p, rest)) == {rest.name}]
    return sorted(sufficient, key=lambda part: sum(1 for _ in walk(part)))


def _calls_user(expression: Expression) -> bool:
    return any(isinstance(part, Call) and part.user is not None for part in walk(expression))


def _verdict_on(value: Expression, alert: Alert, position: int, inputs: list[Plan]) -> Verdict:
    """Return what is known of the shape of an alert's function in a value of one member."""
    from tidegate.expressions.shape.proof import certify

    column = _column_of(value, alert, position)
    crossing = _substitute_part(crossing_of(alert), value, column)
    return certify(crossing, column.name, _domains(crossing, inputs, {column.name: value}))


def _demand_on_value(
    alert: Alert, position: int, inputs: list[Plan], value: Expression, demand: Demand
) -> tuple[Alert, Demand]:
    """Return a demand by a value of one member, and the alert, which may now read the value from a new column."""
    column, member = _column_of(value, alert, position), alert.members[position]
    if column.name not in inputs[member].schema:
        kept = tuple(Output(f.name, Column(f.name, f.type)) for f in inputs[member].schema)
        inputs[member] = Map(inputs[member], (*kept, Output(column.name, value)))
        new_value, condition = (_substitute_part(each, value, column) for each in (alert.value, alert.condition))
        alert = replace(alert, value=new_value, condition=condition)
    shown = to_sql(value)
    why = demand.why.replace(f'"{column.name}"', f"({shown})").replace(column.name, shown)
    return alert, replace(demand, value=column.name, value_text=shown, why=why)


def _demand_of_shape(shape: Proved, window: int, strict: bool) -> Demand:  # noqa: FBT001 - as `omission_window` has it
    """Return a demand, still without a value, by the sides on which elements of a shape must be bracketed."""
    above, below = _SIDES[shape.shape]
    return Demand("", window, strict, above, below, why=shape.why)


def _column_of(value: Expression, alert: Alert, position: int) -> Column:
    """Return the column that has, or will have, a value of one member."""
    return value if isinstance(value, Column) else Column(f"alert:{alert.name}:{position}", value.type)


def _reliable_shape(verdict: Verdict, alert: Alert, position: int, span: Span, *, is_refuted: bool) -> Proved | KeepAll:
    """Return the shape to rely on: the proved shape, or the shape that the alert's author asserts."""
    if isinstance(verdict, Proved):
        return verdict
    if position not in alert.assumed:
        return KeepAll(verdict.why)
    if is_refuted:
        message = f"the assumption of alert '{alert.name}' is false: {verdict.why}"
        raise QueryError("Q231", message, span, hint="remove ASSUME QUASICONVEX, or declare the domain with CHECK")
    return Proved(Shape.QUASICONVEX, "assumed to be quasiconvex by the author of the alert")


def omission_window(alert: Alert, position: int) -> tuple[int, bool] | KeepAll:
    """Return how far apart two elements of a member may be to replace those between them, and whether strictly less.

    This is the length of the shortest interval in which elements of the member can meet a given combination of the
    others: every element in it has a replacement there.
    """
    if alert.lasting:
        return alert.lasting[position], False
    if alert.step > 1:
        return alert.links[0].before, False
    around = {_other_end(link, position): link for link in alert.links if position in (link.left, link.right)}
    pairs = [(i, j) for i in around for j in around if i != j]
    between = {(link.left, link.right): link for link in alert.links}
    between |= {(link.right, link.left): _reverse_link(link) for link in alert.links}
    if any(pair not in between for pair in pairs):
        return KeepAll("not all streams that it joins join each other")
    ends = {i: link if link.left == position else _reverse_link(link) for i, link in around.items()}
    lengths = [ends[i].before + ends[i].after for i in ends]
    lengths += [ends[i].after + ends[j].before - between[j, i].after for i, j in pairs]
    if min(lengths) <= 0:
        return KeepAll("the distances are too short for one element to replace another")
    is_open = any(link.open_before for link in ends.values()) and any(link.open_after for link in ends.values())
    return min(lengths), is_open


def _other_end(link: Link, position: int) -> int:
    return link.right if link.left == position else link.left


def _reverse_link(link: Link) -> Link:
    """Return the same link, seen from its other end."""
    return Link(link.right, link.left, link.after, link.before, link.open_after, link.open_before)


def crossing_of(alert: Alert) -> Expression:
    """Return the expression that must be great for an alarm: one side of the comparison minus the other."""
    match conjuncts(alert.condition)[0]:
        case Call(">" | ">=", (greater, smaller)) | Call("<" | "<=", (smaller, greater)):
            if not columns_of(smaller):
                return greater
            return Call("-", (greater, smaller), Type.DOUBLE)
    return alert.condition


def _value_of_member(alert: Alert, own: frozenset[str]) -> Expression | KeepAll:
    """Return the only number of a member that the threshold depends on, if there is exactly one."""
    if any(columns_of(term) & own for term in conjuncts(alert.condition)[1:]):
        return KeepAll("a condition other than the threshold also reads it")
    crossing = crossing_of(alert)
    parts = list(dict.fromkeys(_own_parts(crossing, own)))
    if len(parts) != 1:
        read = sorted(columns_of(crossing) & own)
        if len(read) != 1:
            return KeepAll(
                "the threshold reads several columns of it in several places" if read else "nothing reads it"
            )
        parts = [next(e for e in _columns_in(crossing) if e.name == read[0])]
    return parts[0] if parts[0].type.is_numeric else KeepAll("the value that the threshold reads of it is not a number")


def _own_parts(expression: Expression, own: frozenset[str]) -> list[Expression]:
    """Return the largest parts of an expression that read columns of one member only."""
    read = columns_of(expression)
    if not read & own:
        return []
    if read <= own:
        return [expression]
    return [part for child in children(expression) for part in _own_parts(child, own)]


def _columns_in(expression: Expression) -> list[Column]:
    found = [expression] if isinstance(expression, Column) else []
    return found + [column for child in children(expression) for column in _columns_in(child)]


def _substitute_part(expression: Expression, part: Expression, by: Expression) -> Expression:
    return transform(expression, lambda e: by if e == part else e)


def _domains(crossing: Expression, inputs: list[Plan], values: Mapping[str, Expression]) -> dict[str, Domain]:
    """Return the domains of all columns that the function reads."""
    found: dict[str, Domain] = {}
    for name in columns_of(crossing):
        if name in values:
            parts = columns_of(values[name])
            found[name] = range_of(values[name], {part: _domain(part, inputs) for part in parts})
        else:
            found[name] = _domain(name, inputs)
    return found


def _domain(column: str, inputs: list[Plan]) -> Domain:
    return next(domain_of(each, column) for each in inputs if column in each.schema)

"""Widen a plan, so that it also has the columns of another plan of the same shape.

Two queries that join the same streams, but select other columns, differ only in the columns that travel through the
join. So do two queries with other aggregates of the same groups. One wide plan serves both. A plan that need not be
widened *covers* the other one.

A filter of one input of a join commutes with the join. So a plan also covers one that filters more of the inputs of the
same join: the other filters are *lifted* above it. That pays, because the join runs anyway: to filter its results costs
less than to hold and search the rows of another join. Filters that both plans would have to give up are not lifted.

Operators that see whole rows (DISTINCT, EXCEPT, LIMIT, count windows, …) depend on all columns: below them, plans must
be equal.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import cast

from tidegate.algebra.adaptable import is_adaptable, worst_size, worst_sizes
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import (
    Aggregate,
    AggregateCall,
    Filter,
    Granularity,
    Join,
    Map,
    Output,
    Plan,
    Scan,
    SemiJoin,
    Split,
    Stamp,
    Window,
    inputs,
    walk,
    with_inputs,
)
from tidegate.algebra.properties.calls import call_can_fail
from tidegate.expressions.functions.resolve import can_fail
from tidegate.expressions.nodes import Call, Column, Expression, columns_of, conjuncts
from tidegate.optimizer.names import filter_by, is_safe, rename
from tidegate.optimizer.plan_keys import parameters, plan_key, positions
from tidegate.schema import Schema
from tidegate.values import value


@value
class Widened:
    """A plan with all columns of the first plan, under the same names, and where those of the second one are."""

    plan: Plan
    places: Mapping[str, str]
    lifted: tuple[Expression, ...] = ()
    """Conditions on the columns of the plan that only the rows of the second plan fulfil."""

    def select(self, wide: Plan, schema: Schema) -> Plan:
        """Return the second plan, with this schema, as rows and columns of the wide one, which may be shared."""
        outputs = tuple(Output(each.name, Column(self.places[each.name], each.type)) for each in schema)
        return Map(filter_by(wide, self.lifted), outputs)


def widen(plan: Plan, other: Plan) -> Widened | None:
    """Return a plan that serves both; None if there is none. It is `plan` itself if that covers the other one."""
    taken = {name for each in walk(plan) for name in each.schema.names}
    return _widen(plan, other, taken)


def shape(plan: Plan) -> Hashable:
    """Return a key that is equal for all plans that can be widened to one; others may have it, too."""
    match plan:
        case Map(source=source) | Filter(source=source):
            return shape(source)
        case Scan(stream=stream):
            return stream
        case Window(size=size, slide=slide):
            return ("window", size, slide, is_adaptable(plan) and plan.least, shape(plan.source))
        case _:
            return (type(plan).__name__, *map(shape, inputs(plan)))


def _widen(plan: Plan, other: Plan, taken: set[str]) -> Widened | None:
    match plan, other:
        case Scan(), Scan():
            return _widen_scan(plan, other)
        case Map(), Map():
            return _widen_map(plan, other, taken)
        case Map(), _ if _only_selects(plan):
            # The other plan is itself with all its columns.
            return _widen_map(plan, _all_columns(other), taken)
        case _, Map() if _only_selects(other):
            found = _widen(plan, other.source, taken)
            return found and _through_map(found, other.outputs)
        case Aggregate(), Aggregate():
            return _widen_aggregate(plan, other, taken)
        case Stamp(), Stamp():
            found = _widen(plan.source, other.source, taken)
            if found is None or found.lifted:
                return None
            return Widened(with_inputs(plan, (found.plan,)), {**found.places, other.column: plan.column})
        case _, Filter() if is_safe(other.predicate):
            return _widen_filter(plan, other, taken)
        case Window() | Granularity(), _ if is_adaptable(plan) and worst_size(plan) != worst_size(other):
            return None  # a wide plan must not lose the bounds of a query
        case Filter() | Window() | Granularity() | Split() | Join() | SemiJoin() | KeyedJoin(), _ if type(plan) is type(
            other
        ):
            # These only pass on the columns that they do not read.
            return _widen_inputs(plan, other, taken)
        case _ if plan_key(plan) == plan_key(other) and worst_sizes(plan) == worst_sizes(other):
            return Widened(plan, dict(zip(other.schema.names, plan.schema.names, strict=True)))
    return None


def _widen_scan(plan: Scan, other: Scan) -> Widened | None:
    if replace(plan, schema=other.schema) != other:
        return None
    more = tuple(field for field in other.schema if field.name not in plan.schema.names)
    wide = replace(plan, schema=Schema((*plan.schema, *more))) if more else plan
    return Widened(wide, {name: name for name in other.schema.names})


def _widen_inputs(plan: Plan, other: Plan, taken: set[str]) -> Widened | None:
    """Widen the inputs of an operator that passes columns on; what it does itself must be the same."""
    found = [_widen(a, b, taken) for a, b in zip(inputs(plan), inputs(other), strict=True)]
    if any(each is None for each in found):
        return None
    sides = cast("list[Widened]", found)
    places = {name: place for each in sides for name, place in each.places.items()}
    wide = with_inputs(plan, tuple(each.plan for each in sides))
    lifted = tuple(term for each in sides for term in each.lifted)
    at = positions(wide)
    if parameters(wide, at) != parameters(other, {name: at[place] for name, place in places.items()}):
        more = _lift_conditions(wide, other, places)
        if not more:
            return None
        lifted += more
    if lifted and not isinstance(plan, Filter | Window | Join):
        return None
    return Widened(wide, {name: places[name] for name in other.schema.names}, lifted)


def _lift_conditions(plan: Plan, other: Plan, places: Mapping[str, str]) -> tuple[Expression, ...]:
    """Return the conditions of a join that another one lacks; none if they cannot be tested on its results.

    Equalities are not lifted: a join that lacks one makes far more pairs.
    """
    if not isinstance(plan, Join) or not isinstance(other, Join):
        return ()
    own, asked = conjuncts(plan.predicate), [rename(term, places) for term in conjuncts(other.predicate)]
    more = tuple(term for term in asked if term not in own)
    is_equal = any(isinstance(term, Call) and term.function == "=" for term in more)
    return more if is_safe(*more) and not is_equal and frozenset(own) <= frozenset(asked) else ()


def _widen_filter(plan: Plan, other: Filter, taken: set[str]) -> Widened | None:
    """Widen a plan that lets the rows of a filter pass; lift the conditions that it lacks."""
    source = plan.source if isinstance(plan, Filter) else plan
    found = _widen(source, other.source, taken)
    if found is None:
        return None
    own = frozenset(conjuncts(plan.predicate)) if isinstance(plan, Filter) else frozenset()
    asked = [rename(term, found.places) for term in conjuncts(other.predicate)]
    if not own <= frozenset(asked):
        return None
    wide = found.plan
    if isinstance(plan, Filter):
        wide = plan if wide is source else replace(plan, source=wide)
    more = tuple(term for term in asked if term not in own)
    return Widened(wide, found.places, (*found.lifted, *more))


def _widen_map(plan: Map, other: Map, taken: set[str]) -> Widened | None:
    found = _widen(plan.source, other.source, taken)
    if found is None:
        return None
    own = {o.expression: o.name for o in plan.outputs}
    asked = [(o.name, rename(o.expression, found.places)) for o in other.outputs]
    # A column that can fail determines which rows exist: both plans must have it.
    if _failing(own) != _failing(expression for _, expression in asked):
        return None
    more: dict[Expression, str] = {}
    for name, expression in asked:
        if expression not in own and expression not in more:
            more[expression] = _free_name(name, taken)
    known = {**own, **more}
    outputs = (*plan.outputs, *(Output(name, expression) for expression, name in more.items()))
    wide = plan if not more and found.plan is plan.source else replace(plan, source=found.plan, outputs=outputs)
    passed = {expression.name: name for expression, name in known.items() if isinstance(expression, Column)}
    if not all(columns_of(term) <= passed.keys() for term in found.lifted):
        return None
    lifted = tuple(rename(term, passed) for term in found.lifted)
    return Widened(wide, {name: known[expression] for name, expression in asked}, lifted)


def _widen_aggregate(plan: Aggregate, other: Aggregate, taken: set[str]) -> Widened | None:
    found = _widen(plan.source, other.source, taken)
    if found is None or found.lifted or set(plan.keys) != {found.places[key] for key in other.keys}:
        return None
    asked = [(call.name, _over(call, found.places)) for call in other.calls]
    own = {_without_name(call): call.name for call in plan.calls}
    # A call that can fail determines which groups exist.
    if {c for c in own if call_can_fail(c)} != {c for _, c in asked if call_can_fail(c)}:
        return None
    more: dict[AggregateCall, str] = {}
    for name, call in asked:
        if call not in own and call not in more:
            more[call] = _free_name(name, taken)
    known = {**own, **more}
    calls = (*plan.calls, *(replace(call, name=name) for call, name in more.items()))
    wide = plan if not more and found.plan is plan.source else replace(plan, source=found.plan, calls=calls)
    places = {key: found.places[key] for key in other.keys}
    return Widened(wide, {**places, **{name: known[call] for name, call in asked}})


def _over(call: AggregateCall, places: Mapping[str, str]) -> AggregateCall:
    column = None if call.column is None else places[call.column]
    return replace(call, name="", column=column, others=tuple(places[name] for name in call.others))


def _without_name(call: AggregateCall) -> AggregateCall:
    return replace(call, name="")


def _through_map(found: Widened, outputs: Iterable[Output]) -> Widened:
    places = {o.name: found.places[cast("Column", o.expression).name] for o in outputs}
    return Widened(found.plan, places, found.lifted)


def _only_selects(plan: Map) -> bool:
    return all(isinstance(o.expression, Column) for o in plan.outputs)


def _all_columns(plan: Plan) -> Map:
    return Map(plan, tuple(Output(each.name, Column(each.name, each.type)) for each in plan.schema))


def _failing(expressions: Iterable[Expression]) -> set[Expression]:
    return {each for each in expressions if can_fail(each)}


def _free_name(name: str, taken: set[str]) -> str:
    """Return the name, or one like it that no column has yet."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    taken.add(free)
    return free

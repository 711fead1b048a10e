"""Rows of a child that fail a condition: let them reach the keyed join, so that their parents need not wait."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.count_windows import count_window_below
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import Filter, Map, Output, Plan, Window
from tidegate.expressions.nodes import Column
from tidegate.optimizer.keyed_join_cost import gains_by_failing_rows
from tidegate.optimizer.names import is_safe
from tidegate.optimizer.origins import Origin, find_origin
from tidegate.schema import Type


def report_failing_rows(join: KeyedJoin) -> KeyedJoin:
    """Return the join with the conditions on children as columns, where that is expected to pay."""
    marked = [_marked_input(join, which) for which in range(len(join.inputs))]
    if not any(marked):
        return join
    inputs = tuple(plan or before for plan, before in zip(marked, join.inputs, strict=True))
    marks = tuple(_mark_name(which) if plan else None for which, plan in enumerate(marked))
    return replace(join, inputs=inputs, marks=marks)


def _mark_name(which: int) -> str:
    return f"passes:{which}"


def _marked_input(join: KeyedJoin, which: int) -> Plan | None:
    """Return an input with a column for its conditions; None if there are none, or parents gain nothing."""
    is_counted = count_window_below(join.inputs[which]) is not None
    if is_counted or not _has_key_of_its_own(join, which) or not gains_by_failing_rows(join, which):
        return None
    return _with_mark(join.inputs[which], _mark_name(which))


def _has_key_of_its_own(join: KeyedJoin, which: int) -> bool:
    """Return whether no two rows of the stream agree in the keys, also among rows that fail.

    Otherwise a row that fails says nothing of another one with its keys.
    """
    origin = find_origin(join.inputs[which])
    if not isinstance(origin, Origin):
        return False
    schema = join.inputs[which].schema
    keys = [edge.child_keys for edge in join.edges if edge.child == which]
    columns = [{origin.column(Column(name, schema.type_of(name))) for name in each} for each in keys]
    return all(frozenset(origin.scan.key) <= each for each in columns)


def _with_mark(plan: Plan, name: str) -> Plan | None:
    """Return the plan without its filter, but with a column that says which rows pass it.

    None: there is no filter, or it must stay, because it can fail, or what is computed from the rows that pass it.
    Rules merge filters, so there is hardly ever another one.
    """
    match plan:
        case Filter(source=source, predicate=predicate) if is_safe(predicate) and not _has_filter(source):
            return Map(source, (*_columns_of(source), Output(name, predicate)), plan.span)
        case Map(source=source, outputs=outputs) if is_safe(*(o.expression for o in outputs)):
            below = _with_mark(source, name)
            return below and replace(plan, source=below, outputs=(*outputs, Output(name, Column(name, Type.BOOLEAN))))
        case Window(source=source):
            below = _with_mark(source, name)
            return below and replace(plan, source=below)
    return None


def _has_filter(plan: Plan) -> bool:
    match plan:
        case Filter():
            return True
        case Map(source=source) | Window(source=source):
            return _has_filter(source)
    return False


def _columns_of(plan: Plan) -> tuple[Output, ...]:
    return tuple(Output(f.name, Column(f.name, f.type)) for f in plan.schema)

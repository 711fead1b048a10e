"""Threshold joins of elements that last, as the joins of windows that they stand for."""

from __future__ import annotations

from tidegate.algebra.alert_operators import ThresholdJoin
from tidegate.algebra.plan import Join, Map, Output, Plan, Window, rewrite
from tidegate.algebra.threshold_alert import ALARM, INCIDENT, NUMBER, VALUE
from tidegate.expressions.nodes import Call, Column, Expression, Literal, conjunction
from tidegate.schema import Type


def as_joins(plan: Plan) -> Plan:
    """The plan without threshold joins; of their incidents nothing is said."""
    return rewrite(plan, lambda node: _as_join(node) if isinstance(node, ThresholdJoin) else node)


def _as_join(join: ThresholdJoin) -> Plan:
    (alert,) = join.alerts
    windows = [Window(each, size) for each, size in zip(join.inputs, alert.lasting, strict=True)]
    joined: Plan = windows[0]
    for window, keys in zip(windows[1:], join.keys[1:], strict=True):
        pairs = zip(join.keys[0], keys, strict=True)
        joined = Join(joined, window, conjunction(tuple(_equal(join, a, b) for a, b in pairs)))
    assert isinstance(joined, Join)
    joined = Join(joined.left, joined.right, conjunction((joined.predicate, alert.condition)))
    made: dict[str, Expression] = {f.name: Column(f.name, f.type) for f in joined.schema}
    made |= {NUMBER.name: Literal(0, Type.INT), VALUE.name: alert.value}
    made |= {f.name: Literal(None, f.type) for f in (INCIDENT, ALARM)}
    return Map(joined, tuple(Output(f.name, made[f.name]) for f in join.schema))


def _equal(join: ThresholdJoin, left: str, right: str) -> Expression:
    return Call("=", (Column(left, join.schema.type_of(left)), Column(right, join.schema.type_of(right))), Type.BOOLEAN)

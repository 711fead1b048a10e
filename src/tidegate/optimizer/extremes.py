"""Recognise rows with the greatest value, which SQL writes as a join with the MAX of the same rows.

Below an alert, the elements of a MAX that are never the greatest need not travel.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.adaptable import worst_sizes
from tidegate.algebra.alert_operators import ThresholdJoin
from tidegate.algebra.extreme_demands import extreme_demand
from tidegate.algebra.plan import Aggregate, Filter, Join, Limit, Map, Order, Output, Plan, SemiJoin, rewrite
from tidegate.algebra.properties.keys import equal_columns
from tidegate.algebra.threshold_alert import Demand
from tidegate.expressions.nodes import Call, Column, Expression, conjunction, conjuncts
from tidegate.optimizer.plan_keys import plan_key
from tidegate.optimizer.rule import rule
from tidegate.schema import Schema, Type


@rule("S ⋈k∧x=m γk,max(x)→m(S) = the first of S by x descending, with ties, of each k; so for ⋉, and min")
def keep_only_extreme_rows(plan: Plan) -> Plan | None:
    match plan:
        case Join(left=left, right=right) if found := _extreme_rows(left, right, plan.predicate):
            return _columns_of_both(found, right, {b: a for a, b in equal_columns(plan.predicate, left, right)})
        case SemiJoin(left=left, right=right, anti=False):
            return _extreme_rows(left, right, plan.predicate)
    return None


def _extreme_rows(left: Plan, right: Plan, predicate: Expression) -> Filter | None:
    """Return the extreme rows of the left, if the right is the extreme value of the same rows."""
    partner = {b: a for a, b in equal_columns(predicate, left, right)}
    made = _extreme_of(right)
    if made is None or len(partner) != len(conjuncts(predicate)) or set(partner) != set(right.schema.names):
        return None
    aggregate, names = made
    if plan_key(left) != plan_key(aggregate.source) or worst_sizes(left) != worst_sizes(aggregate.source):
        return None
    same = dict(zip(aggregate.source.schema.names, left.schema.names, strict=True))
    (call,) = aggregate.calls
    assert call.column is not None
    expected = {**{k: same[k] for k in aggregate.keys}, call.name: same[call.column]}
    if any(expected[own] != partner[shown] for shown, own in names.items()):
        return None
    value, keys = same[call.column], tuple(same[k] for k in aggregate.keys)
    first = Limit(left, (Order(value, descending=call.function == "max"),), 1, 0, keys, ties=True)
    # NULL comes last, and first only if there is nothing else; no equality is true of it.
    return Filter(first, conjunction(tuple(_not_null(left.schema, name) for name in (*keys, value))))


def _extreme_of(plan: Plan) -> tuple[Aggregate, dict[str, str]] | None:
    """Return an aggregate with only a MAX or MIN by some keys, and its column for each column of the plan."""
    match plan:
        case Aggregate(calls=(call,)) if call.function in ("max", "min") and call.user is None:
            return plan, {name: name for name in plan.schema.names}
        case Map(source=source, outputs=outputs) if (found := _extreme_of(source)) is not None:
            columns = {o.name: o.expression.name for o in outputs if isinstance(o.expression, Column)}
            if len(columns) == len(outputs) and set(columns.values()) == set(source.schema.names):
                return found[0], {new: found[1][old] for new, old in columns.items()}
    return None


def _columns_of_both(found: Plan, right: Plan, partner: dict[str, str]) -> Plan | None:
    """Return the columns of both sides of the join, each right column taken from the equal left column."""
    if any(field.type in (Type.REAL, Type.DOUBLE) for field in right.schema):
        return None  # 0.0 and -0.0 compare equal but are distinct values
    both = [*found.schema, *right.schema]
    of_left = {name: name for name in found.schema.names} | partner
    return Map(found, tuple(Output(f.name, Column(of_left[f.name], f.type)) for f in both))


def _not_null(schema: Schema, name: str) -> Expression:
    return Call("not", (Call("is_null", (Column(name, schema.type_of(name)),), Type.BOOLEAN),), Type.BOOLEAN)


def omit_below_extremes(plan: Plan) -> Plan:
    """Return the plan with aggregates below alerts that omit the elements that are extreme at no instant."""

    def mark(node: Plan) -> Plan:
        is_exact = isinstance(node, Aggregate) and isinstance(extreme_demand(node), Demand)
        return replace(node, omits=True) if isinstance(node, Aggregate) and is_exact else node

    def mark_below(node: Plan) -> Plan:
        if not isinstance(node, ThresholdJoin):
            return node
        return replace(node, inputs=tuple(rewrite(each, mark) for each in node.inputs))

    return rewrite(plan, mark_below)


EXTREME_RULES = (keep_only_extreme_rows,)

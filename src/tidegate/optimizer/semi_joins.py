"""Rules for semi- and anti-joins that reduce the right side."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.plan import Aggregate, AggregateCall, Distinct, Join, Plan, SemiJoin
from tidegate.algebra.properties import unique_keys
from tidegate.algebra.properties.keys import equal_columns
from tidegate.expressions.nodes import Call, Column, Expression, conjuncts
from tidegate.optimizer.names import is_safe, select_columns
from tidegate.optimizer.rule import rule
from tidegate.schema import Type

_EXTREMES = {"<": ("max", "min"), "<=": ("max", "min"), ">": ("min", "max"), ">=": ("min", "max")}
"""For each comparison: the extreme of its right operand that decides it, and that of its left operand."""


@rule("S1 ⋉ δ(S2) = S1 ⋉ S2, and so for ▷")
def drop_distinct_below_semi_join(plan: Plan) -> Plan | None:
    match plan:
        case SemiJoin(right=Distinct(source=source), predicate=predicate) if is_safe(predicate):
            return replace(plan, right=source)
    return None


@rule("S1 ⋉ S2 = πS1(S1 ⋈ S2) if S2 is unique in the columns that must be equal")
def make_semi_join_a_join(plan: Plan) -> Plan | None:
    match plan:
        case SemiJoin(left=left, right=right, predicate=predicate, anti=False) if is_safe(predicate):
            apart = not frozenset(left.schema.names) & frozenset(right.schema.names)
            if apart and _is_unique_in_equals(plan):
                return select_columns(Join(left, right, predicate, plan.span), plan.schema.names)
    return None


@rule("S1 ⋉k∧x<y S2 = S1 ⋉k∧x<y γk,max(y)(S2), and so for ▷, and with min for >")
def keep_only_the_extreme_partner(plan: Plan) -> Plan | None:
    # The greatest partner decides whether any partner is greater: NULL is neither greater nor the greatest.
    match plan:
        case SemiJoin(left=left, right=right, predicate=predicate) if not _is_unique_in_equals(plan):
            keys = tuple(dict.fromkeys(b for _, b in equal_columns(predicate, left, right)))
            rest = [t for t in conjuncts(predicate) if not equal_columns(t, left, right)]
            extreme = _extreme_call(rest[0], left, right) if len(rest) == 1 else None
            if extreme is None or extreme.name in keys:
                return None
            return replace(plan, right=Aggregate(right, keys, (extreme,), plan.span))
    return None


SEMI_JOIN_RULES = (drop_distinct_below_semi_join, make_semi_join_a_join, keep_only_the_extreme_partner)


def _is_unique_in_equals(plan: SemiJoin) -> bool:
    equals = frozenset(b for _, b in equal_columns(plan.predicate, plan.left, plan.right))
    return any(key <= equals for key in unique_keys(plan.right))


def _extreme_call(term: Expression, left: Plan, right: Plan) -> AggregateCall | None:
    """Return the extreme value of the right side that decides a comparison of one column of each side."""
    match term:
        case Call(function=name, arguments=(Column() as a, Column() as b)) if name in _EXTREMES:
            of_right, of_left = _EXTREMES[name]
            if a.name in left.schema and b.name in right.schema:
                return _build_call(of_right, b)
            if b.name in left.schema and a.name in right.schema:
                return _build_call(of_left, a)
    return None


def _build_call(function: str, column: Column) -> AggregateCall | None:
    """Return the call under the name of the column, so that expressions that read it need not change."""
    is_ordered = column.type.is_numeric or column.type in (Type.TIMESTAMP, Type.INTERVAL)
    return AggregateCall(function, column.name, column.name, column.type) if is_ordered else None

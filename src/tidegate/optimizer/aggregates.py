"""Rules for grouping and duplicate elimination."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.plan import (
    Aggregate,
    Distinct,
    Join,
    Plan,
    SetOperation,
    SetRule,
    Union,
)
from tidegate.algebra.properties import is_unique, unique_keys
from tidegate.algebra.properties.calls import call_can_fail, sees_copies
from tidegate.algebra.properties.keys import equal_columns
from tidegate.expressions.nodes import conjuncts
from tidegate.optimizer.names import is_safe, select_columns
from tidegate.optimizer.rule import rule


@rule("δ(S) = S if no instant of S has two equal rows; so δ(δ(S)) = δ(S) and δ(γ(S)) = γ(S)")
def drop_distinct_of_unique(plan: Plan) -> Plan | None:
    match plan:
        case Distinct(source=source) if is_unique(source):
            return source
    return None


@rule("δ(S1 ⋈ S2) = δ(S1) ⋈ δ(S2) (10.6), where one of them is unique already")
def push_distinct_below_join(plan: Plan) -> Plan | None:
    match plan:
        case Distinct(source=Join(left=left, right=right, predicate=predicate) as join) if is_safe(predicate):
            if is_unique(left) or is_unique(right):
                return replace(join, left=Distinct(left, plan.span), right=Distinct(right, plan.span))
    return None


@rule("δ(δ(S1) ∪ S2) = δ(S1 ∪ S2)")
def drop_distinct_below_distinct_union(plan: Plan) -> Plan | None:
    match plan:
        case Distinct(source=Union(inputs=many) as union) if any(isinstance(each, Distinct) for each in many):
            bare = tuple(each.source if isinstance(each, Distinct) else each for each in many)
            # A union takes its names from its first input, and a Distinct does not change them.
            return replace(plan, source=replace(union, inputs=bare))
    return None


@rule("δ(S1) op δ(S2) = S1 op S2 for EXCEPT and INTERSECT: they ask only whether a row is present")
def drop_distinct_below_set_operation(plan: Plan) -> Plan | None:
    match plan:
        case SetOperation(left=left, right=right, rule=SetRule.EXCEPT | SetRule.INTERSECT):
            if isinstance(left, Distinct) or isinstance(right, Distinct):
                bare = [each.source if isinstance(each, Distinct) else each for each in (left, right)]
                return replace(plan, left=bare[0], right=bare[1])
    return None


@rule("γk,f(δ(S)) = γk,f(S) if f does not mind duplicates")
def drop_distinct_below_blind_aggregate(plan: Plan) -> Plan | None:
    match plan:
        case Aggregate(source=Distinct(source=source), calls=calls):
            if not any(sees_copies(c) for c in calls):
                return replace(plan, source=source)
    return None


@rule("γk,f(S1 ⋈ S2) = γk1,f(S1) ⋈ S2 if the join is on columns of k, and S2 is unique in them")
def push_aggregate_below_join(plan: Plan) -> Plan | None:
    # Example 10.1: a row of S1 is in at most one pair, and all rows of a group have the same partner.
    match plan:
        case Aggregate(source=Join(left=left, right=right) as join):
            return _aggregate_before_join(plan, join, left, right) or _aggregate_before_join(plan, join, right, left)
    return None


def _aggregate_before_join(plan: Aggregate, join: Join, grouped: Plan, partner: Plan) -> Plan | None:
    pairs = equal_columns(join.predicate, grouped, partner)
    if (
        not pairs
        or len(pairs) != len(conjuncts(join.predicate))
        or not _can_aggregate_before(plan, grouped, partner, pairs)
    ):
        return None
    own = frozenset(grouped.schema.names)
    keys = tuple(dict.fromkeys([*(k for k in plan.keys if k in own), *(a for a, _ in pairs)]))
    below = Aggregate(grouped, keys, plan.calls, plan.span)
    left, right = (below, partner) if grouped is join.left else (partner, below)
    return select_columns(replace(join, left=left, right=right), plan.schema.names)


def _can_aggregate_before(plan: Aggregate, grouped: Plan, partner: Plan, pairs: tuple[tuple[str, str], ...]) -> bool:
    own, others = frozenset(grouped.schema.names), frozenset(partner.schema.names)
    return (
        all(a in plan.keys or b in plan.keys for a, b in pairs)
        and any(key <= {b for _, b in pairs} for key in unique_keys(partner))
        and all(own.issuperset(c.columns) for c in plan.calls)
        and not any(call_can_fail(c) for c in plan.calls)
        and not any(c.name in own | others for c in plan.calls)
    )


AGGREGATE_RULES = (
    drop_distinct_of_unique,
    push_distinct_below_join,
    drop_distinct_below_distinct_union,
    drop_distinct_below_set_operation,
    drop_distinct_below_blind_aggregate,
    push_aggregate_below_join,
)

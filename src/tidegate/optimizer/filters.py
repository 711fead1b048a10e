"""Rules that move filters to where they drop elements earliest.

A predicate that can fail makes dead letters. It moves only if it is then evaluated on the same elements as before, or
if the operator above it would not have evaluated others.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.plan import (
    Aggregate,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Plan,
    Sample,
    SemiJoin,
    SetOperation,
    Split,
    Stamp,
    Union,
    Window,
)
from tidegate.algebra.properties import is_chronon, is_source
from tidegate.expressions.functions.resolve import can_fail
from tidegate.expressions.nodes import TRUE, Expression, columns_of, conjunction, conjuncts
from tidegate.optimizer.names import filter_by, is_safe, reads_only, rename_by_position, substitute
from tidegate.optimizer.rule import Scope, rule


@rule("σtrue(S) = S")
def drop_true_filter(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=source, predicate=predicate) if predicate == TRUE:
            return source
    return None


@rule("σp(σq(S)) = σq∧p(S)")
def merge_filters(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=Filter(source=source, predicate=inner), predicate=outer) if is_safe(outer):
            return Filter(source, conjunction((*conjuncts(inner), *conjuncts(outer))), plan.span)
    return None


@rule("σp(ωrange(S)) = ωrange(σp(S)) (10.8)", scope=Scope.TIME)
def push_filter_below_window(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=Window(source=source) as window, predicate=predicate):
            # A window that moves in steps leaves out elements; a window over longer validities multiplies them.
            if is_safe(predicate) or (window.slide == 1 and is_chronon(source)):
                return replace(window, source=Filter(source, predicate, plan.span))
    return None


@rule("σp(ωrows,k(S)) = ωrows,k(σp(S)) if p reads only k", scope=Scope.TIME)
def push_filter_below_count_window(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=CountWindow() as window, predicate=predicate):
            return _push_group_terms(plan, window, window.keys, predicate)
    return None


@rule("σp(op(S)) = op(σp(S)) for Γ, ς, ζ, Istream and Dstream", scope=Scope.TIME)
def push_filter_below_time(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=Granularity() | Split() | Coalesce() | Changes() as below, predicate=predicate):
            if is_safe(predicate):
                return replace(below, source=Filter(below.source, predicate, plan.span))
    return None


@rule("σp(S with own times) = σp(S) with own times, if p does not read them", scope=Scope.TIME)
def push_filter_below_stamp(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=Stamp(source=source, column=column) as stamp, predicate=predicate):
            # Rows that are split into chronons would fail once per chronon.
            if column not in columns_of(predicate) and (is_safe(predicate) or is_source(source)):
                return replace(stamp, source=Filter(source, predicate, plan.span))
    return None


@rule("σp(sample(S)) = sample(σp(S)), if p does not read the weight: each element has its own chance", scope=Scope.TIME)
def push_filter_below_sample(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=Sample(source=source, weight=weight) as sample, predicate=predicate):
            # Elements that are not kept would fail, too.
            if weight not in columns_of(predicate) and is_safe(predicate):
                return replace(sample, source=Filter(source, predicate, plan.span))
    return None


@rule("σp(S1 ∪ S2) = σp(S1) ∪ σp(S2) (10.5)")
def push_filter_below_union(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=Union(inputs=inputs) as union, predicate=predicate):
            below = (Filter(each, rename_by_position(predicate, union, each), plan.span) for each in inputs)
            return replace(union, inputs=tuple(below))
    return None


@rule("σp(μf(S)) = μf(σp∘f(S))")
def push_filter_below_map(plan: Plan) -> Plan | None:
    # Only if the columns that the predicate reads cannot fail: a failing element becomes one dead letter, in the map.
    match plan:
        case Filter(source=Map(source=source, outputs=outputs) as mapping, predicate=predicate):
            made = {o.name: o.expression for o in outputs}
            if is_safe(*(made[name] for name in columns_of(predicate))):
                return replace(mapping, source=Filter(source, substitute(predicate, made), plan.span))
    return None


@rule("σp(S1 op S2) = σp(S1) op σp(S2) for −, ∩ and the like: they look at each row separately")
def push_filter_below_set_operation(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=SetOperation(left=left, right=right) as both, predicate=predicate) if is_safe(predicate):
            other = rename_by_position(predicate, left, right)
            return replace(both, left=Filter(left, predicate, plan.span), right=Filter(right, other, plan.span))
    return None


@rule("σp(S1 ⋉q S2) = σp(S1) ⋉q S2, and so for ▷")
def push_filter_below_semi_join(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=SemiJoin(left=left) as semi, predicate=predicate) if is_safe(predicate):
            return replace(semi, left=Filter(left, predicate, plan.span))
    return None


@rule("σp(δ(S)) = δ(σp(S))")
def push_filter_below_distinct(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=Distinct(source=source) as distinct, predicate=predicate) if is_safe(predicate):
            return replace(distinct, source=Filter(source, predicate, plan.span))
    return None


@rule("σp(γk,f(S)) = γk,f(σp(S)) if p reads only k")
def push_filter_below_aggregate(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=Aggregate() as aggregate, predicate=predicate):
            return _push_group_terms(plan, aggregate, aggregate.keys, predicate)
    return None


@rule("σp(first n of each k of S) = first n of each k of σp(S) if p reads only k")
def push_filter_below_limit(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=Limit() as limit, predicate=predicate):
            return _push_group_terms(plan, limit, limit.keys, predicate)
    return None


@rule("σp(S1 ⋈q S2) = S1 ⋈q∧p S2")
def merge_filter_into_join(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=Join(predicate=condition) as join, predicate=predicate):
            return replace(join, predicate=conjunction((*conjuncts(condition), *conjuncts(predicate))))
    return None


@rule("S1 ⋈p∧q S2 = σp(S1) ⋈q S2 if p reads only S1")
def push_join_terms_to_inputs(plan: Plan) -> Plan | None:
    # A term that can fail stays: a guard on the other side may protect it.
    if not isinstance(plan, Join):
        return None
    left, right, rest = _split_by_side(plan)
    if not left and not right:
        return None
    return replace(plan, left=filter_by(plan.left, left), right=filter_by(plan.right, right), predicate=rest)


@rule("S1 ⋉p∧q S2 = S1 ⋉q σp(S2) if p reads only S2, and so for ▷; σp(S1) ⋉q S2 if p reads only S1")
def push_semi_join_terms_to_inputs(plan: Plan) -> Plan | None:
    if not isinstance(plan, SemiJoin):
        return None
    left, right, rest = _split_by_side(plan)
    if plan.anti and left:
        # Left elements for which the term is not true have no partner, so an anti-join keeps them.
        left, rest = (), conjunction(tuple(t for t in conjuncts(plan.predicate) if t not in right))
    if not left and not right:
        return None
    return replace(plan, left=filter_by(plan.left, left), right=filter_by(plan.right, right), predicate=rest)


FILTER_RULES = (
    drop_true_filter,
    merge_filters,
    push_filter_below_window,
    push_filter_below_count_window,
    push_filter_below_time,
    push_filter_below_stamp,
    push_filter_below_sample,
    push_filter_below_union,
    push_filter_below_map,
    push_filter_below_set_operation,
    push_filter_below_semi_join,
    push_filter_below_distinct,
    push_filter_below_aggregate,
    push_filter_below_limit,
    merge_filter_into_join,
    push_join_terms_to_inputs,
    push_semi_join_terms_to_inputs,
)


def _push_group_terms(
    plan: Filter, below: CountWindow | Aggregate | Limit, keys: tuple[str, ...], predicate: Expression
) -> Plan | None:
    """Move terms that keep or drop whole groups below the operator; leave the others above it."""
    moved = tuple(t for t in conjuncts(predicate) if reads_only(t, keys) and is_safe(t))
    rest = tuple(t for t in conjuncts(predicate) if t not in moved)
    if not moved or not is_safe(*rest):
        return None
    return filter_by(replace(below, source=Filter(below.source, conjunction(moved), plan.span)), rest)


def _split_by_side(plan: Join | SemiJoin) -> tuple[tuple[Expression, ...], tuple[Expression, ...], Expression]:
    """Split the predicate into terms that read only the left, terms that read only the right, and the rest."""
    names = [frozenset(side.schema.names) for side in (plan.left, plan.right)]
    terms: tuple[list[Expression], ...] = ([], [], [])
    for term in conjuncts(plan.predicate):
        side = 2 if can_fail(term) else next((at for at in (0, 1) if reads_only(term, names[at])), 2)
        terms[side].append(term)
    left, right, rest = map(tuple, terms)
    return left, right, conjunction(rest)

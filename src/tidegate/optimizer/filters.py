"""Rules that bring filters to where they drop elements earliest."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.plan import Filter, Join, Map, Plan, Union, Window
from tidegate.expressions.functions import can_fail
from tidegate.expressions.nodes import (
    Column,
    Expression,
    columns_of,
    conjunction,
    conjuncts,
    transform,
)
from tidegate.optimizer.rule import rule


@rule("σp(σq(S)) = σq∧p(S)")
def merge_filters(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=Filter(source=source, predicate=inner), predicate=outer):
            return Filter(source, conjunction((*conjuncts(inner), *conjuncts(outer))), plan.span)
    return None


@rule("σp(ωrange(S)) = ωrange(σp(S))")
def push_filter_below_window(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=Window(source=source) as window, predicate=predicate):
            return replace(window, source=Filter(source, predicate, plan.span))
    return None


@rule("σp(S1 ∪ S2) = σp(S1) ∪ σp(S2)")
def push_filter_below_union(plan: Plan) -> Plan | None:
    match plan:
        case Filter(source=Union(inputs=inputs) as union, predicate=predicate):
            names = union.schema.names
            return replace(
                union,
                inputs=tuple(
                    Filter(each, rename(predicate, dict(zip(names, each.schema.names, strict=True))), plan.span)
                    for each in inputs
                ),
            )
    return None


@rule("σp(μf(S)) = μf(σp∘f(S))")
def push_filter_below_map(plan: Plan) -> Plan | None:
    # Only if what the predicate reads cannot fail: a failing element is a dead letter once, of the map.
    match plan:
        case Filter(source=Map(source=source, outputs=outputs) as mapping, predicate=predicate):
            made = {o.name: o.expression for o in outputs}
            read = [made[name] for name in columns_of(predicate)]
            if any(can_fail(e) for e in read):
                return None
            return replace(mapping, source=Filter(source, substitute(predicate, made), plan.span))
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
    terms = conjuncts(plan.predicate)
    left = tuple(t for t in terms if _reads_only(t, plan.left) and not can_fail(t))
    right = tuple(t for t in terms if t not in left and _reads_only(t, plan.right) and not can_fail(t))
    if not left and not right:
        return None
    rest = conjunction(tuple(t for t in terms if t not in left and t not in right))
    return replace(plan, left=_filtered(plan.left, left), right=_filtered(plan.right, right), predicate=rest)


FILTER_RULES = (
    merge_filters,
    push_filter_below_window,
    push_filter_below_union,
    push_filter_below_map,
    merge_filter_into_join,
    push_join_terms_to_inputs,
)


def rename(expression: Expression, names: dict[str, str]) -> Expression:
    """The expression over columns of other names."""
    return transform(expression, lambda e: replace(e, name=names.get(e.name, e.name)) if isinstance(e, Column) else e)


def substitute(expression: Expression, by: dict[str, Expression]) -> Expression:
    """The expression with columns replaced by what makes them."""
    return transform(expression, lambda e: by[e.name] if isinstance(e, Column) else e)


def _reads_only(term: Expression, side: Plan) -> bool:
    return bool(columns_of(term)) and columns_of(term) <= frozenset(side.schema.names)


def _filtered(side: Plan, terms: tuple[Expression, ...]) -> Plan:
    return Filter(side, conjunction(terms)) if terms else side

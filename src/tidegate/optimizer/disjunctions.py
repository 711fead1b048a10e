"""Rules that split semi- and anti-joins on a disjunction, which would compare all pairs of rows.

NOT IN and ALL are unknown where a side of their comparison is NULL: `x < y OR x IS NULL OR y IS NULL`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

from tidegate.algebra.plan import Filter, Plan, SemiJoin, Union
from tidegate.expressions.nodes import TRUE, Call, Expression, conjunction, conjuncts
from tidegate.optimizer.names import is_safe, reads_only
from tidegate.optimizer.rule import rule
from tidegate.schema import Type


@rule("S1 ▷p∨q S2 = (S1 ▷p S2) ▷q S2 if q reads only one side")
def split_anti_join_on_or(plan: Plan) -> Plan | None:
    match plan:
        case SemiJoin(anti=True, left=left) if found := _one_sided_case(plan):
            case_, rest = found
            return replace(plan, left=replace(plan, left=left, predicate=rest), predicate=case_)
    return None


@rule("S1 ⋉p∨q S2 = (S1 ⋉p S2) ∪ ((S1 ▷p S2) ⋉q S2) if q reads only one side")
def split_semi_join_on_or(plan: Plan) -> Plan | None:
    match plan:
        case SemiJoin(anti=False, left=left) if found := _one_sided_case(plan):
            case_, rest = found
            others = SemiJoin(left, plan.right, rest, anti=True, span=plan.span)
            return Union((replace(plan, predicate=rest), replace(plan, left=others, predicate=case_)), plan.span)
    return None


@rule("S1 ▷p S2 = σ¬p(S1) ∪ (σp(S1) ▷ S2) if p reads only S1")
def split_anti_join_on_left(plan: Plan) -> Plan | None:
    match plan:
        case SemiJoin(left=left, predicate=p, anti=True) if reads_only(p, left.schema.names) and is_safe(p):
            without = replace(plan, left=Filter(left, p, plan.span), predicate=TRUE)
            return Union((Filter(left, _not_true(p), plan.span), without), plan.span)
    return None


DISJUNCTION_RULES = (split_anti_join_on_or, split_semi_join_on_or, split_anti_join_on_left)


def _one_sided_case(plan: SemiJoin) -> tuple[Expression, Expression] | None:
    """Return the predicate of a case that reads only one side, and the predicate of all other cases."""
    terms = conjuncts(plan.predicate)
    if not is_safe(plan.predicate):
        return None
    for at, term in enumerate(terms):
        cases = tuple(_disjuncts(term))
        case_ = next((each for each in cases if _is_one_sided(each, plan)), None)
        others = [each for each in cases if each != case_]
        if case_ is not None and not all(_is_one_sided(each, plan) for each in others):
            either = reduce(lambda a, b: Call("or", (a, b), Type.BOOLEAN, term.span), others)
            one, other = ((*terms[:at], each, *terms[at + 1 :]) for each in (case_, either))
            return conjunction(one), conjunction(other)
    return None


def _not_true(condition: Expression) -> Expression:
    is_never_null = isinstance(condition, Call) and condition.function == "is_null"
    known = condition if is_never_null else Call("is_true", (condition,), Type.BOOLEAN, condition.span)
    return Call("not", (known,), Type.BOOLEAN, condition.span)


def _disjuncts(condition: Expression) -> Iterator[Expression]:
    match condition:
        case Call("or", (left, right)):
            yield from _disjuncts(left)
            yield from _disjuncts(right)
        case _:
            yield condition


def _is_one_sided(condition: Expression, plan: SemiJoin) -> bool:
    return any(reads_only(condition, side.schema.names) for side in (plan.left, plan.right))

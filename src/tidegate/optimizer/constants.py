"""Rules for constants: conditions with literals, and parts of a plan without elements."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.plan import (
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Map,
    Plan,
    Sample,
    SemiJoin,
    Split,
    Stamp,
    Union,
    Window,
)
from tidegate.expressions.nodes import TRUE, Call, Expression, Literal, transform, walk
from tidegate.optimizer.names import rename_columns
from tidegate.optimizer.rule import rule
from tidegate.schema import Type

FALSE = Literal(value=False, type=Type.BOOLEAN)


@rule("σTRUE∨p(S) = σTRUE(S), σFALSE∧p(S) = σFALSE(S), and so for joins")
def fold_constant_conditions(plan: Plan) -> Plan | None:
    match plan:
        case Filter(predicate=predicate) | Join(predicate=predicate) | SemiJoin(predicate=predicate):
            folded = fold_condition(predicate)
            return None if folded == predicate else replace(plan, predicate=folded)
    return None


@rule("S1 ⋈FALSE S2 = σFALSE(S1) ⋈ S2, and so for ⋉; S1 ▷FALSE S2 = S1")
def push_false_to_left(plan: Plan) -> Plan | None:
    match plan:
        case SemiJoin(left=left, predicate=predicate, anti=True) if predicate == FALSE:
            return left
        case Join(left=left, predicate=predicate) | SemiJoin(left=left, predicate=predicate) if predicate == FALSE:
            return replace(plan, left=Filter(left, FALSE, plan.span), predicate=TRUE)
    return None


@rule("S ∪ σFALSE(T) = S")
def drop_empty_union_inputs(plan: Plan) -> Plan | None:
    match plan:
        case Union(inputs=inputs) if any(is_empty(each) for each in inputs):
            kept = tuple(each for each in inputs if not is_empty(each)) or inputs[:1]
            # The first input names the columns of a union.
            return (
                replace(plan, inputs=(rename_columns(kept[0], plan.schema.names), *kept[1:]))
                if kept != inputs
                else None
            )
    return None


CONSTANT_RULES = (fold_constant_conditions, push_false_to_left, drop_empty_union_inputs)


def fold_condition(condition: Expression) -> Expression:
    """Return a condition that is true of the same rows, without redundant literals.

    A literal that decides a condition decides it even where the other side fails.
    """
    if not any(isinstance(each, Literal) and each.type in (Type.BOOLEAN, Type.NULL) for each in walk(condition)):
        return condition
    folded = transform(condition, _fold_part)
    return FALSE if isinstance(folded, Literal) and folded.value is None else folded


def _fold_part(part: Expression) -> Expression:
    match part:
        case Call("not", (Literal(value=value) as literal,)):
            return replace(literal, value=None if value is None else not value)
        case Call("is_null", (Literal(value=value),)):
            return replace(FALSE, value=value is None, span=part.span)
        case Call("and" | "or" as name, (left, right)):
            decides = name == "or"
            for one, other in ((left, right), (right, left)):
                if isinstance(one, Literal) and one.value is not None:
                    return one if one.value is decides else other
    return part


def is_empty(plan: Plan) -> bool:
    """Return whether a plan is known to have no elements."""
    match plan:
        case Filter(source=source, predicate=predicate):
            return predicate == FALSE or is_empty(source)
        case Map() | Distinct() | Window() | CountWindow() | Granularity() | Split() | Coalesce() | Stamp() | Sample():
            return is_empty(plan.source)
        case Join(left=left, right=right) | SemiJoin(left=left, right=right, anti=False):
            return is_empty(left) or is_empty(right)
        case SemiJoin(left=left):
            return is_empty(left)
        case Union(inputs=inputs):
            return all(map(is_empty, inputs))
    return False

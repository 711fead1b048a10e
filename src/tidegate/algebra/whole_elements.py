"""Windows over lasting elements that need not be split, because only the set of rows at an instant matters."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.plan import (
    Aggregate,
    Coalesce,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Plan,
    SemiJoin,
    SetOperation,
    SetRule,
    Split,
    Union,
    Window,
    inputs,
    with_inputs,
)
from tidegate.algebra.properties.calls import sees_copies
from tidegate.algebra.properties.validities import is_chronon
from tidegate.expressions.functions.resolve import can_fail
from tidegate.expressions.nodes import Expression


def extend_as_sets(plan: Plan) -> Plan:
    """Let windows extend whole elements if the operator does not depend on the number of copies of a row.

    A window makes an element of every instant of a validity [s, e), so that the number of copies of a row is the
    number of its instants in the window. As a set, these are [s, e + size - 1), if no slide leaves a gap.
    """
    match plan:
        case Distinct(source=source):
            return with_inputs(plan, (_as_set(source),))
        case Aggregate(source=source, calls=calls) if not any(map(sees_copies, calls)):
            return with_inputs(plan, (_as_set(source),))
        case SemiJoin(left=left, right=right):
            return with_inputs(plan, (left, _as_set(right)))
        case SetOperation(left=left, right=right, rule=SetRule.EXCEPT | SetRule.INTERSECT):
            return with_inputs(plan, (_as_set(left), _as_set(right)))
    return plan


def _as_set(plan: Plan) -> Plan:
    """Return a plan with the same set of rows at every instant, perhaps with fewer copies."""
    match plan:
        case Window(source=source, size=size, slide=slide):
            below, gapless = _as_set(source), size is None or slide <= size
            whole = plan.whole or (gapless and not is_chronon(source))
            return plan if below is source and whole == plan.whole else replace(plan, source=below, whole=whole)
        case SemiJoin(left=left, right=right):
            return with_inputs(plan, (_as_set(left), right)) if not can_fail(plan.predicate) else plan
        case _ if _keeps_sets(plan):
            return with_inputs(plan, tuple(_as_set(each) for each in inputs(plan)))
    return plan


def _keeps_sets(plan: Plan) -> bool:
    """Return whether the set of rows depends on those of the inputs alone, and nothing can fail once per copy."""
    read: tuple[Expression, ...] = ()
    match plan:
        case Union() | Granularity() | Split() | Coalesce():
            return True
        case Limit(count=1, offset=0, ties=True):
            return True
        case Filter(predicate=predicate) | Join(predicate=predicate):
            read = (predicate,)
        case Map(outputs=outputs):
            read = tuple(o.expression for o in outputs)
        case _:
            return False
    return not any(can_fail(each) for each in read)

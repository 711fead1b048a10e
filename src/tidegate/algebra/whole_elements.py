"""Windows over elements that last, where only the set of rows at an instant counts: these need not be split."""

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
from tidegate.algebra.properties.reach import is_chronon
from tidegate.expressions.functions.resolve import can_fail
from tidegate.expressions.nodes import Expression


def extend_as_sets(plan: Plan) -> Plan:
    """The operator over windows that extend whole elements, where it does not see how often a row is there.

    A window makes an element of every instant of a validity [s, e), so that a row is there as often as
    instants of it are in the window. As a set, these are [s, e + size - 1), if no slide leaves a gap.
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
    """The same rows at every instant, perhaps not as often."""
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
    """Whether the set of rows depends on those of the inputs alone, and nothing can fail once for each copy."""
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

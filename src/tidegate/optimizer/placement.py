"""Rules for split, coalesce and granularity: where validities are cut, merged and made coarser.

No rule puts a coalesce below an operator with state, although fewer elements would reach it (PIPES, Lemma 12.1). It
would hold each element back until it has ended, and with it the watermark, so that all results came later. Within a
step, where it would not, aggregates have merged equal neighbours already.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.adaptable import is_adaptable
from tidegate.algebra.plan import (
    WHOLE,
    Aggregate,
    Changes,
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
    Split,
    Union,
    Window,
    inputs,
    with_inputs,
)
from tidegate.algebra.properties import is_chronon
from tidegate.algebra.properties.calls import call_can_fail
from tidegate.expressions.nodes import Column
from tidegate.optimizer.names import is_safe
from tidegate.optimizer.rule import Scope, rule


@rule("ς(S) = S if the elements of S are valid for one chronon", scope=Scope.TIME)
def omit_split(plan: Plan) -> Plan | None:
    match plan:
        case Split(source=source) if is_chronon(source):
            return source
    return None


@rule("ςa(ςb(S)) = ςmin(a,b)(S)", scope=Scope.TIME)
def merge_splits(plan: Plan) -> Plan | None:
    match plan:
        case Split(source=Split(source=source, length=inner), length=outer):
            return replace(plan, source=source, length=min(inner, outer))
    return None


@rule("ζa(ζb(S)) = ζa(S), ζa(ςb(S)) = ζa(S) and ςa(ζb(S)) = ςa(S) (12.2, 12.3)", scope=Scope.TIME)
def drop_inner_recut(plan: Plan) -> Plan | None:
    match plan:
        case Coalesce(source=Coalesce(source=source) | Split(source=source)) | Split(source=Coalesce(source=source)):
            return replace(plan, source=source)
    return None


@rule("ω(ζ(S)) = ω(S): a window takes each instant separately", scope=Scope.TIME)
def drop_coalesce_below_window(plan: Plan) -> Plan | None:
    match plan:
        case Window(source=Coalesce(source=source)):
            return replace(plan, source=source)
    return None


@rule("op(ζ(S)) = op(ς(S)) = op(S) for operators that look at each instant separately", scope=Scope.TIME)
def drop_recut_below_groups(plan: Plan) -> Plan | None:
    # They merge equal neighbours themselves, and a coalesce would hold back the watermark.
    match plan:
        case Aggregate(calls=calls) if any(call_can_fail(c) for c in calls):
            return None  # a result that fails becomes a dead letter for each of its parts
        case Aggregate() | Distinct() | Limit() | Changes() | SetOperation():
            below = tuple(each.source if isinstance(each, Coalesce | Split) else each for each in inputs(plan))
        case SemiJoin(right=Coalesce() | Split() as right):
            below = (plan.left, right.source)
        case _:
            return None
    return None if below == inputs(plan) else with_inputs(plan, below)


@rule("ζ(γ(S)) = γ(S): a group reports each row once, with its whole validity", scope=Scope.TIME)
def drop_coalesce_of_groups(plan: Plan) -> Plan | None:
    match plan:
        case Coalesce(source=source, length=length) if length == WHOLE and _reports_whole_rows(source):
            return source
    return None


@rule("Γa(Γb(S)) = Γa(S) if a is a multiple of b (20.2)", scope=Scope.TIME)
def merge_granularities(plan: Plan) -> Plan | None:
    match plan:
        case Granularity(source=Granularity(source=source, size=inner), size=outer) if outer % inner == 0:
            # The outer size of an adaptable granularity is that at the start that the inner one gives.
            return None if is_adaptable(plan) else replace(plan, source=source)
    return None


@rule("Γ(op(S…)) = op(Γ(S)…) for operators that look at each instant separately", scope=Scope.TIME)
def push_granularity_down(plan: Plan) -> Plan | None:
    # Near the sources it saves the operators above it most instants. Filters save even more, so they go below it.
    match plan:
        case Granularity(source=below, size=size, span=span) if _commutes(below):
            # An adaptable one stands above maps and unions alone, which leave the starts of elements as they are.
            coarsest = plan.coarsest if is_adaptable(plan) else None
            return with_inputs(below, tuple(Granularity(each, size, span, coarsest) for each in inputs(below)))
    return None


PLACEMENT_RULES = (
    omit_split,
    merge_splits,
    drop_inner_recut,
    drop_coalesce_below_window,
    drop_recut_below_groups,
    drop_coalesce_of_groups,
    merge_granularities,
    push_granularity_down,
)


def _reports_whole_rows(plan: Plan) -> bool:
    """Return whether no two rows of a plan are equal and adjacent in time, if each is reported once."""
    match plan:
        case Filter(source=source):
            return _reports_whole_rows(source)
        case Map(source=source, outputs=outputs):
            kept = {o.expression.name for o in outputs if isinstance(o.expression, Column)}
            return kept == set(source.schema.names) and _reports_whole_rows(source)
    return isinstance(plan, Aggregate | Distinct)


def _commutes(plan: Plan) -> bool:
    """Return whether the operator can work on coarser time: a failure between two granules must not get lost."""
    match plan:
        case Map(outputs=outputs):
            return is_safe(*(o.expression for o in outputs))
        case Join(predicate=predicate) | SemiJoin(predicate=predicate):
            return is_safe(predicate)
        case Aggregate(calls=calls):
            return not any(call_can_fail(c) for c in calls)
        case Union() | Distinct() | SetOperation() | Limit():
            return True
    return False

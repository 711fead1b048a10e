"""Effects of shedding on the results of a plan: fewer results are accepted, wrong ones are refused."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.algebra.alert_operators import GroupedTotals, ThresholdJoin, TotalThreshold
from tidegate.algebra.plan import (
    Aggregate,
    Changes,
    CountWindow,
    Distinct,
    Limit,
    Plan,
    Sample,
    SemiJoin,
    SetOperation,
    SetRule,
    inputs,
    walk,
)
from tidegate.algebra.similarity_join import Policy, SimilarityJoin
from tidegate.errors import QueryError, Span

_SUBTRACTING = (SetRule.EXCEPT, SetRule.EXCEPT_ALL, SetRule.STRICT_EXCEPT_ALL)


def can_shed(plan: Plan) -> bool:
    """Return whether a join or alert of an optimised plan may leave out comparisons, or a sample rows."""
    return can_shed_comparisons(plan) or any(isinstance(node, Sample) for node in walk(plan))


def refuse_wrong_results(plan: Plan) -> None:
    """Raise a QueryError if leaving out comparisons could yield rows that are not part of the exact result.

    A join that sheds finds fewer pairs. Most operators then yield fewer rows, too. Operators that depend on all pairs
    together yield other rows instead: a COUNT is too small, a LIMIT admits other rows, a NOT EXISTS holds wrongly.
    """
    for what, span in _wrong_results(plan):
        message = f"{what} a join that sheds would be wrong: it sees only the pairs that were found"
        hint = (
            "write WITH (shedding = off), or WITH (shedding = on, approximate = yes) if values computed from a part "
            "of the pairs will do"
        )
        raise QueryError("Q128", message, span, hint=hint)


def _wrong_results(plan: Plan) -> Iterator[tuple[str, Span]]:
    for node in walk(plan):
        match node:
            case Aggregate(calls=(first, *_), source=source) if can_shed_comparisons(source):
                yield f"{first.function.upper()} above", node.span
            case Limit(source=source) if can_shed_comparisons(source):
                yield "LIMIT above", node.span
            case CountWindow(source=source) if can_shed_comparisons(source):
                yield "a window of rows over", node.span
            case TotalThreshold(source=source) | GroupedTotals(source=source) if can_shed_comparisons(source):
                yield "TOTAL over", node.span
            case Changes(source=source) if _joins_validities(source) and can_shed_comparisons(source):
                yield f"{node.change.value.upper()} of", node.span
            case SemiJoin(right=right, anti=True) if can_shed_comparisons(right):
                yield "a condition that no row may meet of", node.span
            case SetOperation(right=right, rule=rule) if rule in _SUBTRACTING and can_shed_comparisons(right):
                yield f"{rule.value.upper()} of", node.span


def _joins_validities(plan: Plan) -> bool:
    """Return whether rows are made of several pairs, so that a missing pair leaves a gap in time."""
    return any(isinstance(node, Distinct | Aggregate) for node in (plan, *inputs(plan)))


def can_shed_comparisons(plan: Plan) -> bool:
    """Return whether a join or alert of an optimised plan may leave out comparisons."""
    return any(_sheds(node) for node in walk(plan))


def _sheds(node: Plan) -> bool:
    match node:
        case SimilarityJoin(shedding=shedding):
            return shedding.policy is not Policy.OFF
        case ThresholdJoin(alerts=alerts):
            return any(alert.shedding.policy is not Policy.OFF for alert in alerts)
    return False

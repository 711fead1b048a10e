"""WHEN of an alert on a total, as written: the counted expression and the threshold."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.errors import QueryError, Span
from tidegate.expressions.functions.user_registry import find_aggregate
from tidegate.language import syntax
from tidegate.language.syntax import CountStar, Expression, FunctionCall, Operation
from tidegate.language.syntax.totals import is_total
from tidegate.values import value

_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "=", "<>": "<>"}


@value
class WrittenTotal:
    """TOTAL(weight), or COUNT(*) without a weight, and the threshold to reach or, with `beyond`, to exceed."""

    weight: Expression | None
    threshold: Expression
    beyond: bool
    span: Span


def refuse_totals(node: Expression | None, place: str) -> None:
    """Refuse TOTAL and COUNT where only single elements make sense."""
    for each in _totals_in(node):
        hint = "totals go into WHEN; WHERE and the other clauses are about single elements"
        message = f"{each.name.text.upper()} is not allowed in the {place} of an alert"
        raise QueryError("Q107", message, each.span, hint=hint)


def find_total(when: Expression) -> WrittenTotal | None:
    """Return the count and threshold of WHEN; None if it counts nothing."""
    match when:
        case Operation(operator, (left, right)) if operator in _MIRRORED and is_total(left):
            return _make_total(left, operator, right, when)
        case Operation(operator, (left, right)) if operator in _MIRRORED and is_total(right):
            return _make_total(right, _MIRRORED[operator], left, when)
    _refuse_totals_inside(when)
    refuse_aggregates(when)
    return None


def _make_total(counted: Expression, operator: str, threshold: Expression, when: Expression) -> WrittenTotal:
    match operator:
        case "=" | "<>":
            hint = "write >=: a total may pass a number without ever being equal to it"
            raise QueryError("Q213", "an alert waits until a total reaches a threshold", when.span, hint=hint)
        case "<" | "<=":
            hint = "write >= or >, for example WHEN TOTAL(t.weight) >= 1000"
            raise QueryError("Q213", "this is true before anything is counted", when.span, hint=hint)
    for each in _totals_in(threshold):
        hint = "compare it with a number, or with a column of a subscription"
        raise QueryError("Q213", "a total is compared with a threshold, not with a total", each.span, hint=hint)
    return WrittenTotal(_weight_of_total(counted), threshold, operator == ">", counted.span)


def _weight_of_total(counted: Expression) -> Expression | None:
    assert isinstance(counted, FunctionCall | CountStar)
    if counted.filter is not None:
        hint = "put its condition into WHERE: only elements for which it is true count"
        raise QueryError("Q213", "the total of an alert has no FILTER", counted.filter.span, hint=hint)
    match counted:
        case CountStar(name=name, span=span) if name.text.lower() == "total":
            raise QueryError("Q213", "TOTAL adds weights", span, hint="write COUNT(*) to count elements")
        case CountStar():
            return None
        case FunctionCall(distinct=True, span=span):
            hint = "remove DISTINCT: every element counts"
            raise QueryError("Q213", "TOTAL takes no DISTINCT", span, hint=hint)
        case FunctionCall(arguments=(weight,)):
            for each in _totals_in(weight):
                hint = "write the weight of one element into it"
                raise QueryError("Q213", "a total cannot contain another total", each.span, hint=hint)
            return weight
    raise QueryError("Q213", "TOTAL takes one weight", counted.span, hint="write for example TOTAL(t.shares)")


def _refuse_totals_inside(when: Expression) -> None:
    for each in _totals_in(when):
        if isinstance(when, Operation) and when.operator in ("and", "or"):
            hint = (
                "keep one comparison in WHEN; put conditions on elements into WHERE, and other totals into other alerts"
            )
            raise QueryError("Q213", "WHEN takes one comparison", when.span, hint=hint)
        word = "COUNT(*)" if isinstance(each, CountStar) else "TOTAL(…)"
        hint = f"write WHEN {word} >= threshold"
        raise QueryError("Q213", f"{word} must be alone on one side of a comparison", each.span, hint=hint)


def refuse_aggregates(when: Expression) -> None:
    """Refuse aggregates in the WHEN of an alert on one stream, and say how it could count."""
    for each in syntax.walk(when):
        match each:
            case FunctionCall(name=name, span=span) if find_aggregate(name.text) is not None:
                hint = "TOTAL(…) adds weights as elements arrive; for aggregates write SELECT … GROUP BY … HAVING …"
                if name.text.lower() == "sum":
                    hint = "write TOTAL(…), which adds weights as elements arrive"
                if name.text.lower() == "count":
                    hint = "write COUNT(*) for elements, or TOTAL(…) for their weights"
                raise QueryError("Q213", f"an alert cannot count with {name.text.upper()}(…)", span, hint=hint)


def _totals_in(node: Expression | None) -> Iterator[FunctionCall | CountStar]:
    return (n for n in syntax.walk(node) if isinstance(n, FunctionCall | CountStar) and is_total(n))

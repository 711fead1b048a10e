"""WHERE of CREATE ALERTS: filters of either stream, keys, and the ranges of subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tidegate.errors import QueryError, Span
from tidegate.expressions.coercion import coerce, common_type_of
from tidegate.expressions.nodes import Call, Cast, Expression
from tidegate.expressions.sql_text import to_sql
from tidegate.language.bind.names import Scope, source_positions
from tidegate.schema import Type
from tidegate.values import value

MOST_DIMENSIONS = 4

_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@value
class Range:
    """A value of elements, and the ends of its range in subscriptions; None: no end."""

    value: Expression
    low: Expression | None = None
    high: Expression | None = None
    low_open: bool = False
    high_open: bool = False


@dataclass(slots=True)
class SubscriptionTerms:
    """The terms of WHERE: those on elements, on subscriptions, and on both; elements come first in a pair."""

    elements: list[Expression] = field(default_factory=list)
    subscriptions: list[Expression] = field(default_factory=list)
    keys: list[tuple[Expression, Expression]] = field(default_factory=list)
    ranges: tuple[Range, ...] = ()


@value
class _End:
    value: Expression
    end: Expression
    operator: str
    span: Span


def sort_terms(terms: Iterable[Expression], scope: Scope) -> SubscriptionTerms:
    """Sort the terms of a conjunction; `scope` has the elements, then the subscriptions."""
    found, ends = SubscriptionTerms(), list[_End]()
    for term in terms:
        match source_positions(term, scope):
            case [] | [0]:
                found.elements.append(term)
            case [1]:
                found.subscriptions.append(term)
            case _:
                operator, value, end = _split_comparison(term, scope)
                if operator == "=":
                    found.keys.append((value, end))
                else:
                    ends.append(_End(value, end, operator, term.span))
    found.ranges = _ranges(ends)
    return found


def _split_comparison(term: Expression, scope: Scope) -> tuple[str, Expression, Expression]:
    """Return the comparison of a value of elements with one of subscriptions, in this order."""
    elements, subscriptions = (visible.alias for visible in scope)
    match term:
        case Call(operator, (left, right)) if operator in _MIRRORED:
            match source_positions(left, scope), source_positions(right, scope):
                case [0], [1]:
                    return operator, left, right
                case [1], [0]:
                    return _MIRRORED[operator], right, left
            mixed = left if len(source_positions(left, scope)) > 1 else right
            message = f"'{to_sql(mixed)}' reads both '{elements}' and '{subscriptions}'"
            hint = (
                f"each side of a comparison reads one of them: move the columns of '{subscriptions}' to the other side"
            )
            raise QueryError("Q216", message, term.span, hint=hint)
    hint = (
        f"write comparisons with =, <, <=, >, >= or BETWEEN, joined by AND, such as {elements}.x >= {subscriptions}.low"
    )
    message = f"this is not a range of '{elements}' with ends from '{subscriptions}'"
    raise QueryError("Q216", message, term.span, hint=hint)


def _ranges(ends: Sequence[_End]) -> tuple[Range, ...]:
    grouped: dict[Expression, list[_End]] = {}
    for end in ends:
        _refuse_type(end)
        value = _without_exact_cast(end.value)
        if value not in grouped and len(grouped) == MOST_DIMENSIONS:
            hint = f"compare others by =, or make a second alert; ranges so far: {_list_values(grouped)}"
            raise QueryError("Q216", f"an alert has ranges of at most {MOST_DIMENSIONS} values", end.span, hint=hint)
        grouped.setdefault(value, []).append(end)
    return tuple(_range(value, own) for value, own in grouped.items())


def _refuse_type(end: _End) -> None:
    type_ = end.value.type
    if not type_.is_numeric and type_ is not Type.TIMESTAMP:
        hint = "compare texts by =; number them in a query in FROM if they have an order"
        if type_ is not Type.STRING:
            hint = "compare it by =, or convert it to a number"
        raise QueryError("Q216", f"ranges take numbers and times, but this is {type_.name}", end.span, hint=hint)


def _without_exact_cast(value: Expression) -> Expression:
    """Remove a cast that keeps different values different; any other cast would merge values."""
    match value:
        case Cast(argument=inner, type=Type.BIGINT | Type.DOUBLE) if inner.type in (Type.INT, Type.REAL):
            return inner
    return value


def _range(value: Expression, ends: Sequence[_End]) -> Range:
    type_ = common_type_of(each.value for each in ends) or value.type
    type_ = Type.DOUBLE if type_ is Type.REAL else type_
    lows = [each for each in ends if each.operator.startswith(">")]
    highs = [each for each in ends if each.operator.startswith("<")]
    for several, function, name in ((lows, "GREATEST", "lower"), (highs, "LEAST", "upper")):
        if len(several) > 1:
            both = ", ".join(to_sql(_without_exact_cast(each.end)) for each in several[:2])
            hint = f"write {function}({both}) for one end, or make a second alert"
            message = f"the range of '{to_sql(value)}' has two {name} ends"
            raise QueryError("Q216", message, several[1].span, hint=hint)
    low, high = (
        coerce(_without_exact_cast(each[0].end), type_, each[0].span) if each else None for each in (lows, highs)
    )
    return Range(
        coerce(value, type_, value.span),
        low,
        high,
        bool(lows) and lows[0].operator == ">",
        bool(highs) and highs[0].operator == "<",
    )


def _list_values(values: Iterable[Expression]) -> str:
    return ", ".join(map(to_sql, values))

"""Bind CREATE ALERTS to a logical plan that counts elements in the ranges of subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.algebra.alarms import RangeThreshold
from tidegate.algebra.plan import Map, Plan
from tidegate.algebra.subscriptions import Dimension, Subscribed, Waiting
from tidegate.errors import QueryError, nearest
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import Column, Expression, Literal, conjuncts
from tidegate.language import syntax
from tidegate.language.bind.alerts.keys import Key, common_keys, is_implied
from tidegate.language.bind.alerts.range_terms import Range, Terms, terms_of
from tidegate.language.bind.alerts.sources import alert_context, filtered, read_streams
from tidegate.language.bind.alerts.total_outputs import Computed, outputs
from tidegate.language.bind.alerts.total_values import threshold_of, weight_of
from tidegate.language.bind.alerts.total_when import Counted, refuse_counted
from tidegate.language.bind.context import BindContext
from tidegate.language.bind.names import Scope, Visible, find_column, read_by, same
from tidegate.language.bind.query.expressions import bind_condition
from tidegate.language.syntax import CreateTotalAlert, Subscribing
from tidegate.schema import Type

_Pairs = Sequence[tuple[Expression, Expression]]


def bind_subscriptions(
    statement: CreateTotalAlert, subscribing: Subscribing, counted: Counted, within: int | None, around: BindContext
) -> Plan:
    """Return the plan of an alert with subscriptions; its rows are alarms."""
    reads = read_streams(statement.sources, around, counts=True)
    written = tuple(visible for read in reads for visible in read.scope)
    weight = weight_of(counted, written)
    if _elements(weight, counted, written) == 1:
        reads.reverse()
    scope = tuple(visible for read in reads for visible in read.scope)
    threshold = _threshold(counted, weight, written, scope)
    terms, named = _where(statement, written, scope)
    elements = Computed(filtered(reads[0].plan, terms.elements))
    subscriptions = Computed(filtered(reads[1].plan, terms.subscriptions))
    pairs = list(dict.fromkeys([*named, *terms.keys]))
    keys = _keys(pairs, elements, subscriptions)
    dimensions = tuple(_dimension(i, each, elements, subscriptions) for i, each in enumerate(terms.ranges))
    waiting = Waiting(statement.name.text, elements.named("range:weight", weight), within, statement.repeats)
    ended = _ended(subscribing.ended, scope)
    subscribed = Subscribed(
        _id(subscribing.id, scope, statement).name,
        subscriptions.named("range:threshold", threshold),
        dimensions,
        None if ended is None else subscriptions.named("range:ended", ended),
    )
    alarms = RangeThreshold(elements.plan, subscriptions.plan, keys, waiting, subscribed, statement.span)
    return Map(alarms, outputs(_plain(pairs), scope, statement.name.span), statement.span)


# ---- WHEN


def _elements(weight: Expression, counted: Counted, scope: Scope) -> int:
    """Return the position in FROM of the counted stream: the stream of the weights, or the first."""
    match read_by(weight, scope):
        case []:
            return 0
        case [only]:
            return only
    hint = "write into TOTAL what an element weighs, and what a subscription asks for into the threshold"
    both = " and ".join(f"'{visible.alias}'" for visible in scope)
    raise QueryError("Q213", f"this weight reads {both}", counted.span, hint=hint)


def _threshold(counted: Counted, weight: Expression, written: Scope, scope: Scope) -> Expression:
    threshold = threshold_of(counted, written)
    elements, subscriptions = (visible.alias for visible in scope)
    if 0 not in read_by(threshold, scope):
        return threshold
    hint = f"a threshold is a number, or read from the subscription: {subscriptions}.threshold"
    if not read_by(weight, scope) and read_by(threshold, scope) == [0]:
        hint = f"the stream that is counted comes first: FROM … {subscriptions}, … {elements}"
    raise QueryError("Q213", f"'{elements}' is counted, and this threshold reads it", counted.threshold.span, hint=hint)


# ---- WHERE and MATCHING


def _where(
    statement: CreateTotalAlert, written: Scope, scope: Scope
) -> tuple[Terms, list[tuple[Expression, Expression]]]:
    """Return the terms on elements and subscriptions, and the keys of MATCHING."""
    terms: tuple[Expression, ...] = ()
    if statement.where is not None:
        terms = conjuncts(bind_condition(statement.where, alert_context(written, "WHERE")))
    named = common_keys(statement.matching, (), scope)
    others = (term for term in terms if not is_implied(term, named))
    return terms_of(dict.fromkeys(others), scope), [(key[0], key[1]) for key in named]


def _keys(pairs: _Pairs, elements: Computed, subscriptions: Computed) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = [
        (elements.named(f"range:key:{i}", own), subscriptions.named(f"range:subscribed:{i}", theirs))
        for i, (own, theirs) in enumerate(pairs)
    ]
    return tuple(own for own, _ in names), tuple(theirs for _, theirs in names)


def _plain(pairs: _Pairs) -> list[Key]:
    """Return the keys that are columns on both sides, and hence appear once in the output."""
    return [(own, theirs) for own, theirs in pairs if isinstance(own, Column) and isinstance(theirs, Column)]


def _dimension(i: int, each: Range, elements: Computed, subscriptions: Computed) -> Dimension:
    low = None if each.low is None else subscriptions.named(f"range:low:{i}", each.low)
    high = None if each.high is None else subscriptions.named(f"range:high:{i}", each.high)
    return Dimension(elements.named(f"range:value:{i}", each.value), low, high, each.low_open, each.high_open)


# ---- subscriptions


def _id(column: syntax.ColumnReference | None, scope: Scope, statement: CreateTotalAlert) -> Column:
    subscriptions = scope[1]
    if column is not None:
        _refuse_elements(column, scope, "ID names")
        return find_column((subscriptions,), column)
    found = subscriptions.named("id")
    if found is None:
        message = f"subscriptions are known by a column 'id', and '{subscriptions.alias}' has none"
        first = next((own for own, _ in subscriptions), "name")
        hint = f"say which column names them, for instance ID {subscriptions.alias}.{first}"
        raise QueryError("Q210", message, statement.name.span, hint=hint)
    return found


def _ended(condition: syntax.Expression | None, scope: Scope) -> Expression | None:
    """Return the condition for a row to end a subscription: TERMINATE WHEN, or a column `active` or `action`."""
    subscriptions = scope[1]
    if condition is not None:
        refuse_counted(condition, "TERMINATE WHEN")
        for each in syntax.walk(condition):
            if isinstance(each, syntax.ColumnReference):
                _refuse_elements(each, scope, "TERMINATE WHEN reads")
        return bind_condition(condition, alert_context((subscriptions,), "TERMINATE WHEN"))
    active, action = subscriptions.named("active"), subscriptions.named("action")
    if active is not None and active.type is Type.BOOLEAN:
        return resolve("is_false", (active,), active.span)
    if action is not None and action.type is Type.STRING:
        upper = resolve("upper", (action,), action.span)
        return resolve("=", (upper, Literal("TERMINATE", Type.STRING, action.span)), action.span)
    return None


def _refuse_elements(column: syntax.ColumnReference, scope: Scope, what: str) -> None:
    elements, subscriptions = scope
    if _is_of(column, elements) and not _is_of(column, subscriptions):
        hint = f"write {subscriptions.alias}.column; {nearest(column.name.text, (own for own, _ in subscriptions))}"
        message = f"{what} columns of '{subscriptions.alias}', and this is one of '{elements.alias}'"
        raise QueryError("Q216", message, column.span, hint=hint)


def _is_of(column: syntax.ColumnReference, visible: Visible) -> bool:
    qualifier = column.qualifier
    if qualifier is None:
        return visible.named(column.name.text) is not None
    return same(visible.alias, qualifier.text) or same(visible.stream, qualifier.text)

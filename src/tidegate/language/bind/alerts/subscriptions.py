"""Bind CREATE ALERTS to a logical plan that counts elements in the ranges of subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.algebra.alert_operators import RangeThreshold
from tidegate.algebra.plan import Map, Plan
from tidegate.algebra.subscription_tables import reads_table
from tidegate.algebra.subscriptions import Dimension, SubscriptionColumns, TotalCompletion
from tidegate.errors import QueryError, suggest_name
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import Column, Expression, Literal, conjuncts
from tidegate.language import syntax
from tidegate.language.bind.alerts.keys import Key, common_keys, is_implied
from tidegate.language.bind.alerts.range_terms import Range, SubscriptionTerms, sort_terms
from tidegate.language.bind.alerts.sources import alert_context, filter_plan, read_streams
from tidegate.language.bind.alerts.total_outputs import ExtendedPlan, alarm_outputs
from tidegate.language.bind.alerts.total_values import threshold_of, weight_of
from tidegate.language.bind.alerts.total_when import WrittenTotal, refuse_totals
from tidegate.language.bind.context import BindContext, BoundSource
from tidegate.language.bind.names import Scope, VisibleStream, find_column, is_same_name, source_positions
from tidegate.language.bind.query.expressions import bind_condition
from tidegate.language.syntax import CreateTotalAlert, SubscriptionClauses
from tidegate.schema import Type

_Pairs = Sequence[tuple[Expression, Expression]]


def bind_subscriptions(
    statement: CreateTotalAlert,
    subscribing: SubscriptionClauses,
    counted: WrittenTotal,
    within: int | None,
    around: BindContext,
) -> Plan:
    """Return the plan of an alert with subscriptions; its rows are alarms."""
    reads = read_streams(statement.sources, around, counts=True, tables=True)
    written = tuple(visible for read in reads for visible in read.scope)
    weight = weight_of(counted, written)
    if _position_of_elements(weight, counted, written) == 1:
        reads.reverse()
    _refuse_counted_table(reads[0], statement)
    scope = tuple(visible for read in reads for visible in read.scope)
    threshold = _bind_threshold(counted, weight, written, scope)
    terms, named = _bind_where(statement, written, scope)
    ended = _end_condition(subscribing.ends_when, scope)
    if ended is not None and reads_table(reads[1].plan):
        # A row of a table says what is, not what happens: one that is ended is no subscription.
        terms.subscriptions.append(resolve("not", (resolve("is_true", (ended,), ended.span),), ended.span))
        ended = None
    elements = ExtendedPlan(filter_plan(reads[0].plan, terms.elements))
    subscriptions = ExtendedPlan(filter_plan(reads[1].plan, terms.subscriptions))
    pairs = list(dict.fromkeys([*named, *terms.keys]))
    keys = _key_names(pairs, elements, subscriptions)
    dimensions = tuple(_dimension(i, each, elements, subscriptions) for i, each in enumerate(terms.ranges))
    waiting = TotalCompletion(
        statement.name.text, elements.column_for("range:weight", weight), within, statement.repeats
    )
    subscribed = SubscriptionColumns(
        _id_column(subscribing.id, scope, statement).name,
        subscriptions.column_for("range:threshold", threshold),
        dimensions,
        None if ended is None else subscriptions.column_for("range:ended", ended),
    )
    alarms = RangeThreshold(elements.plan, subscriptions.plan, keys, waiting, subscribed, statement.span)
    return Map(alarms, alarm_outputs(_column_keys(pairs), scope, statement.name.span), statement.span)


def _refuse_counted_table(counted: BoundSource, statement: CreateTotalAlert) -> None:
    if reads_table(counted.plan):
        message = f"an alert cannot count the table '{counted.scope[0].alias}': its rows have no times"
        hint = "write the stream that is counted first, then the table of subscriptions: FROM stream t, table r"
        span = statement.sources[0].span.to(statement.sources[-1].span)
        raise QueryError("Q212", message, span, hint=hint)


# ---- WHEN


def _position_of_elements(weight: Expression, counted: WrittenTotal, scope: Scope) -> int:
    """Return the position in FROM of the counted stream: the stream of the weights, or the first."""
    match source_positions(weight, scope):
        case []:
            return 0
        case [only]:
            return only
    hint = "put the weight of an element into TOTAL, and values of the subscription into the threshold"
    both = " and ".join(f"'{visible.alias}'" for visible in scope)
    raise QueryError("Q213", f"this weight reads {both}", counted.span, hint=hint)


def _bind_threshold(counted: WrittenTotal, weight: Expression, written: Scope, scope: Scope) -> Expression:
    threshold = threshold_of(counted, written)
    elements, subscriptions = (visible.alias for visible in scope)
    if 0 not in source_positions(threshold, scope):
        return threshold
    hint = f"write a number, or a column of the subscription: {subscriptions}.threshold"
    if not source_positions(weight, scope) and source_positions(threshold, scope) == [0]:
        hint = f"write the stream that is counted first: FROM … {subscriptions}, … {elements}"
    raise QueryError(
        "Q213", f"this threshold reads '{elements}', the stream that is counted", counted.threshold.span, hint=hint
    )


# ---- WHERE and MATCHING


def _bind_where(
    statement: CreateTotalAlert, written: Scope, scope: Scope
) -> tuple[SubscriptionTerms, list[tuple[Expression, Expression]]]:
    """Return the terms on elements and subscriptions, and the keys of MATCHING."""
    terms: tuple[Expression, ...] = ()
    if statement.where is not None:
        terms = conjuncts(bind_condition(statement.where, alert_context(written, "WHERE")))
    named = common_keys(statement.matching, (), scope)
    others = (term for term in terms if not is_implied(term, named))
    return sort_terms(dict.fromkeys(others), scope), [(key[0], key[1]) for key in named]


def _key_names(
    pairs: _Pairs, elements: ExtendedPlan, subscriptions: ExtendedPlan
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = [
        (elements.column_for(f"range:key:{i}", own), subscriptions.column_for(f"range:subscribed:{i}", theirs))
        for i, (own, theirs) in enumerate(pairs)
    ]
    return tuple(own for own, _ in names), tuple(theirs for _, theirs in names)


def _column_keys(pairs: _Pairs) -> list[Key]:
    """Return the keys that are columns on both sides, and hence appear once in the output."""
    return [(own, theirs) for own, theirs in pairs if isinstance(own, Column) and isinstance(theirs, Column)]


def _dimension(i: int, each: Range, elements: ExtendedPlan, subscriptions: ExtendedPlan) -> Dimension:
    low = None if each.low is None else subscriptions.column_for(f"range:low:{i}", each.low)
    high = None if each.high is None else subscriptions.column_for(f"range:high:{i}", each.high)
    return Dimension(elements.column_for(f"range:value:{i}", each.value), low, high, each.low_open, each.high_open)


# ---- subscriptions


def _id_column(column: syntax.ColumnReference | None, scope: Scope, statement: CreateTotalAlert) -> Column:
    subscriptions = scope[1]
    if column is not None:
        _refuse_element_column(column, scope, "ID names")
        return find_column((subscriptions,), column)
    found = subscriptions.find("id")
    if found is None:
        message = f"subscriptions are identified by a column 'id', but '{subscriptions.alias}' has none"
        first = next((own for own, _ in subscriptions), "name")
        hint = f"name the column that identifies them, for example ID {subscriptions.alias}.{first}"
        raise QueryError("Q210", message, statement.name.span, hint=hint)
    return found


def _end_condition(condition: syntax.Expression | None, scope: Scope) -> Expression | None:
    """Return the condition for a row to end a subscription: TERMINATE WHEN, or a column `active` or `action`."""
    subscriptions = scope[1]
    if condition is not None:
        refuse_totals(condition, "TERMINATE WHEN")
        for each in syntax.walk(condition):
            if isinstance(each, syntax.ColumnReference):
                _refuse_element_column(each, scope, "TERMINATE WHEN reads")
        return bind_condition(condition, alert_context((subscriptions,), "TERMINATE WHEN"))
    active, action = subscriptions.find("active"), subscriptions.find("action")
    if active is not None and active.type is Type.BOOLEAN:
        return resolve("is_false", (active,), active.span)
    if action is not None and action.type is Type.STRING:
        upper = resolve("upper", (action,), action.span)
        return resolve("=", (upper, Literal("TERMINATE", Type.STRING, action.span)), action.span)
    return None


def _refuse_element_column(column: syntax.ColumnReference, scope: Scope, what: str) -> None:
    elements, subscriptions = scope
    if _is_column_of(column, elements) and not _is_column_of(column, subscriptions):
        hint = (
            f"write {subscriptions.alias}.column; {suggest_name(column.name.text, (own for own, _ in subscriptions))}"
        )
        message = f"{what} columns of '{subscriptions.alias}', but this is one of '{elements.alias}'"
        raise QueryError("Q216", message, column.span, hint=hint)


def _is_column_of(column: syntax.ColumnReference, visible: VisibleStream) -> bool:
    qualifier = column.qualifier
    if qualifier is None:
        return visible.find(column.name.text) is not None
    return is_same_name(visible.alias, qualifier.text) or is_same_name(visible.stream, qualifier.text)

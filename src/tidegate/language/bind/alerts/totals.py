"""Bind CREATE ALERT on totals to a logical plan, and dispatch CREATE ALERTS."""

from __future__ import annotations

from tidegate.algebra.alert_operators import TotalThreshold
from tidegate.algebra.plan import Map, Plan
from tidegate.algebra.subscriptions import TotalCompletion
from tidegate.errors import QueryError
from tidegate.expressions.nodes import Expression, conjuncts
from tidegate.language import syntax
from tidegate.language.bind.alerts.keys import common_keys
from tidegate.language.bind.alerts.sources import alert_context, filter_plan, read_streams, refuse_source
from tidegate.language.bind.alerts.subscriptions import bind_subscriptions
from tidegate.language.bind.alerts.total_outputs import ExtendedPlan, alarm_outputs
from tidegate.language.bind.alerts.total_values import threshold_of, weight_of, whole_threshold
from tidegate.language.bind.alerts.total_when import WrittenTotal, find_total, refuse_totals
from tidegate.language.bind.context import BindContext
from tidegate.language.bind.query.expressions import bind_condition
from tidegate.language.syntax import CreateTotalAlert


def bind_total(statement: CreateTotalAlert, around: BindContext) -> Plan:
    """Return the plan of an alert on a total, or of one for each subscription; its rows are alarms."""
    for source in statement.sources:
        refuse_source(source, around, counts=True, tables=statement.subscribing is not None)
    _refuse_source_count(statement)
    counted = _require_total(statement)
    refuse_totals(statement.where, "WHERE")
    if statement.subscribing is not None:
        return bind_subscriptions(statement, statement.subscribing, counted, _window_length(statement), around)
    return _bind_single_alert(statement, counted, around)


def _bind_single_alert(statement: CreateTotalAlert, counted: WrittenTotal, around: BindContext) -> Plan:
    [read] = read_streams(statement.sources, around, counts=True)
    scope = read.scope
    weight, threshold = weight_of(counted, scope), whole_threshold(threshold_of(counted, scope))
    terms: tuple[Expression, ...] = ()
    if statement.where is not None:
        terms = conjuncts(bind_condition(statement.where, alert_context(scope, "WHERE")))
    keys = common_keys(statement.matching, (), scope)
    columns = ExtendedPlan(filter_plan(read.plan, terms))
    waiting = TotalCompletion(
        statement.name.text, columns.column_for("range:weight", weight), _window_length(statement), statement.repeats
    )
    names = tuple(key[0].name for key in keys)
    alarms = TotalThreshold(columns.plan, names, waiting, threshold, statement.span)
    return Map(alarms, alarm_outputs(keys, scope, statement.name.span), statement.span)


def _require_total(statement: CreateTotalAlert) -> WrittenTotal:
    counted = find_total(statement.when)
    if counted is not None:
        return counted
    if statement.subscribing is None:
        hint = "remove REPEAT: without a total, every alarm is raised; or count with WHEN TOTAL(…) >= …"
        raise QueryError(
            "Q213", "REPEAT is for alerts on totals, and this WHEN has none", statement.when.span, hint=hint
        )
    message = "WHEN compares TOTAL(…) or COUNT(*) with a threshold"
    hint = "write for example WHEN TOTAL(t.weight) >= r.threshold; an alert that joins streams is CREATE ALERT"
    raise QueryError("Q213", message, statement.when.span, hint=hint)


def _refuse_source_count(statement: CreateTotalAlert) -> None:
    sources = statement.sources
    span = sources[0].span.to(sources[-1].span)
    if statement.subscribing is None and len(sources) > 1:
        hint = "write CREATE ALERTS name FROM stream t, subscription r for an alert for each subscription"
        raise QueryError("Q212", "an alert on a total reads one stream", span, hint=hint)
    if statement.subscribing is not None and len(sources) != 2:
        message = "CREATE ALERTS reads two streams: the one that is counted, and the subscriptions"
        hint = "write FROM stream t, subscription r; for one alert on one stream write CREATE ALERT"
        raise QueryError("Q212", message, span, hint=hint)


def _window_length(statement: CreateTotalAlert) -> int | None:
    """Return how long elements count; None: for ever."""
    match statement.within:
        case None:
            return None
        case syntax.EveryPair(distance=distance, centre=None) if not (distance.left_open or distance.right_open):
            if distance.length:
                return distance.length
            hint = "write for example WITHIN 1 HOUR, or remove WITHIN: then all elements count"
            raise QueryError("Q211", "WITHIN 0 counts no elements", distance.span, hint=hint)
        case within:
            hint = "write WITHIN and one length of time, such as WITHIN 1 HOUR: elements count for that long"
            raise QueryError("Q211", "an alert on a total takes one length of time", within.span, hint=hint)

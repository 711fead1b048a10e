"""Keys of plans: equal for plans that compute the same, whatever the names of their columns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from tidegate.algebra.adaptable import is_adaptable
from tidegate.algebra.alert_operators import GroupedTotals, RangeThreshold, ThresholdJoin, TotalThreshold
from tidegate.algebra.keyed_join import JoinEdge, KeyedJoin
from tidegate.algebra.plan import (
    Aggregate,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Plan,
    Sample,
    Scan,
    SemiJoin,
    SetOperation,
    Split,
    Stamp,
    Union,
    Window,
    inputs,
)
from tidegate.algebra.similarity_join import Shedding, SimilarityCondition, SimilarityJoin
from tidegate.algebra.subscriptions import SubscriptionColumns, TotalCompletion
from tidegate.algebra.threshold_alert import Alert, Demand
from tidegate.optimizer.names import rename


def plan_key(plan: Plan) -> Hashable:
    """Return a key of what a plan computes, without column names; equal for plans that compute the same by position."""
    return (parameters(plan, positions(plan)), *(plan_key(each) for each in inputs(plan)))


def parameters(plan: Plan, at: Mapping[str, str]) -> tuple[Hashable, ...]:
    """Return the operator with its parameters, with other names for the columns of its inputs."""
    match plan:
        case Scan(stream=stream, schema=schema, validity=validity):
            return ("scan", stream, schema, validity)
        # Queries that differ in the worst size alone share one window, whose size stays within the bounds of all.
        case Window(size=size, slide=slide, whole=whole):
            return ("window", size, slide, whole, is_adaptable(plan))
        case CountWindow(rows=rows, slide=slide, keys=keys):
            return ("count window", rows, slide, tuple(at[k] for k in keys), is_adaptable(plan))
        case Granularity(size=size):
            return ("granularity", size, is_adaptable(plan))
        case Split(length=length):
            return ("split", length)
        case Coalesce(length=length):
            return ("coalesce", length)
        case Stamp():
            return ("stamp",)
        case Sample(rate=rate, target=target):
            return ("sample", rate, target if rate is None else None)
        case Changes(change=change):
            return ("changes", change)
        case Limit(order=order, count=count, offset=offset, keys=keys, ties=ties):
            columns = tuple((at[o.column], o.descending, o.nulls_first) for o in order)
            return ("limit", columns, count, offset, tuple(at[k] for k in keys), ties)
        case Filter(predicate=predicate):
            return ("filter", rename(predicate, at))
        case Map(outputs=outputs):
            return ("map", *(rename(o.expression, at) for o in outputs))
        case Union():
            return ("union",)
        case Join(predicate=predicate):
            return ("join", rename(predicate, at))
        case KeyedJoin(edges=edges, streams=streams, watched=watched, settings=settings):
            known = tuple(replace(c, unused=c.unused and "unused") for c in plan.constraints)
            marks = tuple(mark and at[mark] for mark in plan.marks)
            own = tuple(_edge_by_position(e, at) for e in edges)
            return ("keyed join", own, streams, known, watched, settings, marks)
        case SimilarityJoin(similarity=likeness, predicate=predicate, shedding=shedding, width=width):
            alike = None if likeness is None else _similarity_by_position(likeness, at)
            return ("similarity join", alike, rename(predicate, at), _shedding_by_position(shedding, at), width)
        case SemiJoin(predicate=predicate, anti=anti):
            return ("semi-join", rename(predicate, at), anti)
        case SetOperation(rule=rule):
            return ("set operation", rule)
        case Aggregate(keys=keys, calls=calls):
            made = ((c.function, tuple(at[n] for n in c.columns), c.options, c.type, c.distinct, c.user) for c in calls)
            return ("aggregate", tuple(at[k] for k in keys), *made)
        case Distinct():
            return ("distinct",)
        case ThresholdJoin(keys=keys, alerts=alerts):
            return (
                "threshold join",
                tuple(tuple(at[k] for k in each) for each in keys),
                *(_alert_by_position(a, at) for a in alerts),
            )
        case TotalThreshold(keys=keys, waiting=waiting, threshold=threshold):
            return ("total threshold", tuple(at[k] for k in keys), _completion_by_position(waiting, at), threshold)
        case GroupedTotals(keys=keys, waiting=waiting, values=values, group=group):
            compared = tuple(at[v] for v in values)
            return "totals", tuple(at[k] for k in keys), _completion_by_position(waiting, at), compared, group
        case RangeThreshold(keys=keys, waiting=waiting, subscribed=subscribed):
            meeting = tuple(tuple(at[k] for k in each) for each in keys)
            return (
                "subscriptions",
                meeting,
                _completion_by_position(waiting, at),
                _columns_by_position(subscribed, at),
            )


def _edge_by_position(edge: JoinEdge, at: Mapping[str, str]) -> JoinEdge:
    keys = (tuple(at[name] for name in each) for each in (edge.parent_keys, edge.child_keys))
    return JoinEdge(edge.parent, edge.child, *keys)


def _similarity_by_position(likeness: SimilarityCondition, at: Mapping[str, str]) -> SimilarityCondition:
    return replace(likeness, left=at[likeness.left], right=at[likeness.right])


def _shedding_by_position(shedding: Shedding, at: Mapping[str, str]) -> Shedding:
    utility = shedding.utility
    if utility is None:
        return shedding
    return replace(shedding, utility=replace(utility, types=tuple(rename(t, at) for t in utility.types)))


def _alert_by_position(alert: Alert, at: Mapping[str, str]) -> Alert:
    """Return an alert over columns by position, without its name."""
    demands = tuple(replace(d, value=at[d.value]) if isinstance(d, Demand) else d for d in alert.demands)
    value, condition = rename(alert.value, at), rename(alert.condition, at)
    shedding = _shedding_by_position(alert.shedding, at)
    return replace(alert, name="", value=value, condition=condition, demands=demands, shedding=shedding)


def _completion_by_position(waiting: TotalCompletion, at: Mapping[str, str]) -> TotalCompletion:
    return replace(waiting, name="", weight=at[waiting.weight])


def _columns_by_position(subscribed: SubscriptionColumns, at: Mapping[str, str]) -> SubscriptionColumns:
    def position_of(name: str | None) -> str | None:
        return None if name is None else at[name]

    dimensions = tuple(
        replace(each, value=at[each.value], low=position_of(each.low), high=position_of(each.high))
        for each in subscribed.dimensions
    )
    ended = position_of(subscribed.ended)
    return SubscriptionColumns(at[subscribed.id], at[subscribed.threshold], dimensions, ended)


def positions(plan: Plan) -> dict[str, str]:
    """Map the columns of the inputs to names that contain only their position."""
    names = [name for each in inputs(plan) for name in each.schema.names] if not isinstance(plan, Union) else []
    return {name: f"#{position}" for position, name in enumerate(names)}

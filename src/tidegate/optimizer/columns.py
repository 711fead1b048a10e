"""Projection push-down: each operator gets only the columns that operators above it read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidegate.algebra.alert_operators import GroupedTotals, RangeThreshold, ThresholdJoin, TotalThreshold
from tidegate.algebra.keyed_join import KeyedJoin
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
)
from tidegate.algebra.properties.calls import call_can_fail
from tidegate.algebra.similarity_join import SimilarityJoin
from tidegate.algebra.threshold_alert import Demand
from tidegate.expressions.functions.resolve import can_fail
from tidegate.expressions.nodes import Expression, columns_of
from tidegate.optimizer.names import select_columns
from tidegate.schema import Schema


def prune_columns(plan: Plan) -> Plan:
    """Drop columns that no operator reads; the schema of the plan itself stays."""
    return select_columns(_prune(plan, frozenset(plan.schema.names)), plan.schema.names)


def _prune(plan: Plan, needed: frozenset[str]) -> Plan:
    """Return a plan with at least the needed columns, in the original order."""
    match plan:
        case Scan():
            return replace(plan, schema=_subset(plan.schema, needed))
        case Filter(source=source, predicate=predicate):
            return replace(plan, source=_prune(source, needed | columns_of(predicate)))
        case Window(source=source) | Granularity(source=source) | Split(source=source):
            return replace(plan, source=_prune(source, needed))
        case Stamp(source=source, column=column) if column not in needed:
            return _prune(source, needed)
        case Stamp(source=source, column=column):
            return replace(plan, source=_prune(source, needed - {column}))
        case Limit(source=source, order=order, offset=0, keys=keys, ties=True):
            # Without ties, all columns determine which of several equal rows come first.
            return replace(plan, source=_prune(source, needed.union(keys, (o.column for o in order))))
        case Sample(source=source):
            # All columns determine which elements are kept.
            return replace(plan, source=prune_columns(source))
        case CountWindow(source=source) | Limit(source=source) | Coalesce(source=source) | Changes(source=source):
            return replace(plan, source=prune_columns(source))
        case SetOperation(left=left, right=right):
            return replace(plan, left=prune_columns(left), right=prune_columns(right))
        case SemiJoin(left=left, right=right, predicate=predicate):
            wanted = needed | columns_of(predicate)
            return replace(plan, left=_narrow(left, wanted), right=_narrow(right, columns_of(predicate)))
        case Map(source=source, outputs=outputs):
            # A column that can fail determines whether its row exists, even if nothing reads it.
            kept = tuple(o for o in outputs if o.name in needed or can_fail(o.expression))
            return replace(plan, source=_prune(source, _columns_read(o.expression for o in kept)), outputs=kept)
        case Union(inputs=inputs):
            kept_at = [i for i, name in enumerate(plan.schema.names) if name in needed]
            return replace(plan, inputs=tuple(_narrow_to_positions(each, kept_at) for each in inputs))
        case Join(left=left, right=right, predicate=predicate):
            wanted = needed | columns_of(predicate)
            return replace(plan, left=_narrow(left, wanted), right=_narrow(right, wanted))
        case SimilarityJoin(left=left, right=right):
            wanted = needed | _columns_of_similarity(plan)
            return replace(plan, left=_narrow(left, wanted), right=_narrow(right, wanted))
        case Aggregate(source=source, keys=keys, calls=calls):
            # A call that can fail determines whether its group exists, even if nothing reads it.
            kept_calls = tuple(c for c in calls if c.name in needed or call_can_fail(c)) if keys else calls
            read = frozenset(keys).union(*(c.columns for c in kept_calls))
            return replace(plan, source=_narrow(source, read), calls=kept_calls)
        case Distinct(source=source):
            return replace(plan, source=prune_columns(source))
        case KeyedJoin(inputs=inputs, edges=edges, marks=marks):
            wanted = needed.union(*(edge.parent_keys + edge.child_keys for edge in edges), filter(None, marks))
            return replace(plan, inputs=tuple(_narrow(each, wanted) for each in inputs))
        case ThresholdJoin(inputs=inputs, alerts=alerts) if len(alerts) > 1:
            # Other queries read the same join, so it must stay the same.
            return replace(plan, inputs=tuple(prune_columns(each) for each in inputs))
        case ThresholdJoin(inputs=inputs, keys=keys, alerts=alerts):
            wanted = needed.union(*keys, *(columns_of(e) for a in alerts for e in (a.value, a.condition)))
            wanted |= {demand.value for a in alerts for demand in a.demands if isinstance(demand, Demand)}
            return replace(plan, inputs=tuple(_narrow(each, wanted) for each in inputs))
        case TotalThreshold(source=source) | GroupedTotals(source=source):
            # All columns determine which of the elements of an instant completes a total.
            return replace(plan, source=prune_columns(source))
        case RangeThreshold(elements=elements, subscriptions=subscriptions):
            return replace(plan, elements=prune_columns(elements), subscriptions=prune_columns(subscriptions))


def _columns_of_similarity(join: SimilarityJoin) -> frozenset[str]:
    compared = frozenset(() if join.similarity is None else (join.similarity.left, join.similarity.right))
    utility = join.shedding.utility
    return compared | _columns_read((join.predicate, *(() if utility is None else utility.types)))


def _narrow(plan: Plan, needed: frozenset[str]) -> Plan:
    names = tuple(n for n in plan.schema.names if n in needed)
    return select_columns(_prune(plan, frozenset(names)), names)


def _narrow_to_positions(plan: Plan, positions: list[int]) -> Plan:
    return _narrow(plan, frozenset(plan.schema.names[i] for i in positions))


def _subset(schema: Schema, needed: frozenset[str]) -> Schema:
    return Schema(tuple(f for f in schema if f.name in needed))


def _columns_read(expressions: Iterable[Expression]) -> frozenset[str]:
    return frozenset(name for e in expressions for name in columns_of(e))

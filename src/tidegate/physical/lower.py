"""Lower the logical plan to the physical one: choose the operator and the kernel of each node.

Features are imported when a plan needs them, so that a query does not wait for the code of the others.
"""

from __future__ import annotations

from typing import assert_never

from tidegate.algebra.adaptable import granule_chain
from tidegate.algebra.alert_operators import GroupedTotals, RangeThreshold, ThresholdJoin, TotalThreshold
from tidegate.algebra.count_windows import count_window_below
from tidegate.algebra.equalities import equalities, is_by_key
from tidegate.algebra.extreme_demands import extreme_demand
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import (
    WHOLE,
    Aggregate,
    AggregateCall,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Output,
    Plan,
    Sample,
    Scan,
    SemiJoin,
    SetOperation,
    Split,
    Stamp,
    Union,
    Window,
    walk,
)
from tidegate.algebra.properties import granule, have_common_validities, is_chronon, is_source
from tidegate.algebra.similarity_join import SimilarityJoin
from tidegate.algebra.subscription_tables import reads_table
from tidegate.algebra.tables import is_made_of_tables
from tidegate.algebra.threshold_alert import Demand, KeepAll, demands_on
from tidegate.algebra.unbounded_inputs import unbounded_inputs
from tidegate.expressions.nodes import TRUE, Column, Expression, columns_of, conjunction
from tidegate.optimizer.quality import size_key
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.plan import Apply, PhysicalPlan, Read
from tidegate.physical.stateless.operators import FilterOperator, MapOperator, UnionOperator, WindowOperator
from tidegate.physical.stateless.validities import GranularityOperator, SplitOperator, StampOperator
from tidegate.physical.watermark_cuts import is_cut
from tidegate.schema import Schema


def lower(plan: Plan, *, emit: Emit = Emit.ENDED) -> PhysicalPlan:
    """Return the physical plan of a logical plan.

    `emit` says when values leave aggregates that have no stateful operator above them. A stateful operator waits for
    watermarks, so values below it must be settled at each watermark. The same holds below operators that cut values
    into instants, because each instant is complete by itself.
    """
    match plan:
        case Scan(stream=stream, schema=schema):
            return Read(stream, schema, TRUE)
        case Filter(source=Scan(stream=stream, schema=schema), predicate=predicate):
            return Apply(FilterOperator(schema, predicate), (Read(stream, schema, predicate),))
        case Filter(source=source, predicate=predicate):
            return Apply(FilterOperator(plan.schema, predicate), (lower(source, emit=emit),))
        case Map(source=source, outputs=outputs):
            return Apply(MapOperator(outputs), (lower(source, emit=emit),))
        case Window(source=source, size=size, slide=slide, whole=whole):
            below = lower(source, emit=Emit.SETTLED) if whole else _lower_to_instants(source)
            return Apply(WindowOperator(plan.schema, size, slide, granule(source), size_key(plan)), (below,))
        case CountWindow(source=source, rows=None, slide=1):
            return Apply(WindowOperator(plan.schema, None, 1, granule(source)), (_lower_to_instants(source),))
        case CountWindow():
            return _lower_count_window(plan, emit)
        case Granularity(source=source, size=size):
            operator = GranularityOperator(plan.schema, size, size_key(plan), granule_chain(plan)[-1])
            return Apply(operator, (lower(source, emit=emit),))
        case Split(source=source, length=length):
            return Apply(SplitOperator(plan.schema, length), (lower(source, emit=Emit.SETTLED),))
        case Stamp(source=source, column=column):
            below = lower(source, emit=emit) if is_source(source) else _lower_to_instants(source)
            return Apply(StampOperator(source.schema, column), (below,))
        case Sample(source=source):
            return _lower_sample(plan, emit)
        case Coalesce(source=source, length=length):
            # A bound is counted from the first cut; without one, it does not matter when values arrive.
            return _coalesce(lower(source, emit=emit if length == WHOLE else Emit.SETTLED), length)
        case Union(inputs=inputs):
            return Apply(UnionOperator(plan.schema), tuple(lower(each, emit=emit) for each in inputs))
        case Aggregate(source=source, keys=keys, calls=calls):
            return _lower_aggregate(source, keys, calls, emit, extreme_demand(plan) if plan.omits else None)
        case Distinct(source=source):
            return _lower_aggregate(source, source.schema.names, (), emit)
        case Join():
            return _coalesce_if_cut(_lower_join(plan), plan, emit)
        case KeyedJoin():
            return _coalesce_if_cut(_lower_keyed_join(plan), plan, emit)
        case SimilarityJoin():
            return _coalesce_if_cut(_lower_similarity_join(plan), plan, emit)
        case SemiJoin():
            return _lower_semi_join(plan, emit)
        case SetOperation():
            return _lower_set_operation(plan, emit)
        case Changes():
            return _lower_changes(plan)
        case Limit():
            return _lower_limit(plan, emit)
        case ThresholdJoin():
            return _lower_threshold_join(plan)
        case TotalThreshold():
            return _lower_total_threshold(plan)
        case GroupedTotals():
            return _lower_grouped_totals(plan)
        case RangeThreshold():
            return _lower_subscriptions(plan)
        case _:
            assert_never(plan)


def _lower_threshold_join(plan: ThresholdJoin) -> PhysicalPlan:
    """Lower an alert over streams; omit elements before they travel, as far as one batch allows."""
    from tidegate.physical.threshold_alert.omission import OmitOperator
    from tidegate.physical.threshold_alert.one_stream import OneStreamAlertOperator
    from tidegate.physical.threshold_alert.operator import ThresholdAlertOperator

    sides = []
    for which, (source, keys) in enumerate(zip(plan.inputs, plan.keys, strict=True)):
        below = lower(source, emit=Emit.SETTLED)
        demands = demands_on(which, plan.alerts)
        sides.append(Apply(OmitOperator(source.schema, keys, demands), (below,)) if demands else below)
    schemas = tuple(source.schema for source in plan.inputs)
    if len(plan.inputs) == 1:
        return Apply(OneStreamAlertOperator(schemas[0], plan.keys[0], plan.alerts[0]), tuple(sides))
    return Apply(ThresholdAlertOperator(schemas, plan.keys, plan.alerts), tuple(sides))


def _lower_total_threshold(plan: TotalThreshold) -> PhysicalPlan:
    from tidegate.physical.subscriptions.checks import WeighOperator
    from tidegate.physical.subscriptions.total_operator import TotalThresholdOperator

    schema, waiting = plan.source.schema, plan.waiting
    weighed = Apply(WeighOperator(schema, waiting, plan.keys), (lower(plan.source, emit=Emit.SETTLED),))
    return Apply(TotalThresholdOperator(schema, plan.keys, waiting, plan.threshold), (weighed,))


def _lower_grouped_totals(plan: GroupedTotals) -> PhysicalPlan:
    from tidegate.physical.subscriptions.checks import WeighForGroupOperator
    from tidegate.physical.subscriptions.grouped_operator import GroupedTotalsOperator

    parameters = plan.source.schema, plan.keys, plan.waiting, plan.values, plan.group
    weighed = Apply(WeighForGroupOperator(*parameters), (lower(plan.source, emit=Emit.SETTLED),))
    return Apply(GroupedTotalsOperator(*parameters), (weighed,))


def _lower_subscriptions(plan: RangeThreshold) -> PhysicalPlan:
    """Lower alerts with subscriptions; check rows before they travel.

    An element may go to many buckets, but a bad one must become one dead letter.
    """
    from tidegate.physical.subscriptions.checks import AdmitOperator, WeighOperator
    from tidegate.physical.subscriptions.operator import SubscriptionsOperator

    elements, rows = plan.elements.schema, plan.subscriptions.schema
    needed = (*plan.keys[0], *(each.value for each in plan.subscribed.dimensions))
    weigh = WeighOperator(elements, plan.waiting, needed)
    admit = AdmitOperator(rows, plan.waiting.name, plan.keys[1], plan.subscribed)
    weighed = Apply(weigh, (lower(plan.elements, emit=Emit.SETTLED),))
    admitted = Apply(admit, (lower(plan.subscriptions, emit=Emit.SETTLED),))
    parameters = elements, rows, plan.keys, plan.waiting, plan.subscribed, reads_table(plan.subscriptions)
    return Apply(SubscriptionsOperator(*parameters), (weighed, admitted))


def _lower_sample(plan: Sample, emit: Emit) -> PhysicalPlan:
    from tidegate.physical.shedding.sample import SampleOperator

    stream = ", ".join(each.stream for each in walk(plan.source) if isinstance(each, Scan))
    operator = SampleOperator(plan.source.schema, stream, plan.weight, plan.rate, size_key(plan))
    return Apply(operator, (lower(plan.source, emit=emit),))


def _coalesce_if_cut(joined: PhysicalPlan, plan: Plan, emit: Emit) -> PhysicalPlan:
    """Coalesce the results of a join that its inputs have cut, if each result is reported once."""
    if emit is not Emit.ENDED or not is_cut(plan):
        return joined
    return _coalesce(joined, WHOLE)


def _coalesce(below: PhysicalPlan, length: int) -> PhysicalPlan:
    """Coalesce elements up to a length."""
    from tidegate.physical.relation.coalesce import CoalesceOperator

    return Apply(CoalesceOperator(below.schema, length), (below,))


def _lower_aggregate(
    source: Plan,
    keys: tuple[str, ...],
    calls: tuple[AggregateCall, ...],
    emit: Emit,
    demand: Demand | KeepAll | None = None,
) -> PhysicalPlan:
    from tidegate.physical.aggregate.operator import AggregateOperator

    below = lower(source, emit=Emit.SETTLED)
    if isinstance(demand, Demand):
        from tidegate.physical.threshold_alert.omission import OmitOperator

        below = Apply(OmitOperator(source.schema, keys, (demand,)), (below,))
    return Apply(AggregateOperator(source.schema, keys, calls, emit), (below,))


def _lower_count_window(plan: CountWindow, emit: Emit) -> PhysicalPlan:
    from tidegate.physical.relation.count_window import CountWindowOperator

    operator = CountWindowOperator(plan.schema, plan.rows, plan.slide, plan.keys, emit, size_key(plan))
    return Apply(operator, (_lower_to_instants(plan.source),))


def _lower_changes(plan: Changes) -> PhysicalPlan:
    from tidegate.physical.relation.changes import ChangesOperator
    from tidegate.physical.relation.table_changes import TableChangesOperator

    kind = TableChangesOperator if is_made_of_tables(plan.source) else ChangesOperator
    return Apply(kind(plan.schema, plan.change), (lower(plan.source, emit=Emit.SETTLED),))


def _lower_to_instants(source: Plan) -> PhysicalPlan:
    """Return the source with every instant as an element of its own, which is what windows extend and count.

    Where time is coarser, these are whole granules: operators cut at watermarks, which lie between granules.
    """
    below = lower(source, emit=Emit.SETTLED)
    return below if is_chronon(source) else Apply(SplitOperator(source.schema, granule(source)), (below,))


def _lower_limit(plan: Limit, emit: Emit) -> PhysicalPlan:
    from tidegate.physical.relation.limit import LimitOperator
    from tidegate.physical.relation.prune import PruneOperator

    below = lower(plan.source, emit=Emit.SETTLED)
    if plan.order and have_common_validities(plan.source):
        pruned = PruneOperator(plan.schema, plan.order[0], plan.offset + plan.count, plan.keys)
        below = Apply(pruned, (below,))
    first = LimitOperator(plan.schema, plan.order, plan.count, plan.offset, plan.keys, emit, plan.ties)
    return Apply(first, (below,))


def _lower_set_operation(plan: SetOperation, emit: Emit) -> PhysicalPlan:
    """Count how often each row occurs left and right, and repeat it as the rule says."""
    from tidegate.physical.relation.sets import RepeatOperator, counting_operator, tag_aggregates, tag_operator

    schema = plan.schema
    tagged = tuple(
        Apply(tag_operator(side.schema, schema, left=left), (lower(side, emit=Emit.SETTLED),))
        for side, left in ((plan.left, True), (plan.right, False))
    )
    counted = Apply(
        counting_operator(schema, tag_aggregates(plan.rule), emit), (Apply(UnionOperator(tagged[0].schema), tagged),)
    )
    return Apply(RepeatOperator(schema, plan.rule), (counted,))


def _lower_semi_join(plan: SemiJoin, emit: Emit) -> PhysicalPlan:
    """Lower a semi-join; with equalities alone, use a join with the distinct keys of the right.

    Each key of the right then occurs once at every instant, so the join makes no copies of left rows.
    """
    from tidegate.physical.join.operator import JoinOperator
    from tidegate.physical.relation.semi_join import SemiJoinOperator

    pairs, rest = equalities(plan)
    left, left_keys = _with_key_columns(plan.left, [a for a, _ in pairs], "left")
    right, right_keys = _with_key_columns(plan.right, [b for _, b in pairs], "right")
    read = frozenset(right_keys).union(*(columns_of(term) for term in rest))
    right = Map(right, tuple(o for o in _all_columns(right.schema) if o.name in read))
    if not rest:
        right = Distinct(right)
    sides = lower(left, emit=Emit.SETTLED), lower(right, emit=Emit.SETTLED)
    found: PhysicalPlan
    if rest or plan.anti:
        keys = left.schema, right.schema, left_keys, right_keys
        found = Apply(SemiJoinOperator(*keys, conjunction(rest), plan.anti, emit), sides)
    else:
        joined = Apply(JoinOperator(left.schema, right.schema, left_keys, right_keys, TRUE), sides)
        found = _coalesce_if_cut(joined, Join(left, right, TRUE), emit)
    return found if found.schema == plan.schema else Apply(MapOperator(_all_columns(plan.schema)), (found,))


def _lower_join(join: Join) -> PhysicalPlan:
    """Lower a join; equalities between the sides become keys, computed below the join where they are not columns."""
    from tidegate.physical.join.operator import JoinOperator

    pairs, rest = equalities(join)
    left, left_keys = _with_key_columns(join.left, [a for a, _ in pairs], "left")
    right, right_keys = _with_key_columns(join.right, [b for _, b in pairs], "right")
    operator = JoinOperator(left.schema, right.schema, left_keys, right_keys, conjunction(rest))
    joined = Apply(operator, (lower(left, emit=Emit.SETTLED), lower(right, emit=Emit.SETTLED)))
    if joined.schema == join.schema:
        return joined
    return Apply(MapOperator(_all_columns(join.schema)), (joined,))


def _lower_keyed_join(plan: KeyedJoin) -> PhysicalPlan:
    """Lower a keyed join, which counts the rows of count windows itself and so keeps only those that it needs."""
    from tidegate.physical.keyed_join.count_windows import counted_input
    from tidegate.physical.keyed_join.operator import KeyedJoinOperator

    schemas = tuple(each.schema for each in plan.inputs)
    windows = tuple(count_window_below(each) for each in plan.inputs)
    sources = (each if own is None else own.source for each, own in zip(plan.inputs, windows, strict=True))
    below = tuple(lower(each, emit=Emit.SETTLED) for each in sources)
    known = plan.edges, plan.streams, plan.constraints, plan.watched, plan.settings
    numbered = tuple(map(counted_input, plan.inputs)) if any(windows) else ()
    return Apply(KeyedJoinOperator(schemas, *known, numbered, unbounded_inputs(plan), plan.marks), below)


def _lower_similarity_join(plan: SimilarityJoin) -> PhysicalPlan:
    from tidegate.physical.similarity_join.operator import SimilarityJoinOperator

    if is_by_key(plan):
        return _lower_join_by_key(plan)
    schemas = plan.left.schema, plan.right.schema
    operator = SimilarityJoinOperator(*schemas, plan.similarity, plan.predicate, plan.shedding, plan.width)
    return Apply(operator, (lower(plan.left, emit=Emit.SETTLED), lower(plan.right, emit=Emit.SETTLED)))


def _lower_join_by_key(plan: SimilarityJoin) -> PhysicalPlan:
    """Lower a join that compares rows with equal keys and may shed; keys that are not columns are computed below."""
    from tidegate.physical.similarity_join.operator import SimilarityJoinOperator

    pairs, rest = equalities(plan)
    left, left_keys = _with_key_columns(plan.left, [a for a, _ in pairs], "left")
    right, right_keys = _with_key_columns(plan.right, [b for _, b in pairs], "right")
    settings = conjunction(rest), plan.shedding, plan.width, (left_keys, right_keys)
    operator = SimilarityJoinOperator(left.schema, right.schema, None, *settings)
    joined = Apply(operator, (lower(left, emit=Emit.SETTLED), lower(right, emit=Emit.SETTLED)))
    return joined if joined.schema == plan.schema else Apply(MapOperator(_all_columns(plan.schema)), (joined,))


def _with_key_columns(side: Plan, keys: list[Expression], label: str) -> tuple[Plan, tuple[str, ...]]:
    computed = [
        Output(f"key:{label}:{position}", key) for position, key in enumerate(keys) if not isinstance(key, Column)
    ]
    names = tuple(
        key.name if isinstance(key, Column) else f"key:{label}:{position}" for position, key in enumerate(keys)
    )
    return (Map(side, (*_all_columns(side.schema), *computed)) if computed else side), names


def _all_columns(schema: Schema) -> tuple[Output, ...]:
    return tuple(Output(f.name, Column(f.name, f.type)) for f in schema)

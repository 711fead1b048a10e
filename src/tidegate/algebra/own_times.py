"""Rewrite FIRST and LAST to order by a column of own times, computed below the operators that move elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count

from tidegate.algebra.alert_operators import GroupedTotals, RangeThreshold, TotalThreshold
from tidegate.algebra.plan import (
    Aggregate,
    AggregateCall,
    Changes,
    CountWindow,
    Filter,
    Granularity,
    Join,
    Map,
    Output,
    Plan,
    Sample,
    Scan,
    SemiJoin,
    Split,
    Stamp,
    Union,
    Window,
    rewrite,
    walk,
)
from tidegate.algebra.properties import granule, sees_own_times
from tidegate.algebra.properties.calls import sees_own_times as goes_by_time
from tidegate.errors import InternalError
from tidegate.expressions.nodes import Call, Column, Expression
from tidegate.schema import Schema, Type


def stamp_own_times(plan: Plan) -> Plan:
    """Give every FIRST and LAST a column of own times to order by; return the same plan if it has none of them.

    Above the stamps the plan is plain algebra: no operator but the stamps reads where validities begin.
    """
    taken = frozenset(name for node in walk(plan) for name in node.schema.names)
    names = (name for name in chain(["began"], (f"began_{n}" for n in count(2))) if name not in taken)
    return rewrite(plan, lambda node: _order_by_stamp(node, names) if sees_own_times(node) else node)


def _order_by_stamp(plan: Plan, names: Iterator[str]) -> Plan:
    assert isinstance(plan, Aggregate)
    source, time = _add_stamp(plan.source, names)
    return replace(plan, source=source, calls=tuple(_by_column(call, time) for call in plan.calls))


def _by_column(call: AggregateCall, time: str) -> AggregateCall:
    return replace(call, others=(time,), distinct=False) if goes_by_time(call) else call


def _add_stamp(plan: Plan, names: Iterator[str]) -> tuple[Plan, str]:
    """Return the plan with the own times of its elements as an additional last column, and that column's name."""
    match plan:
        case Scan() | Sample() | Changes() | TotalThreshold() | GroupedTotals() | RangeThreshold() | Split(length=1):
            time = next(names)
            return Stamp(plan, time, plan.span), time
        case Window(source=source, span=span) | CountWindow(source=source, span=span):
            # Every instant of the source is an element of its own.
            time = next(names)
            return replace(plan, source=Stamp(Split(source, granule(source), span), time, span)), time
        case Filter(source=source) | Granularity(source=source):
            below, time = _add_stamp(source, names)
            return replace(plan, source=below), time
        case SemiJoin(left=left):
            below, time = _add_stamp(left, names)
            return replace(plan, left=below), time
        case Map(source=source, outputs=outputs):
            below, time = _add_stamp(source, names)
            return replace(plan, source=below, outputs=(*outputs, Output(time, Column(time, Type.BIGINT)))), time
        case Union(inputs=many):
            stamped = [_add_stamp(each, names) for each in many]
            return replace(plan, inputs=tuple(each for each, _ in stamped)), stamped[0][1]
        case Join(left=left, right=right):
            return _stamp_pairs(plan, _add_stamp(left, names), _add_stamp(right, names), next(names))
    raise InternalError("I204", f"rows of {type(plan).__name__} have no time of their own")


def _stamp_pairs(join: Join, left: tuple[Plan, str], right: tuple[Plan, str], time: str) -> tuple[Plan, str]:
    """Add the own time of pairs: a pair begins with the later of its two elements."""
    later: Expression = Call("greatest", tuple(Column(t, Type.BIGINT) for _, t in (left, right)), Type.BIGINT)
    pairs = replace(join, left=left[0], right=right[0])
    return Map(pairs, (*_all_columns(join.schema), Output(time, later)), join.span), time


def _all_columns(schema: Schema) -> Iterator[Output]:
    return (Output(f.name, Column(f.name, f.type)) for f in schema)

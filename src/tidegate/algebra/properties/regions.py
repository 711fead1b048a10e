"""Snapshot-reducible operators: the operators of SQL, applied at every instant (PIPES, section 10)."""

from __future__ import annotations

from tidegate.algebra.alert_operators import GroupedTotals, RangeThreshold, ThresholdJoin, TotalThreshold
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import (
    Aggregate,
    Changes,
    CountWindow,
    Filter,
    Granularity,
    Join,
    Map,
    Plan,
    Sample,
    Scan,
    SemiJoin,
    Split,
    Stamp,
    Union,
    Window,
    inputs,
)
from tidegate.algebra.properties import calls
from tidegate.algebra.similarity_join import SimilarityJoin
from tidegate.time import CHRONON
from tidegate.values import value

_Alarms = ThresholdJoin | TotalThreshold | GroupedTotals | RangeThreshold


@value
class Region:
    """A maximal part of a plan with snapshot-reducible operators only: its top, and all operators, parents first."""

    top: Plan
    operators: tuple[Plan, ...]


def is_reducible(plan: Plan) -> bool:
    """Return whether the operator's output at an instant depends only on its inputs at that instant.

    Split and coalesce change no instant, so they do not end a region (lemma 12.1).
    """
    in_time = isinstance(plan, Scan | Window | CountWindow | Granularity | Stamp | Sample | Changes | _Alarms)
    return not (in_time or sees_own_times(plan))


def sees_own_times(plan: Plan) -> bool:
    """Return whether the operator itself reads the own times of its elements, as FIRST and LAST do."""
    return isinstance(plan, Aggregate) and any(calls.sees_own_times(c) for c in plan.calls)


def has_own_times(plan: Plan) -> bool:
    """Return whether elements have an own time: their start, before windows and granularities moved them.

    The own time of a row of a window is the instant at which the stream below had the row; that of a pair is the
    later own time of its two elements. Rows that were grouped, limited or compared as sets come from many elements
    and have none.
    """
    match plan:
        case Scan() | Window() | CountWindow() | Stamp() | Changes():
            return True
        case TotalThreshold() | GroupedTotals() | RangeThreshold():
            return True
        case Split(length=length):
            return length == CHRONON
        case SemiJoin(left=left):
            return has_own_times(left)
        case Filter() | Map() | Sample() | Granularity() | Union() | Join() | KeyedJoin() | SimilarityJoin():
            return all(has_own_times(each) for each in inputs(plan))
    return False


def regions(plan: Plan) -> tuple[Region, ...]:
    """Return the maximal snapshot-reducible parts of a plan, from the root; conventional rules hold inside each."""
    if not is_reducible(plan):
        return tuple(r for each in inputs(plan) for r in regions(each))
    operators, below = _grow_region(plan)
    return (Region(plan, operators), *(r for each in below for r in regions(each)))


def _grow_region(plan: Plan) -> tuple[tuple[Plan, ...], tuple[Plan, ...]]:
    """Return the operators of the region below this top, and the plans at which the region ends."""
    operators: tuple[Plan, ...] = (plan,)
    below: tuple[Plan, ...] = ()
    for each in inputs(plan):
        if is_reducible(each):
            more, ends = _grow_region(each)
            operators, below = operators + more, below + ends
        else:
            below += (each,)
    return operators, below

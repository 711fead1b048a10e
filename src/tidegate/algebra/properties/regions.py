"""Snapshot-reducible operators: those that are SQL's, applied at every instant (PIPES, section 10)."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.algebra.alarms import RangeThreshold, ThresholdJoin, TotalThreshold
from tidegate.algebra.many_one import ManyOneJoin
from tidegate.algebra.plan import (
    Aggregate,
    Changes,
    CountWindow,
    Filter,
    Granularity,
    Join,
    Map,
    Plan,
    Scan,
    Split,
    Union,
    Window,
    inputs,
)
from tidegate.algebra.properties import calls
from tidegate.algebra.shedding import SimilarityJoin

_Alarms = ThresholdJoin | TotalThreshold | RangeThreshold


@dataclass(frozen=True, slots=True)
class Region:
    """A largest part of a plan made of snapshot-reducible operators only: its top, and all of it, parents first."""

    top: Plan
    operators: tuple[Plan, ...]


def is_reducible(plan: Plan) -> bool:
    """Whether the operator's output at an instant depends only on its inputs at that instant.

    Split and coalesce do not change any instant: they do not end a region (lemma 12.1).
    """
    return not (isinstance(plan, Scan | Window | CountWindow | Granularity | Changes | _Alarms) or sees_starts(plan))


def sees_starts(plan: Plan) -> bool:
    """Whether the operator itself looks at where the validities of its input start."""
    return isinstance(plan, Aggregate) and any(calls.sees_starts(c) for c in plan.calls)


def has_starts(plan: Plan) -> bool:
    """Whether it is defined where validities start: no operator below is free to cut them, or to join them again."""
    match plan:
        case Scan() | Window() | Changes() | TotalThreshold() | RangeThreshold() | Split(length=1):
            return True
        case Filter() | Map() | Granularity() | Union() | Join() | ManyOneJoin() | SimilarityJoin():
            return all(has_starts(each) for each in inputs(plan))
    return False


def regions(plan: Plan) -> tuple[Region, ...]:
    """The largest snapshot-reducible parts of a plan, from the root; conventional rules hold inside each."""
    if not is_reducible(plan):
        return tuple(r for each in inputs(plan) for r in regions(each))
    operators, below = _grown(plan)
    return (Region(plan, operators), *(r for each in below for r in regions(each)))


def _grown(plan: Plan) -> tuple[tuple[Plan, ...], tuple[Plan, ...]]:
    """The operators of the region whose top is the plan, and the plans that it ends at."""
    operators: tuple[Plan, ...] = (plan,)
    below: tuple[Plan, ...] = ()
    for each in inputs(plan):
        if is_reducible(each):
            more, ends = _grown(each)
            operators, below = operators + more, below + ends
        else:
            below += (each,)
    return operators, below

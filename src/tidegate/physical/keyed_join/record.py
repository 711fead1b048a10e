"""Control record of a keyed join: the directive, what was found, and what the next decision needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.physical.common.control import ControlRecord
from tidegate.physical.keyed_join.directive import KeyedJoinDirective
from tidegate.physical.keyed_join.distances import DistanceTracker
from tidegate.physical.keyed_join.estimates import Pace
from tidegate.physical.keyed_join.loss_bounds import JoinTotals
from tidegate.physical.keyed_join.never_joining import NeverJoining
from tidegate.physical.keyed_join.report import LossSample
from tidegate.physical.keyed_join.verdicts import ConstraintVerdict


@dataclass(frozen=True, slots=True)
class PartnerCounts:
    """Parents that arrived at an edge, and those seen to join or to repeat a key; older steps fade."""

    parents: float = 0.0
    seen: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedJoinRecord(ControlRecord):
    """Record of a keyed join. Watches and constraints are by name (`monitor.constraint_name`)."""

    directive: KeyedJoinDirective
    found: tuple[ConstraintVerdict, ...]
    step: int
    pace: Pace
    trackers: Mapping[str, DistanceTracker]
    """Distances observed by each watch."""
    partners: Mapping[str, PartnerCounts]
    """Counts of each watch."""
    never: NeverJoining
    lost: LossSample | None
    """Counts of the sample since the beginning."""
    broken: Mapping[str, int]
    """Rows that arrived too late, by constraint, since the beginning."""
    totals: JoinTotals

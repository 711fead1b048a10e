"""What follows from an alert, computed once: how near its elements must be, and its condition as a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tidegate.algebra.threshold_alert import Alert, time_distances
from tidegate.expressions.nodes import columns_of
from tidegate.physical.threshold_alert.kernels.combinations import Nearness
from tidegate.schema import Schema

if TYPE_CHECKING:
    from tidegate.physical.common.condition_columns import Condition


@dataclass(frozen=True, eq=False)  # no slots: the condition is compiled once and cached
class AlertPlan:
    """Values that follow from an alert."""

    alert: Alert
    names: tuple[frozenset[str], ...]
    """Columns of each member."""
    nearness: Nearness
    span: int
    """The greatest distance in time between the first and the last element of an alarm."""
    lag: int
    """How long before its last element the validity of an alarm can begin."""
    read: frozenset[str]
    """Columns that the condition and the value read."""

    @staticmethod
    def of(alert: Alert, inputs: Sequence[Schema]) -> AlertPlan:
        distances = time_distances(alert)
        span = max(max(row) for row in distances)
        return AlertPlan(
            alert,
            tuple(frozenset(inputs[member].names) for member in alert.members),
            Nearness(np.array(distances, np.int64), alert.step, alert.links[0].before),
            span,
            lag=0 if alert.lasting else span,
            read=columns_of(alert.condition) | columns_of(alert.value),
        )

    @cached_property
    def condition(self) -> Condition | None:
        # Imported when needed: it imports Numba, which `check` and `explain` do without.
        from tidegate.physical.common.conditions import compile_condition

        return compile_condition(self.alert.condition, self.names, computes_loads=True)

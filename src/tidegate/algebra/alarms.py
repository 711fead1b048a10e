"""Operators of the logical algebra whose rows are alarms; they are part of `plan.Plan` as all others are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.algebra.subscriptions import TOTAL, Subscribed, Waiting
from tidegate.algebra.threshold_alert import ALARM, INCIDENT, NUMBER, VALUE, Alert
from tidegate.errors import NOWHERE, Span
from tidegate.schema import Schema

if TYPE_CHECKING:
    from tidegate.algebra.plan import Plan


@dataclass(frozen=True, slots=True)
class ThresholdJoin:
    """Alarms of one or several alerts over the same streams; elements meet that agree in the keys of their inputs.

    A row is an alarm: the number of its alert, the columns of the elements (NULL for inputs that are
    no members of it), the value of the function, its incident, and its number in that. It is valid
    from the first to the last of its elements.
    """

    inputs: tuple[Plan, ...]
    keys: tuple[tuple[str, ...], ...]
    alerts: tuple[Alert, ...]
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        columns = tuple(f for each in self.inputs for f in each.schema)
        return Schema((NUMBER, *columns, VALUE, INCIDENT, ALARM))


@dataclass(frozen=True, slots=True)
class TotalThreshold:
    """Alarms when the total weight of the elements of a key, from the beginning on, reaches a threshold.

    A row is an alarm: the element that completed the total, and the total; it is valid when the element
    is. Elements count in the order of time; of one instant, in the order of their columns.
    """

    source: Plan
    keys: tuple[str, ...]
    waiting: Waiting
    threshold: int
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return Schema((*self.source.schema, TOTAL))


@dataclass(frozen=True, slots=True)
class RangeThreshold:
    """Alarms when the total weight of elements in the range of a subscription reaches its threshold.

    Elements count for subscriptions that they agree with in the keys, from the first instant after the
    registration to that of the termination, in the order of time; of one instant, in the order of their
    columns. A subscription is known by its id and keys. Of rows of one instant, terminations are first.
    A row is an alarm: the element that completed the total, the subscription, and the total.
    """

    elements: Plan
    subscriptions: Plan
    keys: tuple[tuple[str, ...], tuple[str, ...]]
    waiting: Waiting
    subscribed: Subscribed
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return Schema((*self.elements.schema, *self.subscriptions.schema, TOTAL))

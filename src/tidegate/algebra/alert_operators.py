"""Operators of the logical algebra whose rows are alarms; all belong to `plan.Plan`."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from tidegate.algebra.subscriptions import TOTAL, RangedAlertGroup, SubscriptionColumns, TotalCompletion
from tidegate.algebra.threshold_alert import ALARM, INCIDENT, NUMBER, VALUE, Alert
from tidegate.errors import NOWHERE, Span
from tidegate.schema import Schema
from tidegate.values import value

if TYPE_CHECKING:
    from tidegate.algebra.plan import Plan


@value
class ThresholdJoin:
    """Alarms of one or more alerts over the same streams; only elements with equal keys are combined.

    A row is an alarm: the number of its alert, the columns of the elements (NULL for inputs that are not members of
    the alert), the value of the function, its incident, and its number within the incident. It is valid from its
    first to its last element. With one input, the only alert is about single elements: nothing is joined.
    """

    inputs: tuple[Plan, ...]
    keys: tuple[tuple[str, ...], ...]
    alerts: tuple[Alert, ...]
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        columns = tuple(f for each in self.inputs for f in each.schema)
        return Schema((NUMBER, *columns, VALUE, INCIDENT, ALARM))


@value
class TotalThreshold:
    """Alarms raised when the total weight of the elements of a key reaches a threshold.

    A row is an alarm: the element that completed the total, and the total. It has the validity of the element.
    Elements count in time order; elements of one instant count in the order of their columns.
    """

    source: Plan
    keys: tuple[str, ...]
    waiting: TotalCompletion
    threshold: int
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return Schema((*self.source.schema, TOTAL))


@value
class GroupedTotals:
    """Alarms of several alerts on totals: each counts the elements in its own ranges, up to its own threshold.

    `values` are the columns that have ranges. A row is an alarm: the number of its alert, the element that completed
    the total, and the total. Otherwise, each alert is a `TotalThreshold` of the elements in its ranges.
    """

    source: Plan
    keys: tuple[str, ...]
    waiting: TotalCompletion
    values: tuple[str, ...]
    group: RangedAlertGroup
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return Schema((NUMBER, *self.source.schema, TOTAL))


@value
class RangeThreshold:
    """Alarms raised when the total weight of elements in the range of a subscription reaches its threshold.

    Elements count for subscriptions with equal keys, from the first instant after the registration up to the instant
    of the termination. They count in time order; elements of one instant count in the order of their columns. The id
    and the keys identify a subscription. Among rows of one instant, terminations come first. A row is an alarm: the
    element that completed the total, the subscription, and the total.
    """

    elements: Plan
    subscriptions: Plan
    keys: tuple[tuple[str, ...], tuple[str, ...]]
    waiting: TotalCompletion
    subscribed: SubscriptionColumns
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return Schema((*self.elements.schema, *self.subscriptions.schema, TOTAL))

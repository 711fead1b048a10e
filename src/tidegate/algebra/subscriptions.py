"""What an alert on total weights is made of: what is counted, for whom, and how much of it is waited for."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.schema import Field, Type

TOTAL = Field("alert:total", Type.BIGINT)
"""The weight that an alarm has counted, the element that completed it included."""


MOST = 2**60
"""The greatest weight, and the greatest threshold: totals must be 64-bit integers."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A value of elements, and the range that a subscription has for it.

    `value` is a column of the elements, `low` and `high` are columns of the subscriptions, of the same
    type. An end that is not given, or that is NULL, is infinite; an open end does not belong to the range.
    """

    value: str
    low: str | None
    high: str | None
    low_open: bool = False
    high_open: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """When a total is complete: what elements weigh, which of them count, and what comes after.

    `weight` is a column of the elements, BIGINT. Only elements of the last `within` microseconds count,
    t - within < time ≤ t; None: all since the registration. One that `repeats` starts anew behind the
    element that completed it; others are complete once.
    """

    name: str
    weight: str
    within: int | None = None
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Subscribed:
    """How rows of subscriptions are read.

    A row whose `ended` column is true terminates the subscription with its id and keys; any other one
    registers a subscription. `threshold` is BIGINT; `ended` is BOOLEAN, None: nothing is ever terminated.
    """

    id: str
    threshold: str
    dimensions: tuple[Dimension, ...]
    ended: str | None = None

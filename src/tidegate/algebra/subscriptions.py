"""Parts of an alert on total weights: the counted elements, the subscriptions, and the total that they wait for."""

from __future__ import annotations

from tidegate.schema import Field, Type
from tidegate.values import value

TOTAL = Field("alert:total", Type.BIGINT)
"""The weight that an alarm has counted, including the element that completed it."""


MOST = 2**60
"""The greatest weight and the greatest threshold: totals must be 64-bit integers."""


@value
class Dimension:
    """A value of elements, and the range of a subscription for it.

    `value` is a column of the elements, `low` and `high` are columns of the subscriptions, of the same type. An end
    that is missing or NULL is infinite; an open end does not belong to the range.
    """

    value: str
    low: str | None
    high: str | None
    low_open: bool = False
    high_open: bool = False


@value
class TotalCompletion:
    """The condition that completes a total: the weights, the elements that count, and what happens next.

    `weight` is a BIGINT column of the elements. Only elements of the last `within` microseconds count, t - within <
    time ≤ t; None: all since the registration. If it `repeats`, the count restarts after the element that completed
    it; otherwise it completes once.
    """

    name: str
    weight: str
    within: int | None = None
    repeats: bool = False


@value
class SubscriptionColumns:
    """The roles of the columns in rows of subscriptions.

    A row whose `ended` column is true terminates the subscription with its id and keys; any other row registers a
    subscription. `threshold` is BIGINT; `ended` is BOOLEAN, or None if nothing is ever terminated.
    """

    id: str
    threshold: str
    dimensions: tuple[Dimension, ...]
    ended: str | None = None

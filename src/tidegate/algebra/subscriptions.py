"""Parts of an alert on total weights: the counted elements, the subscriptions, and the total that they wait for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from hashlib import sha256

from tidegate.expressions.nodes import Literal
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


@value
class ConstantRange:
    """The range of an alert for a value of elements; an end that is missing is infinite, an open one does not belong.

    The ends have the type of the value and are not NULL.
    """

    low: Literal | None = None
    high: Literal | None = None
    low_open: bool = False
    high_open: bool = False


@value
class RangedAlert:
    """An alert on a total of the elements in constant ranges: one for each value that its group compares."""

    name: str
    ranges: tuple[ConstantRange, ...]
    threshold: int


@value
class RangedAlertGroup:
    """Alerts that are counted together.

    The plan of every alert of a group has the whole group, so groups are compared by a digest of their alerts.
    """

    alerts: tuple[RangedAlert, ...] = field(compare=False, repr=False)
    digest: str

    @staticmethod
    def of(alerts: Iterable[RangedAlert]) -> RangedAlertGroup:
        given = tuple(alerts)
        text = "\n".join(f"{a.name!r} {a.threshold} {' '.join(map(_range_key, a.ranges))}" for a in given)
        return RangedAlertGroup(given, sha256(text.encode()).hexdigest()[:32])

    def __len__(self) -> int:
        return len(self.alerts)


def _range_key(each: ConstantRange) -> str:
    """Return a text that only equal ranges have, wherever their ends are written."""
    low, high = (None if end is None else (end.value, end.type.name) for end in (each.low, each.high))
    return repr((low, high, each.low_open, each.high_open))

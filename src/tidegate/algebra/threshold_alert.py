"""Parts of an alert over streams: links in time, the function, and the elements that omission may drop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from tidegate.algebra.similarity_join import NO_SHEDDING, Shedding
from tidegate.expressions.nodes import Expression
from tidegate.schema import Field, Type
from tidegate.time import FOREVER
from tidegate.values import value

NUMBER = Field("alert:number", Type.INT)
"""The position of the alarm's alert among the alerts of a threshold join."""

VALUE = Field("alert:value", Type.DOUBLE)
"""The value of the alert's function."""

INCIDENT = Field("alert:incident", Type.TIMESTAMP)
"""The start of the incident that the alarm belongs to."""

ALARM = Field("alert:alarm", Type.BIGINT)
"""The number of the alarm within its incident, from 1 on."""


@value
class Link:
    """Two members of an alert whose elements must be near each other in time.

    -before ≤ time(left) - time(right) ≤ after, in microseconds; an open end excludes its bound.
    """

    left: int
    right: int
    before: int
    after: int
    open_before: bool = False
    open_after: bool = False

    @property
    def low(self) -> int:
        """The smallest difference of times, in whole microseconds."""
        return -self.before + self.open_before

    @property
    def high(self) -> int:
        """The greatest difference of times, in whole microseconds."""
        return self.after - self.open_after


@value
class Demand:
    """The elements of an input that an alert does not need, by the value of one of its columns.

    An element is bracketed above if an element that is not later and one that is not earlier, at most `window` apart,
    have greater values; with `strict`, less than `window` apart. Bracketed below is defined likewise. An element can
    be omitted if it is bracketed on all required sides: `above`, `below`, or both.
    """

    value: str
    window: int
    strict: bool
    above: bool
    below: bool
    keeps_copies: bool = False
    """Whether elements of the same time and value are all needed; otherwise, one of them is."""
    value_text: str = field(default="", compare=False)
    """The value's description for EXPLAIN."""
    why: str = field(default="", compare=False)
    """The reason why the required sides suffice."""


@value
class KeepAll:
    """No element of an input can be omitted."""

    why: str = field(default="", compare=False)


@value
class Representation:
    """How far apart two elements of a stream may be to represent those between them; with `strict`, less than that."""

    window: int
    strict: bool = False

    @property
    def span(self) -> int:
        """The greatest distance, in whole microseconds."""
        return self.window - self.strict


@value
class Alert:
    """A function of elements of several inputs, or of one, that must not cross a threshold.

    `members` are positions of inputs of the join; links and demands refer to members by their position in `members`.
    Elements raise an alarm together if all links hold, one of the windows that start at multiples of `step` contains
    all of them (1: sliding, any window may; its length is that of the links), and `condition` is true. With
    `everything`, every such combination is an alarm. Otherwise some may be left out in favour of others, and
    `demands` states which elements need not be kept.

    An alarm is valid from its first to its last element. If `lasting` gives validities in microseconds, by member, it
    is valid while all its elements are valid.

    An alert with one member has no links. `representation` says which of its elements others may represent; if it is
    None, each element is compared with the threshold.
    """

    name: str
    members: tuple[int, ...]
    links: tuple[Link, ...]
    value: Expression
    condition: Expression
    step: int = 1
    everything: bool = False
    assumed: tuple[int, ...] = ()
    """Members for which the user asserts that the function is quasiconvex."""
    demands: tuple[Demand | KeepAll, ...] = ()
    """Demands by member; empty until omission has been analysed: then nothing is omitted."""
    lasting: tuple[int, ...] = ()
    shedding: Shedding = NO_SHEDDING
    representation: Representation | None = None


def demands_on(which: int, alerts: Sequence[Alert]) -> tuple[Demand, ...]:
    """Return all demands of the alerts on one input; empty if an alert needs the whole input.

    An element can be omitted if all of the demands allow it.
    """
    asked = [alert.demands[alert.members.index(which)] for alert in alerts if alert.demands and which in alert.members]
    if len(asked) < sum(which in alert.members for alert in alerts) or any(isinstance(each, KeepAll) for each in asked):
        return ()
    return tuple(dict.fromkeys(each for each in asked if isinstance(each, Demand)))


def time_distances(alert: Alert) -> list[list[int]]:
    """Return the greatest time by which the element of one member (row) can be later than that of another (column)."""
    many = len(alert.members)
    most = [[0 if i == j else FOREVER for j in range(many)] for i in range(many)]
    for link in alert.links:
        most[link.left][link.right] = min(most[link.left][link.right], link.high)
        most[link.right][link.left] = min(most[link.right][link.left], -link.low)
    for k in range(many):
        for i in range(many):
            for j in range(many):
                most[i][j] = min(most[i][j], most[i][k] + most[k][j])
    return most


def alarm_span(alert: Alert) -> int:
    """Return the greatest distance in time between the first and the last element of an alarm."""
    return max(max(row) for row in time_distances(alert))

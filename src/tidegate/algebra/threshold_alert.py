"""What an alert over joined streams is made of: who must be near whom, what is computed, what can be omitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.algebra.similarity_join import NEVER, Shedding
from tidegate.expressions.nodes import Expression
from tidegate.schema import Field, Type
from tidegate.time import FOREVER

NUMBER = Field("alert:number", Type.INT)
"""Which of the alerts of a threshold join a row is an alarm of."""

VALUE = Field("alert:value", Type.DOUBLE)
"""The value of the alert's function."""

INCIDENT = Field("alert:incident", Type.TIMESTAMP)
"""When the incident began that the alarm belongs to."""

ALARM = Field("alert:alarm", Type.BIGINT)
"""The number of the alarm within its incident, from 1 on."""


@dataclass(frozen=True, slots=True)
class Link:
    """Two members of an alert whose elements must be near each other in time.

    -before ≤ time(left) - time(right) ≤ after, in microseconds; an open end leaves its bound out.
    """

    left: int
    right: int
    before: int
    after: int
    open_before: bool = False
    open_after: bool = False

    @property
    def low(self) -> int:
        """The least difference of times, in whole microseconds."""
        return -self.before + self.open_before

    @property
    def high(self) -> int:
        """The greatest difference of times, in whole microseconds."""
        return self.after - self.open_after


@dataclass(frozen=True, slots=True)
class Demand:
    """Which elements of an input an alert can do without, by the value of one of its columns.

    An element is above bracketed if one not later and one not earlier, not more than `window` apart,
    have greater values; with `strict`, less than `window` apart. Below bracketed likewise. It can be
    omitted if it is bracketed on all the sides that are asked for: `above`, `below`, or both.
    """

    value: str
    window: int
    strict: bool
    above: bool
    below: bool
    shown: str = field(default="", compare=False)
    """What the value is, for EXPLAIN."""
    why: str = field(default="", compare=False)
    """Why the sides that are asked for are enough."""


@dataclass(frozen=True, slots=True)
class Whole:
    """No element of an input can be omitted."""

    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Alert:
    """A function of elements of several inputs that must not cross a threshold.

    `members` are numbers of inputs of the join; links and demands are between and of members, by
    their position in it. Elements alarm together if all links hold, one of the windows that start at
    multiples of `step` contains all of them (1: sliding, any does; its length is that of the links),
    and `condition` is true. With `everything`, every such combination is an alarm; else some may be
    left out in favour of others, and `demands` says which elements need not be kept.

    An alarm is valid from the first to the last of its elements; or, if elements are said to be
    `lasting` so long, by member, while all of them are valid.
    """

    name: str
    members: tuple[int, ...]
    links: tuple[Link, ...]
    value: Expression
    condition: Expression
    step: int = 1
    everything: bool = False
    assumed: tuple[int, ...] = ()
    """Members for which the user vouches that the function is quasiconvex in them."""
    demands: tuple[Demand | Whole, ...] = ()
    """By member; none as long as nobody has looked what can be omitted: then nothing is."""
    lasting: tuple[int, ...] = ()
    shedding: Shedding = NEVER


def demands_on(which: int, alerts: Sequence[Alert]) -> tuple[Demand, ...]:
    """All that alerts ask of one input; none if one of them needs all of it.

    An element can be omitted if every one of the demands says so.
    """
    asked = [alert.demands[alert.members.index(which)] for alert in alerts if alert.demands and which in alert.members]
    if len(asked) < sum(which in alert.members for alert in alerts) or any(isinstance(each, Whole) for each in asked):
        return ()
    return tuple(dict.fromkeys(each for each in asked if isinstance(each, Demand)))


def distances(alert: Alert) -> list[list[int]]:
    """How much later, at most, the element of one member (row) can be than that of another (column)."""
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


def span(alert: Alert) -> int:
    """How far apart the first and the last element of an alarm can be."""
    return max(max(row) for row in distances(alert))

"""Written alerts."""

from __future__ import annotations

from tidegate.errors import Span
from tidegate.language.syntax.expressions import ColumnReference, Expression, Name
from tidegate.language.syntax.queries import Source
from tidegate.language.syntax.shedding import QueryOptions
from tidegate.values import value


@value
class Distance:
    """The greatest distance in time between two elements, in microseconds.

    For the first and the second of them, -length ≤ time - time ≤ length; an open end excludes its bound.
    """

    length: int
    span: Span
    left_open: bool = False
    right_open: bool = False


@value
class EveryPair:
    """``WITHIN d``: all elements of an alarm near each other; ``OF x``: all of them near that of x."""

    distance: Distance
    centre: Name | None
    span: Span


@value
class NamedPair:
    """``d BETWEEN x AND y``."""

    distance: Distance
    left: Name
    right: Name
    span: Span


@value
class NamedPairs:
    """``WITHIN d BETWEEN x AND y, …``: only elements of these must be near each other."""

    pairs: tuple[NamedPair, ...]
    span: Span


@value
class Hops:
    """``WITHIN WINDOWS OF d SLIDE s``: all elements in one of the windows that begin at multiples of s."""

    length: int
    slide: int
    span: Span


Within = EveryPair | NamedPairs | Hops


@value
class Assumption:
    """``ASSUME QUASICONVEX IN x, y``; without names it applies to all streams."""

    names: tuple[Name, ...]
    span: Span


@value
class CreateAlert:
    """An alert; with `everything`, every crossing combination is an alarm. Only one on one stream may lack WITHIN."""

    name: Name
    sources: tuple[Source, ...]
    within: Within | None
    matching: tuple[Name, ...]
    when: Expression
    where: Expression | None
    assumption: Assumption | None
    everything: bool
    notify: str | None
    span: Span
    options: QueryOptions | None = None


@value
class SubscriptionClauses:
    """``ID column`` and ``TERMINATE WHEN condition``: the identity and the end of subscriptions."""

    id: ColumnReference | None
    ends_when: Expression | None


@value
class CreateTotalAlert:
    """An alert on a total; with `subscribing`, CREATE ALERTS: one for each subscription."""

    name: Name
    sources: tuple[Source, ...]
    within: Within | None
    matching: tuple[Name, ...]
    when: Expression
    where: Expression | None
    repeats: bool
    notify: str | None
    subscribing: SubscriptionClauses | None
    span: Span


AnyAlert = CreateAlert | CreateTotalAlert

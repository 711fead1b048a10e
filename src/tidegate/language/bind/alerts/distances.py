"""WITHIN: the elements of an alert that must be near each other in time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from tidegate.algebra.explain import duration_text
from tidegate.algebra.threshold_alert import Link, Representation
from tidegate.errors import QueryError
from tidegate.language import syntax
from tidegate.language.bind.names import Scope, find_visible
from tidegate.language.syntax import Distance, Name, NamedPair


def links_of(within: syntax.Within, scope: Scope) -> tuple[tuple[Link, ...], int]:
    """Return the links between members, and the step in which windows move: 1 if they slide."""
    match within:
        case syntax.EveryPair(distance=distance, centre=centre):
            return _clique(distance, scope) if centre is None else _star(
                distance, member_position(scope, centre), scope
            ), 1
        case syntax.NamedPairs(pairs=pairs):
            return _named_links(pairs, scope), 1
        case syntax.Hops(length=length, slide=slide, span=span):
            # Two elements of one window are less than its length apart.
            return _clique(Distance(length, span, left_open=True, right_open=True), scope), slide


def representation_of(within: syntax.Within | None) -> Representation | None:
    """Return which elements of one stream others represent; None without WITHIN."""
    match within:
        case None:
            return None
        case syntax.EveryPair(distance=distance, centre=None) if distance.left_open == distance.right_open:
            return Representation(distance.length, distance.left_open)
    message = "an alert on one stream takes one length of time"
    hint = "write for example WITHIN 10 MINUTES: alarms represent other alarms that are no further away in time"
    raise QueryError("Q211", message, within.span, hint=hint)


def _clique(distance: Distance, scope: Scope) -> tuple[Link, ...]:
    return tuple(_link(left, right, distance) for left, right in combinations(range(len(scope)), 2))


def _star(distance: Distance, centre: int, scope: Scope) -> tuple[Link, ...]:
    return tuple(_link(other, centre, distance) for other in range(len(scope)) if other != centre)


def member_position(scope: Scope, name: Name) -> int:
    """Return the position of the member with this name."""
    return scope.index(find_visible(scope, name))


def _link(left: int, right: int, distance: Distance) -> Link:
    """Return the link between two members, with the member that comes first in FROM on the left."""
    length, opens = distance.length, (distance.left_open, distance.right_open)
    return (
        Link(left, right, length, length, *opens) if left < right else Link(right, left, length, length, *opens[::-1])
    )


def _named_links(pairs: Sequence[NamedPair], scope: Scope) -> tuple[Link, ...]:
    links: list[Link] = []
    for pair in pairs:
        left, right = member_position(scope, pair.left), member_position(scope, pair.right)
        if left == right:
            message = f"'{pair.left.text}' is always near itself"
            raise QueryError("Q211", message, pair.right.span, hint="name two different streams after BETWEEN")
        link = _link(left, right, pair.distance)
        if any((link.left, link.right) == (known.left, known.right) for known in links):
            message = f"the distance between '{pair.left.text}' and '{pair.right.text}' is given twice"
            raise QueryError("Q211", message, pair.span, hint="remove one of them")
        links.append(link)
    _refuse_unconnected(links, pairs, scope)
    return tuple(links)


def _refuse_unconnected(links: Sequence[Link], pairs: Sequence[NamedPair], scope: Scope) -> None:
    """Refuse pairs that do not connect all members with each other."""
    together = {0}
    for _ in links:
        for link in links:
            if {link.left, link.right} & together:
                together |= {link.left, link.right}
    alone = [visible.alias for i, visible in enumerate(scope) if i not in together]
    if alone:
        least = duration_text(min(pair.distance.length for pair in pairs)).upper()
        hint = f"add for example {least} BETWEEN {scope[0].alias} AND {alone[0]}"
        message = f"'{alone[0]}' may be at any distance from '{scope[0].alias}'"
        raise QueryError("Q211", message, pairs[0].span.to(pairs[-1].span), hint=hint)

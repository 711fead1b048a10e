"""Operators that look at other instants than the one they are asked about (PIPES, chapters 8, 17 and 20)."""

from __future__ import annotations

from collections import Counter

from reference.changes import granule, row_instants
from reference.members import History, Member, without_identity
from reference.values import Row, row_order
from tidegate.algebra.plan import Change, Changes, CountWindow, Granularity, Plan, Window


def windowed(window: Window, history: History, instant: int) -> list[Member]:
    """Formula (17.1), which with slide 1 is (8.17); without the bound of 0, times may be negative."""
    unit = granule(window.source) if window.slide > 1 else 1
    last = (instant + unit) // window.slide * window.slide - unit
    first = None if window.size is None else last + unit - window.size
    found = [
        (at, m)
        for at in row_instants(window.source, history.given, first, last)
        if window.size is None or at >= last + unit - size_at(window, history, at, window.size)
        for m in history.members(window.source, at)
    ]
    if window.whole:
        return list({m.lineage: m for _, m in found}.values())
    return [Member((at, *m.lineage), m.values, at) for at, m in found]


def counted(window: CountWindow, history: History, instant: int) -> list[Member]:
    """Formula (17.2), which with slide 1 is (8.18), and (8.19) where there are keys.

    Every row of every instant counts, one after the other also within an instant. What is valid
    until the next row of the group is decided by the last one.

    With a history of sizes, a row of time t counts as long as fewer rows come after it than are in force at t.
    """
    if window in history.sizes and window.rows is not None:
        return [
            Member((at, *m.lineage), m.values, at)
            for group in _groups(window, history, instant).values()
            for after, (at, m) in enumerate(reversed(group))
            if after < size_at(window, history, at, window.rows)
        ]
    return [m for group in _groups(window, history, instant).values() for m in _last_rows(window, group)]


def _groups(window: CountWindow, history: History, until: int) -> dict[Row, list[tuple[int, Member]]]:
    """The rows of each group with their instants, in the order in which they count."""
    places = [window.schema.names.index(key) for key in window.keys]
    groups: dict[Row, list[tuple[int, Member]]] = {}
    for at in row_instants(window.source, history.given, None, until):
        for m in sorted(history.members(window.source, at), key=lambda m: row_order(m.values)):
            groups.setdefault(tuple(m.values[place] for place in places), []).append((at, m))
    return groups


def _last_rows(window: CountWindow, group: list[tuple[int, Member]]) -> list[Member]:
    """Those with numbers in [max(⌊n/A⌋·A - N + 1, 1), ⌊n/A⌋·A]."""
    full = len(group) // window.slide * window.slide
    first = 1 if window.rows is None else max(full - window.rows + 1, 1)
    return [Member((at, *m.lineage), m.values, at) for at, m in group[first - 1 : full]]


def coarsened(plan: Granularity, history: History, instant: int) -> list[Member]:
    """Formula (20.1) at the multiples of the size; between them, what was valid at the last one (algorithm 24).

    With a history of sizes, each element has the granules in force at its start.
    """
    sizes = {plan.size, *(size for _, size in history.sizes.get(plan, ()))}
    return [
        m
        for size in sorted(sizes)
        for at in [instant // size * size]
        for m in history.members(plan.source, at)
        if len(sizes) == 1 or size_at(plan, history, _start(plan.source, history, m, at), plan.size) == size
    ]


def size_at(plan: Plan, history: History, start: int, best: int) -> int:
    """The size of a window or granularity for an element with this start."""
    return next((size for instant, size in reversed(history.sizes.get(plan, ())) if instant <= start), best)


def _start(plan: Plan, history: History, member: Member, instant: int) -> int:
    """The first instant of the element that the member, which is one at this instant, belongs to."""
    while any(m.lineage == member.lineage for m in history.members(plan, instant - 1)):
        instant -= 1
    return instant


def changed(plan: Changes, history: History, instant: int) -> list[Member]:
    """The difference, as bags, of the relations of two neighbouring instants (section 17.3, erratum E-12)."""
    more, less = {
        Change.INSERTED: (instant, instant - 1),
        Change.DELETED: (instant - 1, instant),
        Change.DELETED_LAST: (instant, instant + 1),
    }[plan.change]
    difference = _bag(plan.source, history, more) - _bag(plan.source, history, less)
    return [Member((instant, *m.lineage), m.values, instant) for m in without_identity(difference.elements(), instant)]


def _bag(plan: Plan, history: History, instant: int) -> Counter[Row]:
    return Counter(m.values for m in history.members(plan, instant))

"""Constraints that a step uses: those of the order, or those declared if there is no order yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.algebra.constraints import Settings, Use
from tidegate.algebra.keyed_join import EdgeConstraint, Kind
from tidegate.physical.common.operator import Facts
from tidegate.physical.keyed_join.kernels.model import Bound, Constraints
from tidegate.physical.keyed_join.layout import Layout

WITHIN, KEEPS_NO = "within", "keeps_no"
"""Keys of an order: bounds by name (`monitor.name_of`), and the inputs that remember elements that can never join."""

_NAMES = {
    Kind.ARRIVING: "arriving",
    Kind.CLUSTERED: "clustered",
    Kind.ORDERED_PARENTS: "ordered_parents",
    Kind.ORDERED_CHILDREN: "ordered_children",
}
_ORDERED = (Kind.ORDERED_PARENTS, Kind.ORDERED_CHILDREN)
_FOR_CHILDREN = (Kind.ARRIVING, Kind.ORDERED_CHILDREN)


@dataclass(frozen=True, slots=True)
class Known:
    """Knowledge about the edges before any element arrives."""

    layout: Layout
    streams: tuple[str | None, ...]
    constraints: tuple[EdgeConstraint, ...]
    watched: tuple[tuple[int, Kind], ...]
    settings: Settings

    def clusters(self) -> frozenset[int]:
        """Return the edges whose cluster constraints are or may be used."""
        declared = {c.edge for c in self.constraints if c.kind is Kind.CLUSTERED and c.unused is None}
        found = {e for e, kind in self.watched if kind is Kind.CLUSTERED and self.settings.use is Use.MONITORED}
        return frozenset(declared | found)

    def checked(self) -> tuple[EdgeConstraint, ...]:
        """Return the constraints, with the reason for those that cannot be used here."""
        return tuple(each if each.unused else replace(each, unused=self._why_not(each)) for each in self.constraints)

    def _why_not(self, each: EdgeConstraint) -> str | None:
        if self._usable(each.edge, each.kind, Bound(each.within.rows, each.within.time)) != Bound():
            return None
        reason = self.layout.unordered[each.edge] if each.kind in _ORDERED else None
        return reason or "rows of what is joined are not counted"

    def declared(self) -> dict[tuple[int, Kind], Bound]:
        """Return the bounds that are declared and used."""
        bounds: dict[tuple[int, Kind], Bound] = {}
        for each in self.checked():
            if each.unused is None and self.settings.use is not Use.OFF:
                before = bounds.get((each.edge, each.kind), Bound())
                rows, time = _less(before.rows, each.within.rows), _less(before.time, each.within.time)
                bounds[each.edge, each.kind] = Bound(rows, time)
        return bounds

    def made_use_of(self, order: Facts) -> Constraints:
        """Return the constraints for a step, from the order if it has bounds, otherwise from the declarations."""
        if WITHIN not in order:
            bounds = self.declared()
        else:
            places = [(place.partition("/"), within) for place, within in order[WITHIN].items()]
            bounds = {(int(e), Kind[kind.upper()]): Bound(to["rows"], to["time"]) for (e, _, kind), to in places}
        usable = {place: self._usable(*place, bound) for place, bound in bounds.items()}
        usable = {place: bound for place, bound in usable.items() if bound != Bound()}
        chosen: dict[str, Any] = {
            name: {edge: bound for (edge, kind), bound in usable.items() if kind is each}
            for each, name in _NAMES.items()
        }
        return Constraints(**chosen, keeps_no=self._keeps_no(order, usable))

    def _usable(self, edge: int, kind: Kind, bound: Bound) -> Bound:
        """Return the usable part of a bound. Not all keys have an order, and not all inputs count rows."""
        parent, child = self.layout.graph.edges[edge]
        unordered = kind in _ORDERED and self.layout.unordered[edge] is not None
        if unordered or (kind is Kind.CLUSTERED and edge not in self.clusters()):
            return Bound()
        counted = self.streams[child if kind in _FOR_CHILDREN else parent] is not None
        return bound if counted else Bound(None, bound.time)

    def _keeps_no(self, order: Facts, bounds: Mapping[tuple[int, Kind], Bound]) -> frozenset[int]:
        """Return the inputs that remember elements that can never join.

        By default these are inputs with a parent that would otherwise wait without a bound.
        """
        if KEEPS_NO in order:
            return frozenset(order[KEEPS_NO])
        waits = [
            e for e in range(len(self.layout.graph.edges)) if not any((e, kind) in bounds for kind in _FOR_CHILDREN)
        ]
        return frozenset(s for s, above in enumerate(self.layout.graph.above) if any(e in waits for e in above))


def counters_of(streams: Sequence[str | None], arrived: Mapping[str, int]) -> list[int]:
    """Return the number of rows that have arrived in the stream of each input."""
    return [0 if name is None else arrived.get(name, 0) for name in streams]


def _less(a: int | None, b: int | None) -> int | None:
    return min((each for each in (a, b) if each is not None), default=None)

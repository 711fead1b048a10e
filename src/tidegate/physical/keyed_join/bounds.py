"""Constraints that a step uses: those of the directive, or those declared if there is no directive yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse
from tidegate.algebra.keyed_join import ConstraintKind, EdgeConstraint
from tidegate.physical.keyed_join.directive import KeyedJoinDirective
from tidegate.physical.keyed_join.kernels.model import Bound, Constraints
from tidegate.physical.keyed_join.layout import KeyedJoinLayout

_ORDERED = (ConstraintKind.ORDERED_PARENTS, ConstraintKind.ORDERED_CHILDREN)
_FOR_CHILDREN = (ConstraintKind.ARRIVING, ConstraintKind.ORDERED_CHILDREN)


@dataclass(frozen=True, slots=True)
class EdgeKnowledge:
    """Knowledge about the edges before any element arrives."""

    layout: KeyedJoinLayout
    streams: tuple[str | None, ...]
    constraints: tuple[EdgeConstraint, ...]
    watched: tuple[tuple[int, ConstraintKind], ...]
    settings: ConstraintSettings
    unbounded: tuple[int, ...] = ()
    """Inputs whose elements never end: keys of those that never join would stay for ever."""

    def clustered_edges(self) -> frozenset[int]:
        """Return the edges whose cluster constraints are or may be used."""
        declared = {c.edge for c in self.constraints if c.kind is ConstraintKind.CLUSTERED and c.unused is None}
        found = {
            e
            for e, kind in self.watched
            if kind is ConstraintKind.CLUSTERED and self.settings.use is ConstraintUse.MONITORED
        }
        return frozenset(declared | found)

    def checked_constraints(self) -> tuple[EdgeConstraint, ...]:
        """Return the constraints, with the reason for those that cannot be used here."""
        return tuple(
            each if each.unused else replace(each, unused=self._why_unusable(each)) for each in self.constraints
        )

    def _why_unusable(self, each: EdgeConstraint) -> str | None:
        if self._usable_part(each.edge, each.kind, Bound(each.within.rows, each.within.time)) != Bound():
            return None
        reason = self.layout.unordered[each.edge] if each.kind in _ORDERED else None
        return reason or "the rows of a join result are not counted"

    def declared_bounds(self) -> dict[tuple[int, ConstraintKind], Bound]:
        """Return the bounds that are declared and used."""
        bounds: dict[tuple[int, ConstraintKind], Bound] = {}
        for each in self.checked_constraints():
            if each.unused is None and self.settings.use is not ConstraintUse.OFF:
                before = bounds.get((each.edge, each.kind), Bound())
                rows, time = _lesser(before.rows, each.within.rows), _lesser(before.time, each.within.time)
                bounds[each.edge, each.kind] = Bound(rows, time)
        return bounds

    def constraints_for_step(self, directive: KeyedJoinDirective | None) -> Constraints:
        """Return the constraints for a step, from the directive if there is one, otherwise from the declarations."""
        if directive is None:
            bounds = self.declared_bounds()
        else:
            places = [(place.partition("/"), reach) for place, reach in directive.within.items()]
            bounds = {
                (int(e), ConstraintKind[kind.upper()]): Bound(reach.rows, reach.time) for (e, _, kind), reach in places
            }
        usable = {place: self._usable_part(*place, bound) for place, bound in bounds.items()}
        usable = {place: bound for place, bound in usable.items() if bound != Bound()}

        def bounds_of(kind: ConstraintKind) -> dict[int, Bound]:
            return {edge: bound for (edge, each), bound in usable.items() if each is kind}

        return Constraints(
            arriving=bounds_of(ConstraintKind.ARRIVING),
            clustered=bounds_of(ConstraintKind.CLUSTERED),
            ordered_parents=bounds_of(ConstraintKind.ORDERED_PARENTS),
            ordered_children=bounds_of(ConstraintKind.ORDERED_CHILDREN),
            keeps_no=self._inputs_keeping_no(usable) if directive is None else frozenset(directive.keeps_no),
        )

    def _usable_part(self, edge: int, kind: ConstraintKind, bound: Bound) -> Bound:
        """Return the usable part of a bound. Not all keys have an order, and not all inputs count rows."""
        parent, child = self.layout.graph.edges[edge]
        unordered = kind in _ORDERED and self.layout.unordered[edge] is not None
        if unordered or (kind is ConstraintKind.CLUSTERED and edge not in self.clustered_edges()):
            return Bound()
        counted = self.streams[child if kind in _FOR_CHILDREN else parent] is not None
        return bound if counted else Bound(None, bound.time)

    def _inputs_keeping_no(self, bounds: Mapping[tuple[int, ConstraintKind], Bound]) -> frozenset[int]:
        """Return the inputs that remember elements that can never join.

        By default these are inputs with a parent that would otherwise wait without a bound.
        """
        waits = [
            e for e in range(len(self.layout.graph.edges)) if not any((e, kind) in bounds for kind in _FOR_CHILDREN)
        ]
        above = enumerate(self.layout.graph.above)
        return frozenset(s for s, edges in above if s not in self.unbounded and any(e in waits for e in edges))


def counters_of(streams: Sequence[str | None], arrived: Mapping[str, int]) -> list[int]:
    """Return the number of rows that have arrived in the stream of each input."""
    return [0 if name is None else arrived.get(name, 0) for name in streams]


def _lesser(a: int | None, b: int | None) -> int | None:
    return min((each for each in (a, b) if each is not None), default=None)

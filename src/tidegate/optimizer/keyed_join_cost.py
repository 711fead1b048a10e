"""Whether a join that keeps synopses is worth it: an estimate of what it keeps, against plain joins.

Rates are not known before a query runs: all streams count alike, and what is kept of one is measured by
how long its elements stay. A window of rows is taken to be as long as the longest whose time is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.algebra.constraints import Reach
from tidegate.algebra.join_graph import sources
from tidegate.algebra.keyed_join import EdgeConstraint, Kind
from tidegate.optimizer.edge_constraints import Known

ROW_COST = 1.5
"""A kept row costs so much more than one of a plain join, which writes a row only a few times, in runs."""

WAITING_SHARE = 0.1
"""So many of the rows that have children wait for them for as long as they are valid."""

OTHER_SHARE = 0.1
"""A reach that is yet to be found, or not in the unit of the window, is taken to be that part of a validity."""


def not_worth_it(
    known: Known, constraints: Sequence[EdgeConstraint], watched: Sequence[tuple[int, Kind]]
) -> str | None:
    """Why plain joins are expected to be cheaper; None if they are not."""
    lengths = _lengths(known)
    stays = _Stays(known, lengths, constraints, watched)
    kept = sum(stays.complete(each) + stays.waiting(each) for each in range(len(lengths)))
    # Plain joins of more than two inputs keep what comes out of all joins but the last.
    plain = sum(lengths) + (len(lengths) - 2) * min(lengths)
    if kept * ROW_COST <= plain:
        return None
    share = round(100 * kept / plain)
    return f"plain joins are cheaper: {share} % of what they keep would be kept, at {ROW_COST} times the cost of a row"


def _lengths(known: Known) -> list[float]:
    """How long elements are valid; where that is not known, as long as the longest."""
    longest = max((each for each in known.lengths if each is not None), default=1)
    return [longest if each is None else each for each in known.lengths]


class _Stays:
    """For how long elements of an input stay, on average, as part of how long they are valid."""

    def __init__(
        self,
        known: Known,
        lengths: Sequence[float],
        constraints: Sequence[EdgeConstraint],
        watched: Sequence[tuple[int, Kind]],
    ) -> None:
        self.edges, self.lengths, self.known = known.edges, lengths, known
        groups = sources(len(lengths), known.edges)
        self.singles = frozenset(groups[0]) if len(groups) == 1 else frozenset()
        self.reaches: dict[tuple[int, Kind], Reach] = dict.fromkeys(watched, Reach())
        for each in constraints:
            if each.unused is None:
                self.reaches[each.edge, each.kind] = each.within

    def complete(self, which: int) -> float:
        """Elements that are complete: if no more combinations begin with them, they go, and with what they join."""
        if which in self.singles:
            return 0.0
        above = [e for e, edge in enumerate(self.edges) if edge.child == which]
        below = [e for e, edge in enumerate(self.edges) if edge.parent == which]
        share = 1 - WAITING_SHARE if below else 1.0
        return share * self._least(which, above + below, (Kind.CLUSTERED, Kind.ORDERED_PARENTS))

    def waiting(self, which: int) -> float:
        below = [e for e, edge in enumerate(self.edges) if edge.parent == which]
        return WAITING_SHARE * self._least(which, below, (Kind.ARRIVING, Kind.ORDERED_CHILDREN)) if below else 0.0

    def _least(self, which: int, edges: Iterable[int], kinds: Iterable[Kind]) -> float:
        found = [self.reaches[place] for e in edges for k in kinds if (place := (e, k)) in self.reaches]
        return self.lengths[which] * min([1.0, *(self._part(which, each) for each in found)])

    def _part(self, which: int, reach: Reach) -> float:
        """How much of a window a reach is."""
        rows = self.known.rows[which]
        own, whole = (reach.time, self.lengths[which]) if rows is None else (reach.rows, rows)
        return OTHER_SHARE if own is None else own / whole

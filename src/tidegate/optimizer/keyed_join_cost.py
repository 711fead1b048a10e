"""Estimate whether a keyed join is cheaper than plain joins, by the state that each keeps.

Rates are unknown before a query runs. All streams therefore count alike, and the state of a stream is measured by how
long its elements stay. A count window is assumed to be as long as the longest known validity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.algebra.constraints import Reach
from tidegate.algebra.join_graph import sources
from tidegate.algebra.keyed_join import EdgeConstraint, Kind
from tidegate.optimizer.edge_constraints import Known

ROW_COST = 1.5
"""Cost of a kept row, relative to a row of a plain join, which writes a row only a few times, in runs."""

WAITING_SHARE = 0.1
"""Assumed share of the rows with children that wait for them during their whole validity."""

OTHER_SHARE = 0.1
"""Assumed share of a validity for a reach that is not yet known, or not in the unit of the window."""


def not_worth_it(
    known: Known, constraints: Sequence[EdgeConstraint], watched: Sequence[tuple[int, Kind]]
) -> str | None:
    """Return why plain joins are expected to be cheaper; None if they are not."""
    lengths = _lengths(known)
    stays = _Stays(known, lengths, constraints, watched)
    kept = sum(stays.complete(each) + stays.waiting(each) for each in range(len(lengths)))
    # Plain joins of more than two inputs also keep the results of all joins but the last.
    plain = sum(lengths) + (len(lengths) - 2) * min(lengths)
    if kept * ROW_COST <= plain:
        return None
    share = round(100 * kept / plain)
    return f"plain joins are cheaper: {share} % of what they keep would be kept, at {ROW_COST} times the cost of a row"


def _lengths(known: Known) -> list[float]:
    """Return how long elements are valid; the longest known validity where it is unknown."""
    longest = max((each for each in known.lengths if each is not None), default=1)
    return [longest if each is None else each for each in known.lengths]


class _Stays:
    """Average times for which elements of an input stay in state."""

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
        """Return how long complete elements stay, on average.

        An element leaves, with its partners, once no more combinations begin with it.
        """
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
        """Return a reach as a share of the window."""
        rows = self.known.rows[which]
        own, whole = (reach.time, self.lengths[which]) if rows is None else (reach.rows, rows)
        return OTHER_SHARE if own is None else own / whole

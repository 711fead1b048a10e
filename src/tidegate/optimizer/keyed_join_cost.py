"""Estimate whether a keyed join is cheaper than plain joins, by the state that each keeps.

Rates are unknown before a query runs. All streams therefore count alike, and the state of a stream is measured by how
long its elements stay. A count window is assumed to be as long as the longest known validity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.algebra.constraints import Reach
from tidegate.algebra.join_graph import source_groups
from tidegate.algebra.keyed_join import ConstraintKind, EdgeConstraint, JoinEdge, KeyedJoin
from tidegate.algebra.properties import validity_bound
from tidegate.optimizer.edge_constraints import GraphInputs

ROW_COST = 1.5
"""Cost of a kept row, relative to a row of a plain join, which writes a row only a few times, in runs."""

WAITING_SHARE = 0.1
"""Assumed share of the rows with children that wait for them during their whole validity."""

KEY_SHARE = 0.25
"""Cost of a kept key, relative to that of a kept row."""

CLEARLY = 2
"""Factor by which waiting rows must cost more than the keys that would stop them, and that must be read for it."""

OTHER_SHARE = 0.1
"""Assumed share of a validity for a reach that is not yet known, or not in the unit of the window."""


def why_plain_is_cheaper(
    known: GraphInputs, constraints: Sequence[EdgeConstraint], watched: Sequence[tuple[int, ConstraintKind]]
) -> str | None:
    """Return why plain joins are expected to be cheaper; None if they are not."""
    lengths = _validity_lengths(known)
    kept = sum(expected_stays(known.edges, lengths, known.rows, constraints, watched))
    # Plain joins of more than two inputs also keep the results of all joins but the last.
    plain = sum(lengths) + (len(lengths) - 2) * min(lengths)
    if kept * ROW_COST <= plain:
        return None
    share = round(100 * kept / plain)
    return f"plain joins are cheaper: {share} % of their rows would be kept, at {ROW_COST} times the cost of a row"


def expected_stays(
    edges: Sequence[JoinEdge],
    lengths: Sequence[float],
    rows: Sequence[int | None],
    constraints: Sequence[EdgeConstraint],
    watched: Sequence[tuple[int, ConstraintKind]],
    *,
    waiting: float = WAITING_SHARE,
) -> list[float]:
    """Return for each input of a keyed join for how long an element is expected to stay.

    `lengths` are those of validities, `rows` those of windows of rows, by input. `waiting` is the share of the rows
    with children that wait for them during their whole validity.
    """
    stays = _StayEstimate(edges, lengths, rows, constraints, watched, waiting=waiting)
    return [stays.stay_when_complete(each) + stays.stay_while_waiting(each) for each in range(len(lengths))]


def gains_by_failing_rows(join: KeyedJoin, which: int) -> bool:
    """Return whether parents of an input would wait so long for rows that fail its conditions that keys of these pay.

    Without such a key, a parent waits until its constraint lets it go, or its window ends.
    """
    lengths = _known_lengths([validity_bound(each) for each in join.inputs])
    waits = [_longest_wait(join, at, lengths[edge.parent]) for at, edge in enumerate(join.edges) if edge.child == which]
    return sum(waits) >= CLEARLY * KEY_SHARE * lengths[which] and bool(waits)


def _longest_wait(join: KeyedJoin, edge: int, length: float) -> float:
    ends = (ConstraintKind.ARRIVING, ConstraintKind.ORDERED_CHILDREN)
    known = [each.within.time for each in join.used_constraints if each.edge == edge and each.kind in ends]
    known += [None for at, kind in join.watched if at == edge and kind in ends]
    return min([length, *(OTHER_SHARE * length if time is None else time for time in known)])


def _validity_lengths(known: GraphInputs) -> list[float]:
    """Return how long elements are valid; the longest known validity where it is unknown."""
    return _known_lengths(known.lengths)


def _known_lengths(lengths: Sequence[int | None]) -> list[float]:
    longest = max((each for each in lengths if each is not None), default=1)
    return [longest if each is None else each for each in lengths]


class _StayEstimate:
    """Average times for which elements of an input stay in state."""

    def __init__(
        self,
        edges: Sequence[JoinEdge],
        lengths: Sequence[float],
        rows: Sequence[int | None],
        constraints: Sequence[EdgeConstraint],
        watched: Sequence[tuple[int, ConstraintKind]],
        *,
        waiting: float,
    ) -> None:
        self.edges, self.lengths, self.rows, self.waiting = edges, lengths, rows, waiting
        groups = source_groups(len(lengths), edges)
        self.singles = frozenset(groups[0]) if len(groups) == 1 else frozenset()
        self.reaches: dict[tuple[int, ConstraintKind], Reach] = dict.fromkeys(watched, Reach())
        for each in constraints:
            if each.unused is None:
                self.reaches[each.edge, each.kind] = each.within

    def stay_when_complete(self, which: int) -> float:
        """Return how long complete elements stay, on average.

        An element leaves, with its partners, once no more combinations begin with it.
        """
        if which in self.singles:
            return 0.0
        above = [e for e, edge in enumerate(self.edges) if edge.child == which]
        below = [e for e, edge in enumerate(self.edges) if edge.parent == which]
        share = 1 - self.waiting if below else 1.0
        return share * self._shortest_stay(
            which, above + below, (ConstraintKind.CLUSTERED, ConstraintKind.ORDERED_PARENTS)
        )

    def stay_while_waiting(self, which: int) -> float:
        below = [e for e, edge in enumerate(self.edges) if edge.parent == which]
        return (
            self.waiting * self._shortest_stay(which, below, (ConstraintKind.ARRIVING, ConstraintKind.ORDERED_CHILDREN))
            if below
            else 0.0
        )

    def _shortest_stay(self, which: int, edges: Iterable[int], kinds: Iterable[ConstraintKind]) -> float:
        found = [self.reaches[place] for e in edges for k in kinds if (place := (e, k)) in self.reaches]
        return self.lengths[which] * min([1.0, *(self._share_of_window(which, each) for each in found)])

    def _share_of_window(self, which: int, reach: Reach) -> float:
        """Return a reach as a share of the window."""
        rows = self.rows[which]
        own, whole = (reach.time, self.lengths[which]) if rows is None else (reach.rows, rows)
        return OTHER_SHARE if own is None else own / whole

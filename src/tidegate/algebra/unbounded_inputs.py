"""Inputs of keyed joins whose windows have no bound, and what keeps the rows in memory few all the same.

An element without an end leaves memory only because of a constraint. One that waits for a child leaves once the child
can no longer arrive; a complete one leaves once no later element can join it. If the join is exact, it becomes cold,
and stays in cold storage for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from tidegate.algebra.join_graph import source_groups
from tidegate.algebra.keyed_join import ConstraintKind, KeyedJoin
from tidegate.algebra.properties import is_bounded
from tidegate.values import value

_WAIT_ENDS = (ConstraintKind.ARRIVING, ConstraintKind.ORDERED_CHILDREN)
"""Kinds that show when a child no longer arrives."""


class Kept(Enum):
    """Rows of an input that no constraint lets go."""

    WAITING = "rows that wait for a row of another input"
    COMPLETE = "complete rows, which later rows of another input may join"
    UNJOINED = "complete rows that no row of another input has joined"


@value
class Growth:
    """Rows of an input that stay in memory for ever, and the other input on which that depends.

    Inputs are given by position; `edge` is the edge between the two. Without one, the input is not joined by the other.
    """

    input: int
    other: int
    kept: Kept
    edge: int | None


def unbounded_inputs(join: KeyedJoin) -> tuple[int, ...]:
    """Return the inputs whose valid elements grow without a bound."""
    return tuple(at for at, each in enumerate(join.inputs) if not is_bounded(each))


def growth_of(join: KeyedJoin, *, found: bool) -> Iterator[Growth]:
    """Yield the rows of inputs that would stay in memory for ever, if all constraints that are used hold.

    `found`: constraints that monitoring may find count as used.
    """
    known = frozenset((each.edge, each.kind) for each in join.used_constraints)
    known |= frozenset(join.watched) if found else frozenset()
    groups = source_groups(len(join.inputs), join.edges)
    for which in unbounded_inputs(join):
        unended = list(_unended_rows(join, which, groups, known))
        # Where the join begins at one input alone, complete rows of it are not kept.
        if len(groups) > 1 or which not in groups[0]:
            yield from unended
        if unended:
            yield from _unended_waits(join, which, known)


def _unended_rows(
    join: KeyedJoin, which: int, groups: Sequence[Sequence[int]], known: frozenset[tuple[int, ConstraintKind]]
) -> Iterator[Growth]:
    """Yield the sources after which rows of an input cannot leave, complete or not."""
    for group in groups:
        above = [at for at, edge in enumerate(join.edges) if edge.child == which and edge.parent in group]
        if any((at, ConstraintKind.ORDERED_PARENTS) in known for at in above):
            continue
        clustered = any((at, ConstraintKind.CLUSTERED) in known for at in above)
        kept = Kept.UNJOINED if clustered else Kept.COMPLETE
        yield Growth(which, join.edges[above[0]].parent if above else group[0], kept, above[0] if above else None)


def _unended_waits(join: KeyedJoin, which: int, known: frozenset[tuple[int, ConstraintKind]]) -> Iterator[Growth]:
    """Yield the edges over which rows of an input wait for ever."""
    for at, edge in enumerate(join.edges):
        if edge.parent == which and not any((at, kind) in known for kind in _WAIT_ENDS):
            yield Growth(which, edge.child, Kept.WAITING, at)

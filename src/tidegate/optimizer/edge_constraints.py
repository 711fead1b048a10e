"""Assign constraints on how rows arrive to the edges of a join graph, and select those that help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidegate.algebra.constraints import Clustered, Ordered, Reach, Reference
from tidegate.algebra.explain import duration_text
from tidegate.algebra.explain_keyed_join import reach_text
from tidegate.algebra.join_graph import source_groups
from tidegate.algebra.keyed_join import ConstraintKind, EdgeConstraint, JoinEdge, why_unordered
from tidegate.algebra.plan import Scan
from tidegate.schema import Type
from tidegate.values import value

_ENDING = (ConstraintKind.CLUSTERED, ConstraintKind.ORDERED_PARENTS)
"""Kinds that show when no more parents of a row will arrive."""

_KINDS = tuple(ConstraintKind)
_ORDERED = (ConstraintKind.ORDERED_PARENTS, ConstraintKind.ORDERED_CHILDREN)


@value
class GraphInputs:
    """Properties of the inputs of a join graph, by position.

    labels: their names
    lengths: how long their elements are valid, where known
    rows: the number of rows of their stream in their windows, where known
    steps: the steps in which their windows move; an element begins up to a step after its row
    keys: for each edge, the columns of the parent's and of the child's source that must be equal; None: no column
    types: for each edge, the types of these
    """

    labels: tuple[str, ...]
    scans: tuple[Scan, ...]
    lengths: tuple[int | None, ...]
    rows: tuple[int | None, ...]
    steps: tuple[int, ...]
    edges: tuple[JoinEdge, ...]
    keys: tuple[tuple[tuple[str | None, str | None], ...], ...]
    types: tuple[tuple[Type, ...], ...]


EdgeFindings = tuple[tuple[EdgeConstraint, ...], tuple[tuple[int, ConstraintKind], ...]]
"""Constraints, and what is worth monitoring, as edge and kind."""


def constraints_on(known: GraphInputs, *, monitored: bool) -> EdgeFindings:
    """Return all declared constraints on the edges, and the edges and kinds worth monitoring.

    A key of the parents implies that they are clustered. This is not used, because such a key adds an edge from each
    side: either both sides are sources and keep no complete rows, or neither is.
    """
    fitting = [c for edge in range(len(known.edges)) for c in _declared_constraints(known, edge)]
    checked = [_mark_if_too_long(c, known) for c in fitting]
    could = {(e, k) for e in range(len(known.edges)) for k in ConstraintKind if monitored and _can_help(e, k, known)}
    ends = {(c.edge, c.kind) for c in checked if c.unused is None} | could
    kept = sorted(_mark_weaker_unused([_mark_if_uncovered(c, known, ends) for c in checked]), key=_sort_key)
    used = {(c.edge, c.kind) for c in kept if c.unused is None}
    watched = sorted(could - used, key=lambda each: (each[0], _KINDS.index(each[1])))
    return tuple(kept), tuple(watched)


def _sort_key(each: EdgeConstraint) -> tuple[int, int, bool]:
    """Return a sort key: by edge and kind, used constraints last."""
    return each.edge, _KINDS.index(each.kind), each.unused is None


def _declared_constraints(known: GraphInputs, which: int) -> Iterator[EdgeConstraint]:
    """Yield the constraints that both streams declare for an edge, with a reason where the columns do not fit."""
    edge, pairs = known.edges[which], known.keys[which]
    parent, child = known.scans[edge.parent], known.scans[edge.child]
    own, others = frozenset(a for a, _ in pairs), frozenset(b for _, b in pairs)
    of_parent, of_child = known.steps[edge.parent], known.steps[edge.child]
    unordered = why_unordered(known.types[which])
    for each in parent.constraints:
        match each:
            case Reference(other=other) if other == child.stream:
                fits = frozenset(zip(each.columns, each.other_columns, strict=True)) == frozenset(pairs)
                unused = None if fits else f"it refers by ({', '.join(each.columns)}), but these columns are not joined"
                yield EdgeConstraint(which, ConstraintKind.ARRIVING, _in_steps(each.within, of_child), unused, each)
            case Clustered(columns=columns) if own & frozenset(columns):
                within = _in_steps(each.within, of_parent)
                yield EdgeConstraint(which, ConstraintKind.CLUSTERED, within, _cluster_misfit(each, own), each)
            case Ordered(column=column) if column in own:
                within = _in_steps(each.within, of_parent)
                yield EdgeConstraint(which, ConstraintKind.ORDERED_PARENTS, within, unordered, each)
    for each in child.constraints:
        match each:
            case Ordered(column=column) if column in others:
                within = _in_steps(each.within, of_child)
                yield EdgeConstraint(which, ConstraintKind.ORDERED_CHILDREN, within, unordered, each)


def _in_steps(within: Reach, step: int) -> Reach:
    """Convert a reach between rows to one between elements, which begin up to a step after their row."""
    return within if within.time is None else Reach(time=within.time + step - 1)


def _cluster_misfit(each: Clustered, own: frozenset[str | None]) -> str | None:
    columns = frozenset(each.columns)
    if columns == own or (each.within.time is not None and columns <= own):
        return None  # rows that agree in more columns are fewer, so in time they are no further apart
    return f"it is by ({', '.join(each.columns)}), but rows are joined by ({', '.join(sorted(map(str, own)))})"


def _mark_weaker_unused(many: Sequence[EdgeConstraint]) -> list[EdgeConstraint]:
    """Mark as unused all but the shortest usable constraint of each edge, kind and unit."""
    best: dict[tuple[int, ConstraintKind, bool], EdgeConstraint] = {}
    for each in many:
        place = (each.edge, each.kind, each.within.rows is None)
        if each.unused is None and (place not in best or _reach_size(each) < _reach_size(best[place])):
            best[place] = each
    left = []
    for each in many:
        winner = best.get((each.edge, each.kind, each.within.rows is None))
        if each.unused is None and winner is not None and each is not winner:
            left.append(replace(each, unused=f"within {reach_text(winner.within)} also holds"))
        else:
            left.append(each)
    return left


def _reach_size(each: EdgeConstraint) -> int:
    return each.within.time or 0 if each.within.rows is None else each.within.rows


def _mark_if_too_long(each: EdgeConstraint, known: GraphInputs) -> EdgeConstraint:
    """Mark a constraint as unused if it reaches as far as the window of the rows that it could remove.

    A count of rows of one stream bounds nothing in another stream, so row counts compare within one stream only.
    """
    edge = known.edges[each.edge]
    removed, counted = (edge.child, edge.parent) if each.kind in _ENDING else (edge.parent, edge.child)
    length, time, name = known.lengths[removed], each.within.time, known.labels[removed]
    if each.unused is None and length is not None and time is not None and time >= length:
        return replace(each, unused=f"rows of {name} are valid for only {duration_text(length)}")
    most, rows = known.rows[removed], each.within.rows
    is_one_stream = known.scans[removed].stream == known.scans[counted].stream
    if each.unused is None and is_one_stream and most is not None and rows is not None and rows >= most:
        return replace(each, unused=f"the window of {name} has {most} row{'' if most == 1 else 's'} only")
    return each


def _mark_if_uncovered(
    each: EdgeConstraint, known: GraphInputs, ends: set[tuple[int, ConstraintKind]]
) -> EdgeConstraint:
    if each.unused is None and each.kind in _ENDING:
        return replace(each, unused=_why_row_must_stay(each.edge, known, ends))
    return each


def _why_row_must_stay(which: int, known: GraphInputs, ends: set[tuple[int, ConstraintKind]] | None) -> str | None:
    """Return why a row of the child must stay though no more rows of the parent arrive; None if it can go.

    Combinations begin at sources. A row is finished only if every source joins it directly and no source has more
    rows for it. `ends` has the edges and kinds that show this; None: any edge may.
    """
    edge, groups = known.edges[which], source_groups(len(known.scans), known.edges)
    child = known.labels[edge.child]
    if len(groups) == 1 and edge.child in groups[0]:
        return f"complete rows of {child} are not kept anyway"
    if not any(edge.parent in group for group in groups):
        return f"{known.labels[edge.parent]} is itself joined by others: {child} must wait for these"
    for group in groups:
        joining = [e for e, other in enumerate(known.edges) if other.child == edge.child and other.parent in group]
        name = known.labels[group[0]]
        if not joining:
            return f"combinations with {child} may begin at {name}, which does not join it directly"
        if ends is not None and not any((e, kind) in ends for e in joining for kind in _ENDING):
            return f"{name} also joins {child}, and nothing says when its last row has arrived"
    return None


def _can_help(which: int, kind: ConstraintKind, known: GraphInputs) -> bool:
    """Return whether a constraint of this kind could be used if monitoring found it."""
    if kind in _ORDERED and why_unordered(known.types[which]) is not None:
        return False
    return kind not in _ENDING or _why_row_must_stay(which, known, None) is None

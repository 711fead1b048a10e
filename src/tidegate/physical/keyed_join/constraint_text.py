"""Text of a constraint in SHOW CONSTRAINTS (`catalog.constraints.ConstraintFinding`)."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.algebra.constraints import Clustered, Constraint, Ordered, Reach, Reference
from tidegate.algebra.explain_keyed_join import reach_text
from tidegate.algebra.keyed_join import ConstraintKind, JoinEdge
from tidegate.catalog.constraints import describe_bare_constraint
from tidegate.time import MICROSECONDS

_DIGITS = 3
"""Number of digits of a measured distance, which is rounded up."""

_CHANGES_SHOWN = 4
"""Number of recent changes to show; more would make a line unreadable."""


def describe_constraint(edge: JoinEdge, kind: ConstraintKind, names: Sequence[str]) -> str:
    """Return a kind of constraint on an edge as it is declared.

    Examples
    --------
    >>> describe_constraint(JoinEdge(0, 1, ("x.a",), ("y.b",), ("pid",), ("id",)), ConstraintKind.ARRIVING, ("b", "o"))
    '(pid) references o (id)'
    """
    return describe_bare_constraint(_make_constraint(edge, kind, names))


def declaring_stream(edge: JoinEdge, kind: ConstraintKind) -> int:
    """Return the stream for which a kind of constraint is declared."""
    return edge.child if kind is ConstraintKind.ORDERED_CHILDREN else edge.parent


def format_distance(distance: int, *, in_rows: bool) -> str:
    """Format a measured distance.

    Examples
    --------
    >>> format_distance(1_234_567, in_rows=False), format_distance(41, in_rows=True)
    ('1.24 seconds', '41 rows')
    >>> [format_distance(each, in_rows=False) for each in (0, 999_999, 205_000, 47_800_000, 90_010_000)]
    ['0 seconds', '1 second', '205 milliseconds', '47.8 seconds', '1.51 minutes']
    """
    if in_rows or not distance:
        return reach_text(Reach(rows=distance) if in_rows else Reach(time=0))
    digit = 10 ** max(len(str(distance)) - _DIGITS, 0)
    rounded = -(-distance // digit) * digit
    length, unit = max((length, unit) for unit, length in MICROSECONDS.items() if length <= rounded)
    part = 10 ** max(_DIGITS - len(str(rounded // length)), 0)
    amount = -(-rounded * part // length) / part
    return f"{amount:g} {unit}{'' if amount == 1 else 's'}"


def describe_history(changes: Sequence[tuple[int, int | None]], *, in_rows: bool) -> list[str]:
    """Format the recent changes of the distance in use.

    Examples
    --------
    >>> describe_history([(3, 41), (9, None)], in_rows=True)
    ['41 rows from step 3', 'not known from step 9']
    >>> describe_history([(step, step) for step in range(2, 8)], in_rows=True)
    ['…', '4 rows from step 4', '5 rows from step 5', '6 rows from step 6', '7 rows from step 7']
    """
    shown = [
        f"{'not known' if used is None else format_distance(used, in_rows=in_rows)} from step {step}"
        for step, used in changes[-_CHANGES_SHOWN:]
    ]
    return ["…", *shown] if len(changes) > _CHANGES_SHOWN else shown


def _make_constraint(edge: JoinEdge, kind: ConstraintKind, names: Sequence[str]) -> Constraint:
    parents, children = edge.parent_columns or edge.parent_keys, edge.child_columns or edge.child_keys
    match kind:
        case ConstraintKind.ARRIVING:
            return Reference(None, parents, names[edge.child], children, Reach())
        case ConstraintKind.CLUSTERED:
            return Clustered(parents, Reach())
        case ConstraintKind.ORDERED_PARENTS:
            return Ordered(parents[0], Reach())
        case ConstraintKind.ORDERED_CHILDREN:
            return Ordered(children[0], Reach())

"""Describe the keys and constraints of streams, and what runs found about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tidegate.algebra.constraints import Clustered, Constraint, Ordered, Reference
from tidegate.algebra.explain_keyed_join import reach_text
from tidegate.catalog.catalog import SourceStream
from tidegate.values import value

COLUMNS = ("stream", "constraint", "within", "origin", "in_use", "used", "history", "saves")
"""Columns of SHOW CONSTRAINTS."""


USED = "yes"
"""Beginning of `ConstraintFinding.in_use` if the constraint is in use."""


@value
class ConstraintFinding:
    """Description of what a join knows about a constraint; fields are empty where it knows nothing.

    Texts:
    within: how far rows may deviate
    in_use: whether the constraint is used, or why not
    used: the deviation that the join currently assumes
    history: earlier values of `used`
    saves: the rows that need not be kept because of it
    declaration: the `declaration_identity` of the declaration; empty if the constraint was found by monitoring

    Numbers:
    rows: rows that are not kept because of it, or would not be
    late: rows that are known to violate it
    distance: the deviation that the join currently assumes
    """

    stream: str
    constraint: str
    within: str = ""
    in_use: str = ""
    used: str = ""
    history: str = ""
    saves: str = ""
    declaration: str = ""
    rows: int = 0
    late: int = 0
    distance: int = 0

    @property
    def is_used(self) -> bool:
        return self.in_use.startswith(USED)

    @property
    def subject(self) -> tuple[str, str]:
        """Key that is equal for all descriptions of one constraint; the case of names does not matter."""
        return self.stream.lower(), self.declaration or self.constraint.lower()


def declaration_identity(declared: Constraint) -> str:
    """Return a text that identifies a declaration among those of its stream.

    It does not depend on the case of names of streams and columns.
    """
    return repr(declared).lower()


def describe_bare_constraint(constraint: Constraint) -> str:
    """Describe a constraint without its name and its WITHIN.

    Examples
    --------
    >>> from tidegate.algebra.constraints import Reach
    >>> describe_bare_constraint(Reference("b_to_o", ("pid",), "o", ("id",), Reach(rows=5)))
    '(pid) references o (id)'
    """
    match constraint:
        case Reference(columns=columns, other=other, other_columns=theirs):
            return f"({', '.join(columns)}) references {other} ({', '.join(theirs)})"
        case Clustered(columns=columns):
            return f"clustered by {', '.join(columns)}"
        case Ordered(column=column):
            return f"ordered by {column}"


def describe_declarations(stream: SourceStream) -> Iterator[str]:
    """Yield descriptions of the key and the constraints of a stream."""
    if stream.key:
        yield _describe_key(stream)
    for each in stream.constraints:
        yield f"{_describe_with_name(each)} within {reach_text(each.within)}"


def constraint_rows(streams: Iterable[SourceStream], found: Sequence[ConstraintFinding] = ()) -> list[tuple[str, ...]]:
    """Return a row with the `COLUMNS` for each declared key and constraint, and for each other constraint found."""
    told: dict[tuple[str, str], list[ConstraintFinding]] = {}
    for one in found:
        told.setdefault(one.subject, []).append(one)
    known = {subject: _merge_findings(same) for subject, same in told.items()}
    rows = []
    for stream in streams:
        rows += [_constraint_row(stream.name, _describe_key(stream), "", "declared", None)] if stream.key else []
        for each in stream.constraints:
            said = known.pop((stream.name.lower(), declaration_identity(each)), None)
            rows.append(
                _constraint_row(stream.name, _describe_with_name(each), reach_text(each.within), "declared", said)
            )
    return rows + [_constraint_row(one.stream, one.constraint, one.within, _origin(one), one) for one in known.values()]


def describe_saved_rows(rows: int, *, is_used: bool) -> str:
    """Describe the rows that are not kept because of a constraint, or would not be if it were used."""
    return f"{'' if is_used else 'would save '}about {rows} rows"


def _merge_findings(told: Sequence[ConstraintFinding]) -> ConstraintFinding:
    """Merge the descriptions of one constraint by several edges or joins; only those that use it count, if any do.

    A constraint counts as violated if any of them says so. The same rows may be late for several edges, so the largest
    count is reported, not the sum. The largest distance counts, because the constraint must hold for all of them.
    """
    speaking = [each for each in told if each.is_used] or list(told)
    first = max(speaking, key=lambda each: (each.is_used and each.in_use != USED, each.late, each.distance))
    if sum(bool(each.saves) for each in speaking) < 2:
        return first
    return replace(first, saves=describe_saved_rows(sum(each.rows for each in speaking), is_used=first.is_used))


def _origin(found: ConstraintFinding) -> str:
    """Return the origin of a constraint that the streams do not declare; an earlier run may have declared it."""
    return "declared" if found.declaration else "found"


def _constraint_row(
    stream: str, constraint: str, within: str, origin: str, told: ConstraintFinding | None
) -> tuple[str, ...]:
    more = ("",) * 4 if told is None else (told.in_use, told.used, told.history, told.saves)
    return (stream, constraint, within, origin, *more)


def _describe_key(stream: SourceStream) -> str:
    return f"key ({', '.join(stream.key)})"


def _describe_with_name(constraint: Constraint) -> str:
    match constraint:
        case Reference(name=str(name)):
            return f"{name}: {describe_bare_constraint(constraint)}"
    return describe_bare_constraint(constraint)

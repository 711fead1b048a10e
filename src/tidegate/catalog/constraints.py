"""Keys and constraints of streams in words, and what is told of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tidegate.algebra.constraints import Clustered, Constraint, Ordered, Reference
from tidegate.algebra.explain_keyed_join import reach_in_words
from tidegate.catalog.catalog import SourceStream

COLUMNS = ("stream", "constraint", "within", "origin", "in_use", "used", "history", "saves")
"""What SHOW CONSTRAINTS answers."""


USED = "yes"
"""How it begins that a constraint is in use."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a join knows of a constraint, in words; nothing where it knows nothing.

    declaration: the `identity` of what is declared, if that is what it speaks of; else it was found by watching
    within: how far rows may deviate
    in_use: whether it is made use of, or why not
    used: within what it is taken to hold now
    history: how that changed
    saves: what is not kept because of it

    and in numbers
    rows: how many rows are not kept, or would not be
    late: how many rows are known to have broken it
    distance: within what it is taken to hold now
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
        """The same for all that speak of one constraint; case does not count in names."""
        return self.stream.lower(), self.declaration or self.constraint.lower()


def identity(declared: Constraint) -> str:
    """What tells a declaration from all others of its stream: what it says, wherever it stands and is made use of.

    Names of streams and columns may be spelt in several ways.
    """
    return repr(declared).lower()


def in_words(constraint: Constraint) -> str:
    """What a constraint says, without its name and how far it holds.

    Examples
    --------
    >>> from tidegate.algebra.constraints import Reach
    >>> in_words(Reference("b_to_o", ("pid",), "o", ("id",), Reach(rows=5)))
    '(pid) references o (id)'
    """
    match constraint:
        case Reference(columns=columns, other=other, other_columns=theirs):
            return f"({', '.join(columns)}) references {other} ({', '.join(theirs)})"
        case Clustered(columns=columns):
            return f"clustered by {', '.join(columns)}"
        case Ordered(column=column):
            return f"ordered by {column}"


def declared_in_words(stream: SourceStream) -> Iterator[str]:
    """The key and the constraints of a stream, one after the other."""
    if stream.key:
        yield _key_in_words(stream)
    for each in stream.constraints:
        yield f"{_named_in_words(each)} within {reach_in_words(each.within)}"


def constraint_rows(streams: Iterable[SourceStream], found: Sequence[Found] = ()) -> list[tuple[str, ...]]:
    """A row with the `COLUMNS` for each key and constraint that is declared, and for each that was found besides."""
    told: dict[tuple[str, str], list[Found]] = {}
    for one in found:
        told.setdefault(one.subject, []).append(one)
    known = {subject: _together(same) for subject, same in told.items()}
    rows = []
    for stream in streams:
        rows += [_row(stream.name, _key_in_words(stream), "", "declared", None)] if stream.key else []
        for each in stream.constraints:
            said = known.pop((stream.name.lower(), identity(each)), None)
            rows.append(_row(stream.name, _named_in_words(each), reach_in_words(each.within), "declared", said))
    return rows + [_row(one.stream, one.constraint, one.within, _origin(one), one) for one in known.values()]


def saved_in_words(rows: int, *, is_used: bool) -> str:
    """What is not kept because of a constraint, or would not be if it were made use of."""
    return f"{'' if is_used else 'would save '}about {rows} rows"


def _together(told: Sequence[Found]) -> Found:
    """What is said of one constraint by several edges or joins: if any makes use of it, what those say that do.

    It is broken if it is anywhere. Rows that come too late for several edges are the same, so the most is told.
    What is found holds for all of them only as far as the farthest says.
    """
    speaking = [each for each in told if each.is_used] or list(told)
    first = max(speaking, key=lambda each: (each.is_used and each.in_use != USED, each.late, each.distance))
    if sum(bool(each.saves) for each in speaking) < 2:
        return first
    return replace(first, saves=saved_in_words(sum(each.rows for each in speaking), is_used=first.is_used))


def _origin(found: Found) -> str:
    """Of what is not declared any more a run may still speak."""
    return "declared" if found.declaration else "found"


def _row(stream: str, constraint: str, within: str, origin: str, told: Found | None) -> tuple[str, ...]:
    more = ("",) * 4 if told is None else (told.in_use, told.used, told.history, told.saves)
    return (stream, constraint, within, origin, *more)


def _key_in_words(stream: SourceStream) -> str:
    return f"key ({', '.join(stream.key)})"


def _named_in_words(constraint: Constraint) -> str:
    match constraint:
        case Reference(name=str(name)):
            return f"{name}: {in_words(constraint)}"
    return in_words(constraint)

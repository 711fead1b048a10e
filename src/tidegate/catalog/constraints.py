"""Keys and constraints of streams in words, and what is told of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidegate.algebra.constraints import Clustered, Constraint, Ordered, Reference
from tidegate.algebra.explain_many_one import reach_in_words
from tidegate.catalog.catalog import SourceStream

COLUMNS = ("stream", "constraint", "within", "origin", "in_use", "used", "history", "saves")
"""What SHOW CONSTRAINTS answers."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a run knows of a constraint, in words; nothing where it knows nothing.

    `constraint` and `within` are as `in_words` and `reach_in_words` say them; if a constraint is declared with the
    same words, this is what becomes of it. Otherwise it was found by watching the stream.

    within: how far rows may deviate
    in_use: whether it is made use of, or why not
    used: within what it is taken to hold now
    history: how that changed
    saves: what is not kept because of it
    """

    stream: str
    constraint: str
    within: str = ""
    in_use: str = ""
    used: str = ""
    history: str = ""
    saves: str = ""


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
    known = {_same(each.stream, each.constraint, each.within): each for each in found}
    rows = []
    for stream in streams:
        rows += [_row(stream.name, _key_in_words(stream), "", "declared", None)] if stream.key else []
        for each in stream.constraints:
            within = reach_in_words(each.within)
            told = known.pop(_same(stream.name, in_words(each), within), None)
            rows.append(_row(stream.name, _named_in_words(each), within, "declared", told))
    return rows + [_row(each.stream, each.constraint, each.within, "found", each) for each in known.values()]


def _same(*words: str) -> tuple[str, ...]:
    """What is the same for the same constraint; case does not count in names."""
    return tuple(word.lower() for word in words)


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

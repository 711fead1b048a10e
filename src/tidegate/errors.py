"""What can go wrong, as values that explain themselves.

Every error has a code, a message and, where one is known, a hint. The first letter of the code
says whose fault it is, and decides the exit code of the command line:

    Qnnn  the query is wrong        exit code 2
    Dnnn  the data or a connector   exit code 3
    Innn  Tidegate itself           exit code 1

A warning has the same parts, and a code with W: the query runs, but probably not as its author thinks.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a query text."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        return Span(self.start, other.end)


NOWHERE = Span(0, 0)


class TidegateError(Exception):
    """Base of all errors that Tidegate raises on purpose."""

    exit_code = 1

    def __init__(self, code: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    def render(self) -> str:
        """The message as a person reads it."""
        shown = f"error[{self.code}]: {_printable_lines(self.message)}"
        return shown if self.hint is None else f"{shown}\n   = hint: {_printable_lines(self.hint)}"

    def __str__(self) -> str:
        return self.render()

    def __reduce__(self) -> tuple[object, ...]:
        # Errors of workers travel to the driver.
        return _error, (type(self), self.__dict__)


class QueryError(TidegateError):
    """The text of a query is wrong, at a known place."""

    exit_code = 2

    def __init__(
        self, code: str, message: str, span: Span = NOWHERE, *, text: str = "", hint: str | None = None
    ) -> None:
        super().__init__(code, message, hint=hint)
        self.span = span
        self.text = text

    def with_text(self, text: str) -> QueryError:
        """The same error, able to show the line it is about."""
        return QueryError(self.code, self.message, self.span, text=text, hint=self.hint)

    def render(self) -> str:
        return _rendered("error", self)


class DataError(TidegateError):
    """The data or a connector failed: a missing file, a schema that does not match."""

    exit_code = 3


class BadFileError(DataError):
    """One file cannot be read as its stream is declared; others may be. `name` and `path` tell which it is."""

    def __init__(self, code: str, message: str, *, name: str, path: str, hint: str | None = None) -> None:
        super().__init__(code, message, hint=hint)
        self.name, self.path = name, path

    def in_one_line(self) -> str:
        """Say what is wrong, for a list."""
        said = "; ".join(line.strip() for line in self.message.splitlines())
        return said if self.hint is None else f"{said} ({self.hint})"


class InternalError(TidegateError):
    """A promise that Tidegate makes to itself is broken."""


class TidegateWarning(UserWarning):
    """The query runs, but probably does not mean what its author thinks; or its data looks wrong.

    Codes W1nn to W2nn are about the text of a query, W3nn about data that was read.
    """

    def __init__(
        self, code: str, message: str, span: Span = NOWHERE, *, text: str = "", hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.span, self.text, self.hint = code, message, span, text, hint

    def with_text(self, text: str) -> TidegateWarning:
        """The same warning, able to show the line it is about."""
        return TidegateWarning(self.code, self.message, self.span, text=text, hint=self.hint)

    def render(self) -> str:
        """Format the warning as a person reads it."""
        return _rendered("warning", self)

    def as_json(self) -> str:
        """Format the warning as one line of JSON, for programs that read standard error.

        Examples
        --------
        >>> TidegateWarning("W101", "bid has no window", Span(14, 17), text="SELECT * FROM bid").as_json()
        '{"warning": "W101", "message": "bid has no window", "line": 1, "column": 15}'
        """
        line, column = place_of(self.text, self.span)
        place = {} if self.span == NOWHERE else {"line": line, "column": column}
        hint = {} if self.hint is None else {"hint": self.hint}
        return json.dumps({"warning": self.code, "message": self.message, **place, **hint}, ensure_ascii=False)

    def as_error(self) -> TidegateError:
        """Return the error that `--strict` makes of the warning."""
        if self.code < "W3":
            return QueryError(self.code, self.message, self.span, text=self.text, hint=self.hint)
        return DataError(self.code, self.message, hint=self.hint)

    def __str__(self) -> str:
        return self.render()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TidegateWarning) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple[str, str, Span]:
        return self.code, self.message, self.span

    def __reduce__(self) -> tuple[object, ...]:
        return _remake_warning, (self.__dict__,)


def _remake_warning(content: dict[str, object]) -> TidegateWarning:
    warning = TidegateWarning.__new__(TidegateWarning)
    warning.__dict__.update(content)
    return warning


def _error(kind: type[TidegateError], content: dict[str, object]) -> TidegateError:
    error = kind.__new__(kind)
    error.__dict__.update(content)
    return error


SHOWN_CHARACTERS = 300
"""How much of a value or a row a message shows."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Characters that move the cursor, change colours or the direction of writing, or are invisible."""


def printable(text: str, limit: int | None = SHOWN_CHARACTERS) -> str:
    r"""Return the text as a terminal can show it: control characters escaped, what is too long cut off.

    Examples
    --------
    >>> printable("a\n\x1b[31mb")
    'a\\n\\x1b[31mb'
    >>> printable("abcdef", limit=3)
    'abc… (6 characters)'
    """
    shown = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text[:limit])
    if limit is None or max(len(text), len(shown)) <= limit:
        return shown
    return f"{shown[:limit]}… ({len(text):,} characters)"


def _printable_lines(text: str) -> str:
    """Return a message of one or more lines, each of them printable."""
    return "\n".join(printable(line.replace("\t", " "), _LINE_OF_MESSAGE) for line in text.split("\n"))


_LINE_OF_MESSAGE = 2000


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Let functions that walk plans recurse as deep as plans may be, which is further than Python's own limit."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 10_000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """A hint that names what was probably meant, or lists what there is."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name.lower(), [n.lower() for n in names], n=1, cutoff=0.6)
    if close:
        return f"did you mean '{next(n for n in names if n.lower() == close[0])}'?"
    if names:
        return "there is: " + ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return None


def place_of(text: str, span: Span) -> tuple[int, int]:
    r"""Return the line and the column where a span begins, both counted from 1.

    Examples
    --------
    >>> place_of("SELECT *\nFROM bid", Span(14, 17))
    (2, 6)
    """
    return text.count("\n", 0, span.start) + 1, span.start - text.rfind("\n", 0, span.start)


def _rendered(kind: str, told: QueryError | TidegateWarning) -> str:
    shown = f"{kind}[{told.code}]: {_printable_lines(told.message)}"
    if told.text and (kind == "error" or told.span != NOWHERE):
        shown += "\n" + _excerpt(told.text, told.span)
    return shown if told.hint is None else f"{shown}\n   = hint: {_printable_lines(told.hint)}"


def _excerpt(text: str, span: Span) -> str:
    row, column = place_of(text, span)
    line = text[span.start - column + 1 :].split("\n", 1)[0]
    caret = " " * (column - 1) + "^" * max(1, min(span.end - span.start, len(line) - column + 1))
    return f"  --> {row}:{column}\n   | {line}\n   | {caret}"

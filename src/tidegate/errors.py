"""Errors and warnings.

Every error has a code, a message and, if possible, a hint. The first letter of the code names the
cause, and determines the exit code of the command line:

    Qnnn  the query is wrong        exit code 2
    Dnnn  the data or a connector   exit code 3
    Innn  Tidegate itself           exit code 1

A warning has the same parts, and a code with W: the query runs, but its text or its data looks wrong.
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
    """Base class of all errors that Tidegate raises on purpose."""

    exit_code = 1

    def __init__(self, code: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    def render(self) -> str:
        """Format the error for people."""
        shown = f"error[{self.code}]: {_printable_lines(self.message)}"
        return shown if self.hint is None else f"{shown}\n   = hint: {_printable_lines(self.hint)}"

    def __str__(self) -> str:
        return self.render()

    def __reduce__(self) -> tuple[object, ...]:
        # Errors must be picklable, because workers send them to the driver.
        return _remake_error, (type(self), self.__dict__)


class QueryError(TidegateError):
    """Error in the text of a query or in the options of a call; `span` is the place in the text, if known."""

    exit_code = 2

    def __init__(
        self, code: str, message: str, span: Span = NOWHERE, *, text: str = "", hint: str | None = None
    ) -> None:
        super().__init__(code, message, hint=hint)
        self.span = span
        self.text = text

    def with_text(self, text: str) -> QueryError:
        """Return the error with the text of the query, to show the line."""
        return QueryError(self.code, self.message, self.span, text=text, hint=self.hint)

    def render(self) -> str:
        return _render_message("error", self)


class DataError(TidegateError):
    """Error in the data or a connector, for example a missing file or a schema that does not match."""

    exit_code = 3


class BadFileError(DataError):
    """Error in one file, which does not match the declaration of its stream; other files may be fine."""

    def __init__(self, code: str, message: str, *, name: str, path: str, hint: str | None = None) -> None:
        super().__init__(code, message, hint=hint)
        self.name, self.path = name, path

    def one_line_text(self) -> str:
        """Format the error in one line, for a list."""
        said = "; ".join(line.strip() for line in self.message.splitlines())
        return said if self.hint is None else f"{said} ({self.hint})"


class InternalError(TidegateError):
    """Error in Tidegate itself or its installation."""


class TidegateWarning(UserWarning):
    """Warning that a query probably does not mean what its author thinks, or that its data looks wrong.

    Codes W1nn and W2nn are about the text of a query, W3nn about the data.
    """

    def __init__(
        self, code: str, message: str, span: Span = NOWHERE, *, text: str = "", hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.span, self.text, self.hint = code, message, span, text, hint

    def with_text(self, text: str) -> TidegateWarning:
        """Return the warning with the text of the query, to show the line."""
        return TidegateWarning(self.code, self.message, self.span, text=text, hint=self.hint)

    def render(self) -> str:
        """Format the warning for people."""
        return _render_message("warning", self)

    def as_json(self) -> str:
        """Format the warning as one line of JSON, for programs that read standard error.

        Examples
        --------
        >>> TidegateWarning("W101", "bid has no window", Span(14, 17), text="SELECT * FROM bid").as_json()
        '{"warning": "W101", "message": "bid has no window", "line": 1, "column": 15}'
        """
        line, column = line_and_column(self.text, self.span)
        place = {} if self.span == NOWHERE else {"line": line, "column": column}
        hint = {} if self.hint is None else {"hint": self.hint}
        return json.dumps({"warning": self.code, "message": self.message, **place, **hint}, ensure_ascii=False)

    def as_error(self) -> TidegateError:
        """Convert the warning to an error, as `--strict` does."""
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


def _remake_error(kind: type[TidegateError], content: dict[str, object]) -> TidegateError:
    error = kind.__new__(kind)
    error.__dict__.update(content)
    return error


SHOWN_CHARACTERS = 300
"""Maximum number of characters of a value or a row in a message."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Characters that move the cursor, change colours or the text direction, or are invisible."""


def printable(text: str, limit: int | None = SHOWN_CHARACTERS) -> str:
    r"""Make a text safe for a terminal: escape control characters, and truncate it to a limit.

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
    """Make each line of a message printable."""
    return "\n".join(printable(line.replace("\t", " "), _LINE_OF_MESSAGE) for line in text.split("\n"))


_LINE_OF_MESSAGE = 2000


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise Python's recursion limit for functions that walk plans, because plans may be deep."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 10_000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def suggest_name(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with the most similar known name, or a list of the known names."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name.lower(), [n.lower() for n in names], n=1, cutoff=0.6)
    if close:
        return f"did you mean '{next(n for n in names if n.lower() == close[0])}'?"
    if names:
        return "available: " + ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return None


def line_and_column(text: str, span: Span) -> tuple[int, int]:
    r"""Return the line and column where a span begins, counted from 1.

    Examples
    --------
    >>> line_and_column("SELECT *\nFROM bid", Span(14, 17))
    (2, 6)
    """
    return text.count("\n", 0, span.start) + 1, span.start - text.rfind("\n", 0, span.start)


def _render_message(kind: str, told: QueryError | TidegateWarning) -> str:
    shown = f"{kind}[{told.code}]: {_printable_lines(told.message)}"
    if told.text and (kind == "error" or told.span != NOWHERE):
        shown += "\n" + _excerpt(told.text, told.span)
    return shown if told.hint is None else f"{shown}\n   = hint: {_printable_lines(told.hint)}"


def _excerpt(text: str, span: Span) -> str:
    row, column = line_and_column(text, span)
    line = text[span.start - column + 1 :].split("\n", 1)[0]
    caret = " " * (column - 1) + "^" * max(1, min(span.end - span.start, len(line) - column + 1))
    return f"  --> {row}:{column}\n   | {line}\n   | {caret}"

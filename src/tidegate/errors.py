"""What can go wrong, as values that explain themselves.

Every error has a code, a message and, where one is known, a hint. The first letter of the code
says whose fault it is, and decides the exit code of the command line:

    Qnnn  the query is wrong        exit code 2
    Dnnn  the data or a connector   exit code 3
    Innn  Tidegate itself           exit code 1
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
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
        shown = f"error[{self.code}]: {self.message}"
        return shown if self.hint is None else f"{shown}\n   = hint: {self.hint}"

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
        shown = f"error[{self.code}]: {self.message}"
        if self.text:
            shown += "\n" + _excerpt(self.text, self.span)
        return shown if self.hint is None else f"{shown}\n   = hint: {self.hint}"


class DataError(TidegateError):
    """The data or a connector failed: a missing file, a schema that does not match."""

    exit_code = 3


class InternalError(TidegateError):
    """A promise that Tidegate makes to itself is broken."""


def _error(kind: type[TidegateError], content: dict[str, object]) -> TidegateError:
    error = kind.__new__(kind)
    error.__dict__.update(content)
    return error


def nearest(name: str, known: Iterable[str]) -> str | None:
    """A hint that names what was probably meant, or lists what there is."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name.lower(), [n.lower() for n in names], n=1, cutoff=0.6)
    if close:
        return f"did you mean '{next(n for n in names if n.lower() == close[0])}'?"
    if names:
        return "there is: " + ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return None


def _excerpt(text: str, span: Span) -> str:
    line_start = text.rfind("\n", 0, span.start) + 1
    line = text[line_start:].split("\n", 1)[0]
    row, column = text.count("\n", 0, span.start) + 1, span.start - line_start
    caret = " " * column + "^" * max(1, min(span.end - span.start, len(line) - column))
    return f"  --> {row}:{column + 1}\n   | {line}\n   | {caret}"

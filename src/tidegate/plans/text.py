"""SQL text with fragments that a user wrote, and errors at their place in a fragment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tidegate.errors import NOWHERE, QueryError, Span, TidegateWarning
from tidegate.values import value


@value
class SqlFragment:
    """A piece of SQL as a user wrote it."""

    text: str


Text = tuple[str | SqlFragment, ...]
"""SQL text: parts of its own, and fragments of users."""


def join_texts(texts: Sequence[Text], between: str = ", ") -> Text:
    joined: Text = ()
    for position, text in enumerate(texts):
        joined += (between, *text) if position else text
    return joined


def in_parentheses(text: Text) -> Text:
    return ("(", *text, ")")


def write_text(text: Text) -> str:
    return "".join(map(_write_part, text))


def _write_part(part: str | SqlFragment) -> str:
    if isinstance(part, str):
        return part
    # The end of the line ends a comment of the fragment, too.
    return f"{part.text}\n" if "--" in part.text else part.text


@contextmanager
def errors_in_fragments(text: Text) -> Iterator[None]:
    """Show errors in a fragment with the fragment alone as the text."""
    try:
        yield
    except QueryError as error:
        if (place := _find_fragment(text, error.span)) is None or error.text != write_text(text):
            raise
        fragment, span = place
        raise QueryError(error.code, error.message, span, text=fragment.text, hint=error.hint) from None


def warning_in_fragment(warning: TidegateWarning, text: Text) -> TidegateWarning:
    """Return a warning about the text with its place in a fragment, if it is in one."""
    if (place := _find_fragment(text, warning.span)) is None or warning.text != write_text(text):
        return warning
    fragment, span = place
    return TidegateWarning(warning.code, warning.message, span, text=fragment.text, hint=warning.hint)


def _find_fragment(text: Text, span: Span) -> tuple[SqlFragment, Span] | None:
    """Return the fragment that contains a place of the text, and the place in it; quotes around a name belong to it."""
    if span == NOWHERE:
        return None
    start = 0
    for part in text:
        end = start + len(_write_part(part))
        if isinstance(part, SqlFragment) and start - 1 <= span.start and span.end <= end + 1 and span.start < end:
            return part, Span(max(span.start - start, 0), min(span.end - start, len(part.text)))
        start = end
    return None

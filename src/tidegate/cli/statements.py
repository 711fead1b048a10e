"""Split a text into its statements, as it is typed or read."""

from __future__ import annotations

import re
from typing import NamedTuple

_PART = re.compile(
    r"""
    (?P<blank> \s+ | --[^\n]*(?:\n|\Z) | /\*.*?\*/ )
  | (?P<open> /\*.*\Z | '(?:[^']|'')*\Z | "[^"]*\Z | `[^`]*\Z )
  | (?P<end> ; )
  | '(?:[^']|'')*' | "[^"]*" | `[^`]*` | [^\s;'"`/-]+ | .
    """,
    re.VERBOSE | re.DOTALL,
)


class StatementText(NamedTuple):
    """A statement without its semicolon, and where it begins in the whole text."""

    text: str
    start: int


def split_statements(text: str) -> tuple[list[StatementText], StatementText | None]:
    """Return the statements that a semicolon ends, and the one that is not complete yet, if any.

    Semicolons in strings, quoted names and comments do not count.

    Examples
    --------
    >>> split_statements("SHOW STREAMS; SELECT ';' -- ;")
    ([StatementText(text='SHOW STREAMS', start=0)], StatementText(text="SELECT ';' -- ;", start=14))
    """
    found: list[StatementText] = []
    begin: int | None = None
    for part in _PART.finditer(text):
        if part["end"]:
            if begin is not None:
                found.append(StatementText(text[begin : part.start()].rstrip(), begin))
            begin = None
        elif begin is None and not part["blank"]:
            begin = part.start()
    rest = None if begin is None else StatementText(text[begin:].rstrip(), begin)
    return found, rest


def first_word(statement: str) -> str:
    """Return the first word of a statement in lower case.

    Examples
    --------
    >>> first_word("/* all */ SELECT 1"), first_word("(select 1)"), first_word("-- nothing")
    ('select', 'select', '')
    """
    for part in _PART.finditer(statement):
        if not part["blank"] and (word := part[0].strip("(")):
            return word.lower()
    return ""

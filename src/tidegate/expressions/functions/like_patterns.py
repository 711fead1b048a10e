"""LIKE patterns: ``%`` matches any text, ``_`` any one character, an escape makes them literal."""

from __future__ import annotations

from collections.abc import Iterator
from string import punctuation
from typing import Any

import pyarrow.compute as pc

ANY, ONE = "%", "_"
DEFAULT_ESCAPE = "\\"


def tokens(pattern: str, escape: str = DEFAULT_ESCAPE) -> Iterator[tuple[str, bool]]:
    """Yield the characters of a pattern, each with whether it is a wildcard.

    Examples
    --------
    >>> list(tokens("a%!%", "!"))
    [('a', False), ('%', True), ('%', False)]
    """
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            yield next(characters, escape), False
        else:
            yield character, character in (ANY, ONE)


def find_misuse(pattern: str, escape: str) -> str | None:
    """Return what is wrong with a pattern, or None: an escape must precede a wildcard or itself."""
    if len(escape) > 1:
        return "the escape must be one character"
    characters = iter(pattern)
    for character in characters:
        if character == escape and next(characters, None) not in (ANY, ONE, escape):
            return f"in a LIKE pattern, '{escape}' must be followed by %, _ or itself"
    return None


def match_like(texts: Any, pattern: str, escape: str = DEFAULT_ESCAPE) -> Any:
    """Return whether each text matches the pattern."""
    parts = list(tokens(pattern, escape))
    shape = "".join(c if is_wild else "." for c, is_wild in parts)
    if shape.strip(ANY).strip("."):
        return pc.match_substring_regex(texts, _regex(parts))
    text = "".join(c for c, is_wild in parts if not is_wild)
    match shape.startswith(ANY), shape.endswith(ANY):
        case False, False:
            return pc.equal(texts, text)
        case False, True:
            return pc.starts_with(texts, text)
        case True, False:
            return pc.ends_with(texts, text)
    return pc.match_substring(texts, text)


def _regex(parts: list[tuple[str, bool]]) -> str:
    wildcards = {ANY: ".*", ONE: "."}
    body = "".join(wildcards[c] if is_wild else _quote(c) for c, is_wild in parts)
    return rf"(?s)\A{body}\z"


def _quote(character: str) -> str:
    return "\\" + character if character in punctuation else character

"""Describe the differences between the program of a checkpoint and the program to run."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.algebra.explain import duration_text

_MAX_LINES_SHOWN = 6
"""Maximum number of differing lines shown of each text."""


def describe_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    r"""Describe the differences between two program identities: buckets, streams, functions and queries.

    Examples
    --------
    >>> print("\n".join(describe_differences({"buckets": 2, "streams": {"s": ["a.csv", "at", 0]}},
    ...                            {"buckets": 3, "streams": {"s": ["b.csv", "at", 5_000_000]}})))
    buckets
      was: 2
      now: 3
    stream 's'
      was: from 'a.csv' timestamp by at
      now: from 'b.csv' timestamp by at delay 5 seconds
    """
    buckets = [{"buckets": str(each.get("buckets"))} for each in (old, new)]
    found = [
        *_find_changes("", *buckets),
        *_find_changes(
            "stream ", _texts_by_name(old, "streams", _stream_text), _texts_by_name(new, "streams", _stream_text)
        ),
        *_find_changes("function ", _function_signatures(old), _function_signatures(new)),
        *_find_changes("query ", _texts_by_name(old, "queries", str), _texts_by_name(new, "queries", str)),
    ]
    return [line for what, was, now in found for line in [what, *_differing_lines(was, now)]]


def _texts_by_name(identity: Mapping[str, Any], part: str, text: Any) -> dict[str, str]:
    return {name: text(each) for name, each in identity.get(part, {}).items()}


def _function_signatures(identity: Mapping[str, Any]) -> dict[str, str]:
    """Return the signatures of user functions, by the text before their arguments."""
    return {signature.partition("(")[0]: signature for signature in identity.get("functions", ())}


def _stream_text(origin: list[Any]) -> str:
    location, time, delay, *unit = origin
    parts = [f"from '{location}'", f"timestamp by {time}" if time else "", f"unit {unit[0]}" if unit else ""]
    parts.append(f"delay {duration_text(delay)}" if delay else "")
    return " ".join(part for part in parts if part)


def _find_changes(kind: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield kind + (f"'{name}'" if kind else name), old.get(name, "(none)"), new.get(name, "(none)")


def _differing_lines(was: str, now: str) -> Iterator[str]:
    """Yield the lines that differ, at most `_MAX_LINES_SHOWN` of each text."""
    lines = list(difflib.ndiff(was.splitlines(), now.splitlines()))
    for word, sign in (("was", "- "), ("now", "+ ")):
        differing = [line[2:].strip() for line in lines if line.startswith(sign)]
        yield from (f"  {word}: {line}" for line in differing[:_MAX_LINES_SHOWN])
        if len(differing) > _MAX_LINES_SHOWN:
            yield f"  {word}: … and {len(differing) - _MAX_LINES_SHOWN} more lines"

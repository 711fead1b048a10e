"""Find keys of JSON objects that differ from a declared name in case only.

A column's key is the one with the exact name, or else the first that differs in case only. Arrow's reader finds keys
by their exact spelling, so other spellings in a block of lines are searched separately. Only lines without a value
under the exact name are searched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_ESCAPED_LETTER = r"\\u00(3[0-9]|[46][1-9a-fA-F]|5[0-9aAfF]|4[fF]|7[0-9aA])"
"""Pattern of an escaped letter, digit or underscore; a search for the spelling does not find a key with escapes."""


def value_of(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a declared column in an object, or None if it is missing.

    Examples
    --------
    >>> value_of({"Temp": 1}, "temp"), value_of({"Temp": 1, "temp": 2}, "temp"), value_of({}, "temp")
    (1, 2, None)
    """
    if name in row:
        return row[name]
    folded = name.lower()
    return next((value for key, value in row.items() if key.lower() == folded), None)


def has_key(row: Mapping[str, Any], name: str) -> bool:
    return name in row or any(key.lower() == name.lower() for key in row)


def may_have_key(texts: pa.Array, name: str) -> bool:
    """Return whether a line may have a key of that name, in any case; a string that looks like one counts."""
    return _is_any_true(pc.match_substring(texts, f'"{name}"', ignore_case=True))


def has_escapes(texts: pa.Array, names: Sequence[str]) -> bool:
    """Return whether a line may contain one of the names written with escapes."""
    pattern = _ESCAPED_LETTER if all(name.isascii() for name in names) else r"\\u"
    return _is_any_true(pc.match_substring_regex(texts, pattern))


def other_spellings(texts: pa.Array, names: Sequence[str]) -> dict[str, list[str]]:
    """Return by name the keys in the lines that differ from it in case only.

    Examples
    --------
    >>> other_spellings(pa.array(['{"Temp": 1}', '{"temp": 2, "t": 3}']), ["temp", "t"])
    {'temp': ['Temp']}
    """
    patterns = {name: pattern for name in names if (pattern := _other_case_pattern(name)) is not None}
    if not patterns or not _is_any_true(
        pc.match_substring_regex(texts, _key_pattern(rf"(?:{'|'.join(patterns.values())})"))
    ):
        return {}
    found = {}
    for name, pattern in patterns.items():
        keys = pc.extract_regex(texts, _key_pattern(f"(?P<key>{pattern})"))
        if spelt := pc.struct_field(keys, "key").drop_null().unique().to_pylist():
            found[name] = spelt
    return found


def has_spelling(texts: pa.Array, name: str) -> pa.Array:
    """Return for each line whether it has a key with exactly this spelling, or a string that looks like one."""
    return pc.match_substring_regex(texts, _key_pattern(re.escape(name)))


def _key_pattern(pattern: str) -> str:
    return rf'"{pattern}"\s*:'


def _other_case_pattern(name: str) -> str | None:
    """Return a pattern for all other spellings of a name, or None if there are none."""
    pattern: str | None = None
    rest = ""  # pattern of the following letters in any case
    for letter in reversed(name):
        other = letter.swapcase()
        exact, swapped = re.escape(letter), re.escape(other)
        has_case = other != letter and len(other) == 1
        choices = [f"{swapped}{rest}"] if has_case else []
        choices += [f"{exact}{pattern}"] if pattern is not None else []
        pattern = f"(?:{'|'.join(choices)})" if choices else None
        rest = (f"[{exact}{swapped}]" if has_case else exact) + rest
    return pattern


def _is_any_true(mask: pa.Array) -> bool:
    return bool(pc.any(mask, min_count=0).as_py())

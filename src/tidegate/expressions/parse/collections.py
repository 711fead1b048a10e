"""Parsing of arrays and maps from JSON text: ``[1, 2]`` and ``{"a": 1.5}``.

An element is read like a JSON value of a column of its type: ``1.0`` is an INT, and a string is read like a field of
a CSV file. Keys of maps are strings, which are read the same way. If a key is written twice, the last one counts, as
everywhere in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import Ints, Mask
from tidegate.collection_entries import Entries, entries_of, rows_with_repeated_keys, without_rows
from tidegate.expressions.bisect_errors import apply_by_halves
from tidegate.expressions.parse.json_values import DECODER, is_unicode, text_of
from tidegate.schema import Type

Parse = Callable[[pa.Array, Type], tuple[pa.Array, Mask]]
"""A function that parses plain values."""

_SPACE = r"[ \t\r\n]*"
_WHOLE = r"-?(?:0|[1-9][0-9]*)"
_NUMBER = _WHOLE + r"(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_STRING = r'"[^"\\,\x00-\x1f]*"'
_KEY = r'"[^"\\,:\x00-\x1f]*"'
"""Patterns of strings that the surrounding characters delimit."""


def parse_collections(texts: pa.Array, type_: Type, parse: Parse) -> pa.Array:
    """Parse arrays or maps of a type; NULL where a text is invalid."""
    return apply_by_halves(
        texts,
        lambda part: _split_simple(part, type_).parse_entries(type_, parse, strict=True),
        lambda part: _decode_json(part, type_).parse_entries(type_, parse, strict=False),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _EntryTexts:
    """Entries as text; for arrays, all keys are NULL."""

    bounds: Ints
    keys: pa.Array
    values: pa.Array
    missing: Mask

    def parse_entries(self, type_: Type, parse: Parse, *, strict: bool) -> pa.Array:
        """Parse the entries; a row with an invalid entry is NULL.

        With `strict`, repeated keys raise ArrowInvalid; otherwise their row is NULL.
        """
        values, bad = parse(self.values, type_.parts[-1])
        keys = None
        if type_.is_map:
            keys, bad_keys = parse(self.keys, type_.parts[0])
            bad = bad | bad_keys
        found = Entries(self.bounds, values, keys, self.missing)
        wrong = np.zeros(found.rows, np.bool_)
        wrong[found.owners[bad]] = True
        found = without_rows(found, wrong)
        repeated = rows_with_repeated_keys(found)
        if strict and repeated.any():
            raise pa.ArrowInvalid("two keys, or one key twice?")
        return without_rows(found, repeated).column(type_.arrow)


def _split_simple(texts: pa.Array, type_: Type) -> _EntryTexts:
    """Split simple texts at their commas; refuse others."""
    fits = pc.match_substring_regex(texts, _pattern(type_))
    if not pc.all(fits, min_count=0).as_py():
        raise pa.ArrowInvalid("not as simple as that")
    inner = pc.utf8_trim(texts, characters="[]{} \t\r\n")
    pieces = pc.split_pattern(pc.if_else(pc.equal(inner, ""), pa.scalar(None, pa.string()), inner), ",")
    found = entries_of(pieces)
    missing = np.asarray(texts.is_null().to_numpy(zero_copy_only=False))
    if type_.is_array:
        return _EntryTexts(found.bounds, pa.nulls(len(found), pa.string()), _unquote(found.values), missing)
    sides = pc.split_pattern(found.values, '":', max_splits=1).values
    first = np.arange(0, len(sides), 2)
    keys, values = (_unquote(sides.take(pa.array(first + side))) for side in range(2))
    return _EntryTexts(found.bounds, keys, values, missing)


def _unquote(texts: pa.Array) -> pa.Array:
    """Remove the quotes; return NULL for `null`."""
    trimmed = pc.utf8_trim(texts, characters=" \t\r\n")
    known = pc.if_else(pc.equal(trimmed, "null"), pa.scalar(None, pa.string()), trimmed)
    return pc.utf8_trim(known, characters='"')


def _pattern(type_: Type) -> str:
    """Return a pattern of texts that can be split at commas and colons."""
    item = f"(?:{_item_pattern(type_.parts[-1])}|null)"
    entry = f"{_KEY}:{_SPACE}{item}" if type_.is_map else item
    inner = f"(?:{entry}(?:{_SPACE},{_SPACE}{entry})*)?"
    opening, closing = (r"\{", r"\}") if type_.is_map else (r"\[", r"\]")
    return rf"\A{_SPACE}{opening}{_SPACE}{inner}{_SPACE}{closing}{_SPACE}\z"


def _item_pattern(type_: Type) -> str:
    if type_.is_integer:
        return _WHOLE
    if type_.is_floating:
        return _NUMBER
    return "true|false" if type_ is Type.BOOLEAN else _STRING


def _decode_json(texts: pa.Array, type_: Type) -> _EntryTexts:
    """Decode each text as JSON."""
    rows = [None if text is None else _parse_pairs(text, type_) for text in texts.to_pylist()]
    pairs = [pair for row in rows if row is not None for pair in row]
    bounds = np.cumsum([0, *(0 if row is None else len(row) for row in rows)])
    keys, values = (pa.array([pair[i] for pair in pairs], pa.string()) for i in range(2))
    return _EntryTexts(bounds, keys, values, np.array([row is None for row in rows], np.bool_))


def _parse_pairs(text: str, type_: Type) -> list[tuple[str | None, str | None]] | None:
    """Return the keys and values of a text; None if it is not JSON of this type."""
    try:
        value: Any = DECODER.decode(text)
    except (json.JSONDecodeError, RecursionError):
        return None
    item = type_.parts[-1]
    pairs: list[tuple[str | None, str | None]]
    match value:
        case list() if type_.is_array:
            pairs = [(None, text_of(each, item)) for each in value]
        case dict() if type_.is_map:
            pairs = [(key, text_of(each, item)) for key, each in value.items()]
        case _:
            return None
    return pairs if all(is_unicode(part) for pair in pairs for part in pair) else None

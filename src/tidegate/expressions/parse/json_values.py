"""JSON with numbers as written, so that they convert directly to values of any type."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from tidegate.schema import Type

_DIGITS = 30
"""More digits than any whole number of a type has."""


class _Number(str):
    """The text of a JSON number, as written."""

    __slots__ = ()


DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_Number)


def text_of(value: Any, type_: Type) -> str | None:
    """Return the text of a value, for parsing as the type; for an object or array, its JSON."""
    match value:
        case None:
            return None
        case _Number() if type_.is_integer:
            return _integer_text(value)
        case str():
            return str(value)
        case _:
            return _dump_json(value)


def is_unicode(text: str | None) -> bool:
    """Return whether a string is valid text: JSON can contain half of a surrogate pair."""
    return text is None or text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _integer_text(number: str) -> str:
    """Return the number without fraction and exponent, if it is whole and not too large for a value."""
    if number.lstrip("-").isdigit() or not number.lstrip("-")[0].isdigit():
        return str(number)
    exact = Decimal(number)
    is_whole = exact.is_zero() or (abs(exact.adjusted()) < _DIGITS and exact == exact.to_integral_value())
    return str(int(exact)) if is_whole else str(number)


def _dump_json(value: Any) -> str:
    """Return JSON with numbers as written, which `json.dumps` would change."""
    match value:
        case _Number():
            return str(value)
        case dict():
            return "{" + ", ".join(f"{_dump_json(k)}: {_dump_json(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_dump_json, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)

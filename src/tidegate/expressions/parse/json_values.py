"""JSON with numbers as they were written, so that they become values of any type without a detour."""

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
    """The text that stands for a value of the type; that of an object or array is its JSON."""
    match value:
        case None:
            return None
        case _Number() if type_.is_integer:
            return _integer_text(value)
        case str():
            return str(value)
        case _:
            return _dumped(value)


def is_unicode(text: str | None) -> bool:
    """Whether a string is text: JSON can write half of a surrogate pair, which no text has."""
    return text is None or text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _integer_text(number: str) -> str:
    """The number without fraction and exponent, if it is whole and of a size that can be a value."""
    if number.lstrip("-").isdigit() or not number.lstrip("-")[0].isdigit():
        return str(number)
    exact = Decimal(number)
    is_whole = exact.is_zero() or (abs(exact.adjusted()) < _DIGITS and exact == exact.to_integral_value())
    return str(int(exact)) if is_whole else str(number)


def _dumped(value: Any) -> str:
    """JSON with numbers as they were written, which `json.dumps` would change."""
    match value:
        case _Number():
            return str(value)
        case dict():
            return "{" + ", ".join(f"{_dumped(k)}: {_dumped(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_dumped, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)

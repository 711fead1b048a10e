"""Functions and casts of single values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from reference.sets import SETS
from reference.values import (
    DIVISION_BY_ZERO,
    DOMAIN,
    INTEGER_RANGES,
    INVALID_CAST,
    OVERFLOW,
    Failed,
    fit,
    is_equal,
    is_less,
    order_key,
)
from tidegate.schema import Type


def apply(function: str, values: Sequence[Any], type_: Type) -> object:
    """The value of a function whose arguments did not fail; most functions of NULL are NULL."""
    if function in OF_NULL:
        return OF_NULL[function](*values)
    if None in values:
        return None
    if function in COMPARISONS:
        return COMPARISONS[function](*values)
    return _computed(function, values, type_)


OF_NULL: dict[str, Callable[..., object]] = {
    "array": lambda *values: values,
    "is_null": lambda value: value is None,
    "is_true": lambda value: value is True,
    "is_false": lambda value: value is False,
    "nullif": lambda a, b: None if a is not None and b is not None and is_equal(a, b) else a,
    "greatest": lambda *values: max((v for v in values if v is not None), key=order_key, default=None),
    "least": lambda *values: min((v for v in values if v is not None), key=order_key, default=None),
}

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": is_equal,
    "<>": lambda a, b: not is_equal(a, b),
    "<": is_less,
    "<=": lambda a, b: not is_less(b, a),
    ">": lambda a, b: is_less(b, a),
    ">=": lambda a, b: not is_less(a, b),
}


def _computed(function: str, values: Sequence[Any], type_: Type) -> object:
    if function in ("/", "%", "div"):
        return _divided(function, values[0], values[1], type_)
    if function not in PLAIN:
        raise AssertionError(f"the reference knows no function {function}")
    try:
        made = PLAIN[function](*values)
        return made if made is None else fit(made, type_)
    except ValueError:
        return DOMAIN
    except OverflowError:  # Python raises where a double would become infinite
        return math.inf if type_.is_floating else OVERFLOW


def _divided(function: str, a: Any, b: Any, type_: Type) -> object:
    if b == 0:
        return DIVISION_BY_ZERO
    if function == "/":
        return fit(a / b, type_)
    if isinstance(a, float) or isinstance(b, float):
        return fit(math.nan if math.isinf(a) else math.fmod(a, b), type_)
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # towards zero
    return fit(quotient, type_) if function == "div" else fit(a - b * quotient, type_)


PLAIN: dict[str, Callable[..., object]] = {
    "not": lambda a: not a,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "||": lambda a, b: a + b,
    "negate": lambda a: -a,
    "abs": abs,
    "sqrt": math.sqrt,
    "round": lambda x: math.copysign(math.floor(abs(Fraction(x)) + Fraction(1, 2)), x) if math.isfinite(x) else x,
    "ln": math.log,
    "exp": math.exp,
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    **SETS,
    "like": lambda text, pattern, escape="\\": _is_like(text, pattern, escape),
}


def _is_like(text: str, pattern: str, escape: str) -> bool:
    """Whether the text has the form of the pattern, tried character by character."""
    match pattern[:1], pattern[1:]:
        case "", _:
            return text == ""
        case "%", rest:
            return any(_is_like(text[i:], rest, escape) for i in range(len(text) + 1))
        case "_", rest:
            return text != "" and _is_like(text[1:], rest, escape)
        case one, rest:
            one, rest = (rest[0], rest[1:]) if one == escape else (one, rest)
            return text.startswith(one) and _is_like(text[1:], rest, escape)


def cast(value: Any, type_: Type) -> object:
    """The value as another type, or a failure; floats are truncated on their way to integers."""
    match value, type_:
        case tuple(), _ if type_.parts:
            return _entries(value, type_)
        case _, Type.STRING:
            return _text(value)
        case str(), _:
            return _parsed(value.strip(), type_)
        case float(), Type.INT | Type.BIGINT:
            return INVALID_CAST | OVERFLOW if not math.isfinite(value) else _in_range(math.trunc(value), type_)
        case int(), Type.INT | Type.BIGINT:
            return _in_range(int(value), type_)
        case _, Type.REAL | Type.DOUBLE:
            return fit(float(value), type_)
        case _, Type.BOOLEAN:
            return value != 0
    return value


def _entries(value: tuple[Any, ...], type_: Type) -> object:
    """An array or map, each part as its new type; it fails if one of them does."""
    made: list[Any]
    if type_.is_array:
        made = [None if each is None else cast(each, type_.parts[0]) for each in value]
    else:
        made = [(key, None if item is None else cast(item, type_.parts[1])) for key, item in value]
    parts = [each[1] if type_.is_map else each for each in made]
    failed = [each for each in parts if isinstance(each, Failed)]
    return Failed(frozenset().union(*(each.kinds for each in failed))) if failed else tuple(made)


def _in_range(value: int, type_: Type) -> object:
    low, high = INTEGER_RANGES[type_]
    return value if low <= value <= high else INVALID_CAST | OVERFLOW


def _text(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime() | timedelta() | int() | str():
            return str(value)
    raise AssertionError(f"the reference does not say how {value!r} is written")


def _parsed(text: str, type_: Type) -> object:
    match type_:
        case Type.INT | Type.BIGINT if re.fullmatch(r"[+-]?[0-9]+", text):
            return _in_range(int(text), type_)
        case Type.REAL | Type.DOUBLE if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
            return fit(float(text), type_)
        case Type.BOOLEAN if text.lower() in ("true", "false"):
            return text.lower() == "true"
    return INVALID_CAST

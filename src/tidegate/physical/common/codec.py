"""Convert frozen dataclasses to JSON values and back, guided by their type hints.

A field is a number, text, a truth value, an enum, another dataclass, a named tuple, or one of these in `T | None`,
`tuple[T, ...]`, `tuple[A, B]`, `list[T]`, `Mapping[str, T]` or `Mapping[int, T]`. Such a value is equal to what its
JSON becomes. A named tuple becomes a list, which is short: use it for what occurs many times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

Json = Any
"""A JSON value: None, a truth value, a number, text, a list, or a dict with text as keys."""


def to_json(value: object) -> Json:
    """Return a value as JSON: a dataclass as a dict of its fields, an enum as its name.

    Numbers become plain `int` and `float`. Scalars of NumPy that are neither are refused, as JSON has no such types.
    """
    match value:
        case None | bool() | str():
            return value
        case Enum():
            return value.name
        case int():
            return int(value)
        case float():
            return float(value)
        case Mapping():
            return {str(key): to_json(each) for key, each in value.items()}
        case tuple() | list():
            return [to_json(each) for each in value]
    if is_dataclass(value):
        return {each.name: to_json(getattr(value, each.name)) for each in fields(value)}
    raise TypeError(f"{type(value).__name__} cannot become JSON")


def from_json(kind: type[T], data: Json) -> T:
    """Return the value of a type from its JSON.

    Fields that the JSON lacks get their defaults. Fields that the type lacks are ignored, so a value of a subclass can
    be read as one of its base class.

    Examples
    --------
    >>> from tidegate.algebra.constraints import Reach
    >>> from_json(Reach, to_json(Reach(rows=3)))
    Reach(rows=3, time=None)
    """
    decode = _decoder_of(cast("Any", kind))
    return cast("T", decode(data))


def as_recorded(value: T) -> T:
    """Return a value as it would be after being written to a file and read."""
    return from_json(type(value), to_json(value))


_Decoder = Callable[[Json], Any]


@cache
def _decoder_of(kind: Any) -> _Decoder:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _optional_decoder(arguments)
    if origin is tuple:
        return _tuple_decoder(arguments)
    if origin is list:
        each = _decoder_of(arguments[0])
        return lambda data: [each(item) for item in data]
    if origin is Mapping:
        key, item = arguments[0], _decoder_of(arguments[1])
        return lambda data: {key(name): item(each) for name, each in data.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda data: kind[data]
    if isinstance(kind, type) and issubclass(kind, tuple):
        hints = get_type_hints(kind)
        parts = [_decoder_of(hints[name]) for name in kind._fields]  # type: ignore[attr-defined]
        return lambda data: kind(*(part(item) for part, item in zip(parts, data, strict=True)))
    return _dataclass_decoder(kind) if is_dataclass(kind) else lambda data: data


def _optional_decoder(arguments: tuple[Any, ...]) -> _Decoder:
    (some,) = (_decoder_of(each) for each in arguments if each is not NoneType)
    return lambda data: None if data is None else some(data)


def _tuple_decoder(arguments: tuple[Any, ...]) -> _Decoder:
    if arguments[1:] == (Ellipsis,):
        each = _decoder_of(arguments[0])
        return lambda data: tuple(each(item) for item in data)
    parts = [_decoder_of(each) for each in arguments]
    return lambda data: tuple(part(item) for part, item in zip(parts, data, strict=True))


def _dataclass_decoder(kind: Any) -> _Decoder:
    hints = get_type_hints(kind)
    decoders = {each.name: _decoder_of(hints[each.name]) for each in fields(kind)}
    return lambda data: kind(**{name: decode(data[name]) for name, decode in decoders.items() if name in data})

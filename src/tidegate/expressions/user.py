"""Functions and aggregates that users write in Python, by name beside those of the language."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from tidegate.errors import QueryError, nearest
from tidegate.expressions.aggregates import AggregateFunction, Fold, aggregate_named
from tidegate.schema import TYPE_NAMES, Type


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A Python function of columns, or with `vectorized` false of single values, of which none is NULL.

    It must give the same for the same arguments, row by row. An exception makes dead letters of the
    rows that it is about.
    """

    name: str
    parameters: tuple[Type, ...]
    result: Type
    function: Callable[..., Any] = field(hash=False)
    vectorized: bool = True

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(p.name for p in self.parameters)}) {self.result.name}"

    def apply(self, columns: Sequence[pa.Array], rows: int) -> tuple[pa.Array, dict[int, str]]:
        """The values, NULL where the function fails, and what it said of those rows."""
        texts: dict[int, str] = {}
        if not rows:
            return pa.array([], self.result.arrow), texts
        return self._halved(columns, 0, rows, texts), texts

    def _halved(self, columns: Sequence[pa.Array], first: int, last: int, texts: dict[int, str]) -> pa.Array:
        """Where a function refuses many rows, find those that it refuses alone."""
        try:
            return self._called([column[first:last] for column in columns], last - first)
        except _WrongResultError as error:
            texts.update(dict.fromkeys(range(first, last), str(error)))
            return pa.nulls(last - first, self.result.arrow)
        except Exception as error:  # noqa: BLE001 - whatever the user's function raises
            if last - first == 1:
                texts[first] = describe(error)
                return pa.nulls(1, self.result.arrow)
        middle = (first + last) // 2
        halves = [self._halved(columns, *bounds, texts) for bounds in ((first, middle), (middle, last))]
        return pa.concat_arrays(halves)

    def _called(self, columns: Sequence[pa.Array], rows: int) -> pa.Array:
        if not self.vectorized:
            return pa.array([self._single(row) for row in _rows(columns, rows)], self.result.arrow)
        made = self.function(*columns)
        made = made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
        made = made if isinstance(made, pa.Array) else pa.array(made)
        if len(made) != rows:
            raise _WrongResultError(f"{self.name} gave {len(made)} values for {rows} rows")
        return made if made.type == self.result.arrow else made.cast(self.result.arrow)

    def _single(self, row: tuple[Any, ...]) -> Any:
        return None if any(value is None for value in row) else self.function(*row)


class _WrongResultError(Exception):
    """A function that does not work row by row, so that no part of its rows would be better."""


def _rows(columns: Sequence[pa.Array], rows: int) -> Iterator[tuple[Any, ...]]:
    if not columns:
        return iter([()] * rows)
    return zip(*(column.to_pylist() for column in columns), strict=True)


def describe(error: BaseException) -> str:
    """An exception as one line for people."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


# ---- which functions are known

UserDefined = UserFunction | AggregateFunction

_KNOWN: ContextVar[Mapping[str, UserDefined]] = ContextVar("user_defined", default=MappingProxyType({}))


@contextmanager
def knowing(functions: Mapping[str, UserDefined]) -> Iterator[None]:
    """Let names mean the users' functions while a text is bound."""
    token = _KNOWN.set(functions)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def find_function(name: str) -> UserFunction | None:
    """The user's function of a name, in any case."""
    found = _KNOWN.get().get(name.lower())
    return found if isinstance(found, UserFunction) else None


def find_aggregate(name: str) -> AggregateFunction | None:
    """The aggregate of a name, in any case: one of the language or the user's."""
    found = _KNOWN.get().get(name.lower())
    return found if isinstance(found, AggregateFunction) else aggregate_named(name)


def user_names() -> list[str]:
    return sorted(_KNOWN.get())


# ---- registration


def user_function(
    name: str, function: Callable[..., Any], *, arguments: Sequence[str], result: str, vectorized: bool = True
) -> UserFunction:
    """A function as a user declares it, with the names of types."""
    return UserFunction(_checked(name), _types(arguments), _type(result), function, vectorized)


def user_aggregate(
    name: str,
    *,
    initial: Callable[..., Any],
    merge: Callable[..., Any],
    result: Callable[[Any], Any],
    arguments: Sequence[str],
    type_: str,
) -> AggregateFunction:
    """An aggregate as a user declares it: of the first value, of each further value, and what comes out."""
    parameters, made = _types(arguments), _type(type_)
    if not parameters:
        raise QueryError("Q122", f"the aggregate '{name}' takes no arguments", hint="give it one at least")
    fold = Fold(initial, merge, result, made)
    takes = "(" + ", ".join(p.name for p in parameters) + ")"
    return AggregateFunction(
        _checked(name), Always(made), fold, takes, arguments=len(parameters), parameters=parameters
    )


@dataclass(frozen=True, slots=True)
class Always:
    """The same type, whatever the arguments are."""

    type: Type

    def __call__(self, *_: Type) -> Type:
        return self.type


def _checked(name: str) -> str:
    if not name.isidentifier():
        raise QueryError("Q122", f"'{name}' cannot be the name of a function", hint="use letters, digits and _")
    return name.lower()


def _types(names: Sequence[str]) -> tuple[Type, ...]:
    return tuple(map(_type, names))


def _type(name: str) -> Type:
    if (found := Type.named(name)) is None:
        raise QueryError("Q104", f"unknown type '{name}'", hint=nearest(name, TYPE_NAMES))
    return found

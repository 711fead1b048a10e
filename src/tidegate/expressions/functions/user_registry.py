"""User-defined functions and aggregates in Python, by name, in addition to those of the language."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from tidegate.errors import QueryError, suggest_name
from tidegate.expressions.functions.aggregates import AggregateFunction, Fold, aggregate_named
from tidegate.expressions.user_calls import UserFunction
from tidegate.schema import TYPE_NAMES, Type
from tidegate.values import value

UserDefined = UserFunction | AggregateFunction

_KNOWN: ContextVar[Mapping[str, UserDefined]] = ContextVar("user_defined", default=MappingProxyType({}))


@contextmanager
def using_functions(functions: Mapping[str, UserDefined]) -> Iterator[None]:
    """Make user-defined functions known by name while a text is bound."""
    token = _KNOWN.set(functions)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def find_function(name: str) -> UserFunction | None:
    """Return the user-defined function with this name, ignoring case."""
    found = _KNOWN.get().get(name.lower())
    return found if isinstance(found, UserFunction) else None


def find_aggregate(name: str) -> AggregateFunction | None:
    """Return the aggregate with this name, ignoring case: a user-defined or a built-in one."""
    found = _KNOWN.get().get(name.lower())
    return found if isinstance(found, AggregateFunction) else aggregate_named(name)


def user_names() -> list[str]:
    return sorted(_KNOWN.get())


# ---- registration


def user_function(
    name: str, function: Callable[..., Any], *, arguments: Sequence[str], result: str, vectorized: bool = True
) -> UserFunction:
    """Make a function from a user's declaration, which gives types by name."""
    return UserFunction(_check_name(name), _types(arguments), _type(result), function, vectorized)


def user_aggregate(
    name: str,
    *,
    initial: Callable[..., Any],
    merge: Callable[..., Any],
    result: Callable[[Any], Any],
    arguments: Sequence[str],
    type_: str,
) -> AggregateFunction:
    """Make an aggregate from a user's functions for the first value, for each further value, and for the result."""
    parameters, made = _types(arguments), _type(type_)
    if not parameters:
        raise QueryError("Q122", f"the aggregate '{name}' takes no arguments", hint="give it one at least")
    fold = Fold(initial, merge, result, made)
    takes = "(" + ", ".join(p.name for p in parameters) + ")"
    return AggregateFunction(
        _check_name(name), FixedType(made), fold, takes, arguments=len(parameters), parameters=parameters
    )


@value
class FixedType:
    """A function that returns the same type for any arguments."""

    type: Type

    def __call__(self, *_: Type) -> Type:
        return self.type


def _check_name(name: str) -> str:
    if not name.isidentifier():
        raise QueryError("Q122", f"'{name}' cannot be the name of a function", hint="use letters, digits and _")
    return name.lower()


def _types(names: Sequence[str]) -> tuple[Type, ...]:
    return tuple(map(_type, names))


def _type(name: str) -> Type:
    if (found := Type.from_name(name)) is None:
        raise QueryError("Q104", f"unknown type '{name}'", hint=suggest_name(name, TYPE_NAMES))
    return found

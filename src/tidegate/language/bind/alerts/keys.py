"""MATCHING and equalities in WHERE: the columns in which elements of an alert must agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidegate.errors import QueryError, suggest_name
from tidegate.expressions.nodes import Call, Column, Expression
from tidegate.language.bind.names import Scope
from tidegate.language.syntax import Name

Key = tuple[Column, ...]
"""Columns that must be equal, one of each member."""


def common_keys(matching: Sequence[Name], terms: Iterable[Expression], scope: Scope) -> tuple[Key, ...]:
    """Return the keys of MATCHING, and those that follow from equalities between columns of all members."""
    named = [_matching_key(name, scope) for name in matching]
    for position, (name, key) in enumerate(zip(matching, named, strict=True)):
        if key in named[:position]:
            message = f"'{name.text}' is in MATCHING twice"
            raise QueryError("Q105", message, name.span, hint="remove one of them")
    return tuple(dict.fromkeys((*named, *_keys_of_classes(_equality_classes(terms), scope))))


def is_implied(term: Expression, keys: Iterable[Key]) -> bool:
    """Return whether a term only states the equality of a key."""
    pair = _equality(term)
    return pair is not None and any(pair[0] in key and pair[1] in key for key in keys)


def _matching_key(name: Name, scope: Scope) -> Key:
    key: list[Column] = []
    for visible in scope:
        column = visible.find(name.text)
        if column is None:
            hint = suggest_name(name.text, (own for own, _ in visible))
            raise QueryError("Q102", f"'{visible.alias}' has no column '{name.text}'", name.span, hint=hint)
        if key and column.type is not key[0].type:
            first = f"{key[0].type.name} in '{scope[0].alias}'"
            message = f"'{name.text}' is {first} and {column.type.name} in '{visible.alias}'"
            hint = f"declare it with the same type, or read it from a query in FROM that has CAST({name.text} AS …)"
            raise QueryError("Q214", message, name.span, hint=hint)
        key.append(column)
    return tuple(key)


def _equality(term: Expression) -> tuple[Column, Column] | None:
    match term:
        case Call("=", (Column() as left, Column() as right)):
            return left, right
    return None


def _equality_classes(terms: Iterable[Expression]) -> list[list[Column]]:
    """Return the classes of columns that are equal to each other, directly or through others."""
    classes: list[list[Column]] = []
    for pair in filter(None, map(_equality, terms)):
        touched = [each for each in classes if pair[0] in each or pair[1] in each]
        merged = list(dict.fromkeys([*(column for each in touched for column in each), *pair]))
        classes = [*(each for each in classes if each not in touched), merged]
    return classes


def _keys_of_classes(classes: Iterable[Sequence[Column]], scope: Scope) -> Iterator[Key]:
    for equal in classes:
        of_each = [next((c for c in equal if c.name in visible.plan_names), None) for visible in scope]
        key = tuple(column for column in of_each if column is not None)
        if len(key) == len(scope):
            yield key

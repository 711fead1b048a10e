"""Written queries and their parts, and syntax trees as nested tuples."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from tidegate.language import syntax
from tidegate.language.parse.parser import parse
from tidegate.language.syntax import Constant, Expression, Operation, Select

SECOND = 1_000_000


def select(text: str) -> Select:
    [statement] = parse(text)
    assert isinstance(statement, syntax.QueryStatement)
    assert isinstance(statement.query, Select)
    return statement.query


def expression(text: str) -> Expression:
    [item] = select(f"SELECT {text} FROM s").items
    assert isinstance(item, syntax.Item)
    return item.expression


def source(text: str) -> syntax.Source:
    [only] = select(f"SELECT * FROM {text}").sources
    return only


def shape(node: Any) -> Any:
    """A node as nested tuples, without spans and without what has its default."""
    match node:
        case Constant(value=value):
            return value
        case syntax.ColumnReference(qualifier=syntax.Name(text=qualifier), name=name):
            return f"{qualifier}.{name.text}"
        case syntax.ColumnReference(name=name):
            return name.text
        case Operation(operator=operator, arguments=arguments):
            return (operator, *map(shape, arguments))
        case syntax.Name(text=text):
            return text
        case tuple():
            return tuple(map(shape, node))
        case _ if is_dataclass(node):
            said = (f.name for f in fields(node) if f.name != "span" and getattr(node, f.name) != f.default)
            parts = (shape(getattr(node, name)) for name in said)
            return (type(node).__name__, *parts)
    return node

"""Traversal of syntax trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass


def walk(node: object) -> Iterator[object]:
    """Yield a node and all nodes below it, parents first."""
    match node:
        case tuple():
            for part in node:
                yield from walk(part)
        case _ if is_dataclass(node):
            yield node
            for each in fields(node):
                yield from walk(getattr(node, each.name))

"""Clauses of CREATE, each allowed once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tidegate.errors import QueryError, Span


class Clause(NamedTuple):
    """A clause of CREATE: its keywords, its content and its position."""

    about: str
    says: Any
    span: Span


def each_once(clauses: Iterable[Clause]) -> dict[str, Any]:
    """Return the contents of the clauses by keywords; refuse duplicates."""
    said: dict[str, Any] = {}
    for clause in clauses:
        if clause.about in said:
            raise QueryError("Q105", f"{clause.about} is given twice", clause.span, hint="leave one of them out")
        said[clause.about] = clause.says
    return said

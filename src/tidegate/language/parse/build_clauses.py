"""Clauses of CREATE, each allowed once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tidegate.errors import QueryError, Span


class CreateClause(NamedTuple):
    """A clause of CREATE: its keywords, its content and its position."""

    keywords: str
    content: Any
    span: Span


def contents_by_keywords(clauses: Iterable[CreateClause]) -> dict[str, Any]:
    """Return the contents of the clauses by keywords; refuse duplicates."""
    said: dict[str, Any] = {}
    for clause in clauses:
        if clause.keywords in said:
            raise QueryError("Q105", f"{clause.keywords} is given twice", clause.span, hint="remove one of them")
        said[clause.keywords] = clause.content
    return said

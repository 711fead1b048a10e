"""Written constraints on how the rows of a stream arrive."""

from __future__ import annotations

from tidegate.algebra.constraints import Reach
from tidegate.errors import Span
from tidegate.language.syntax.expressions import Name
from tidegate.values import value


@value
class ReferenceClause:
    """A CONSTRAINT or FOREIGN KEY, with the columns of both streams."""

    columns: tuple[Name, ...]
    other: Name
    other_columns: tuple[Name, ...]
    within: Reach
    span: Span
    name: Name | None = None


@value
class ClusteredClause:
    """A CLUSTERED BY, on one or more columns."""

    columns: tuple[Name, ...]
    within: Reach
    span: Span


@value
class OrderedClause:
    """An ORDERED BY with a WITHIN."""

    column: Name
    within: Reach
    span: Span


AnyConstraint = ReferenceClause | ClusteredClause | OrderedClause

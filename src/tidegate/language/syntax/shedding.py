"""Written clauses about shedding."""

from __future__ import annotations

from tidegate.errors import Span
from tidegate.language.syntax.expressions import Constant, Expression, Name
from tidegate.values import value


@value
class QueryOption:
    name: Name
    value: Name
    span: Span


@value
class QueryOptions:
    """``WITH (name = value, …)`` after a query or in an alert."""

    given: tuple[QueryOption, ...]
    span: Span


@value
class Worth:
    """``value = utility``; without a value it is the ELSE."""

    value: Constant | None
    utility: Constant
    span: Span


@value
class UtilityClause:
    """``UTILITY BY types WORTH (…) USING AVERAGE``; without WORTH the types are numbers and serve as utilities."""

    types: tuple[Expression, ...]
    worth: tuple[Worth, ...]
    average: bool
    span: Span

"""The context in which a query is bound, and the result of reading a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

from tidegate.algebra.plan import Plan
from tidegate.catalog.catalog import Catalog
from tidegate.errors import TidegateWarning
from tidegate.language import syntax
from tidegate.language.bind.names import Scope
from tidegate.language.syntax import Name
from tidegate.values import value


@value
class BindContext:
    """The streams that a query can read, and those that the text created before or creates later.

    `making` is the stream that the query defines. `outer` are the scopes of the enclosing queries, the nearest first:
    a subquery may read columns of the nearest.
    """

    catalog: Catalog
    made_here: frozenset[str] = frozenset()
    made_later: frozenset[str] = frozenset()
    making: str | None = None
    outer: tuple[Scope, ...] = ()
    warnings: list[TidegateWarning] = field(default_factory=list)
    """Warnings so far; all parts of a text share the list."""

    @property
    def outer_names(self) -> Iterator[str]:
        """The plan's names of the columns of the enclosing queries."""
        return (name for scope in self.outer for visible in scope for name in visible.plan_names)


@value
class BoundSource:
    """The result of FROM, or of a part of it: a plan and the names in it.

    `unwindowed` are the sources whose rows are valid for one instant because they have no window. With `is_lookup`,
    it holds rows to look up, not a stretch of time.
    """

    plan: Plan
    scope: Scope
    unwindowed: tuple[Name, ...] = ()
    is_lookup: bool = False


QueryBinder = Callable[[syntax.Query, BindContext], Plan]

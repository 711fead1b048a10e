"""What a query can read, and what reading gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tidegate.algebra.plan import Plan
from tidegate.catalog.catalog import Catalog
from tidegate.errors import TidegateWarning
from tidegate.language import syntax
from tidegate.language.bind.names import Scope
from tidegate.language.syntax import Name


@dataclass(frozen=True, slots=True)
class BindContext:
    """What a query can read: streams known so far, which of them this text made, and which it makes later.

    `making` is the stream that the query defines; `outer` are the names in the queries around it,
    the nearest first: a subquery may read columns of that one.
    """

    catalog: Catalog
    made_here: frozenset[str] = frozenset()
    made_later: frozenset[str] = frozenset()
    making: str | None = None
    outer: tuple[Scope, ...] = ()
    warnings: list[TidegateWarning] = field(default_factory=list)
    """Collects what is probably not meant; all parts of a text share it."""

    @property
    def outer_names(self) -> Iterator[str]:
        """What plans call the columns of the queries around."""
        return (name for scope in self.outer for visible in scope for name in visible.plan_names)


@dataclass(frozen=True, slots=True)
class Read:
    """What FROM, or a part of it, gives: a plan and the names in it.

    `unwindowed` are its sources whose rows are valid for one instant because they have no window. A
    `is_lookup` holds rows to look up, not a stretch of time.
    """

    plan: Plan
    scope: Scope
    unwindowed: tuple[Name, ...] = ()
    is_lookup: bool = False


QueryBinder = Callable[[syntax.Query, BindContext], Plan]

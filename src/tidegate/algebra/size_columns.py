"""Columns of results that say which sizes were in force: one for each window or granularity of a query that may change.

The quality of a query is a relation over time: at each instant, it has one row with the sizes in force. With
`SET quality_columns = on`, the results of a query are joined with it. So a column is a function of the instant alone,
whatever rows are valid there, and however the results are cut.

A column is known by its place in the text. Rules copy windows: a window over a union becomes a window over each input.
The column then says the worst of their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.algebra.adaptable import is_adaptable
from tidegate.algebra.plan import CountWindow, Granularity, Plan, Scan, Window, walk
from tidegate.errors import Span
from tidegate.schema import Field, Type
from tidegate.values import value

Sized = Window | CountWindow | Granularity


@value
class SizeColumn:
    """A column with the size of a window or granularity: microseconds, or rows of a count window."""

    name: str
    place: Span
    """Where the window or granularity is written, or where the stream is read that has it."""
    node: Sized
    """The window or granularity as it is written."""

    @property
    def best(self) -> int:
        """The size that is in force if nothing else is known."""
        return best_size(self.node)

    @property
    def is_coarse(self) -> bool:
        """Whether larger sizes are worse: they are granules."""
        return isinstance(self.node, Granularity)

    @property
    def field(self) -> Field:
        return Field(self.name, Type.BIGINT)

    def is_of(self, node: Plan) -> bool:
        """Return whether a window or granularity of the optimised plan has been made of the written one."""
        if not isinstance(node, Sized) or not is_adaptable(node):
            return False
        same = (node.span, type(node), best_size(node)) == (self.place, type(self.node), self.best)
        return same and streams_of(node) <= streams_of(self.node)


def best_size(node: Sized) -> int:
    """Return the size that a window or granularity has if nothing limits it."""
    match node:
        case Window(size=int(size)) | CountWindow(rows=int(size)) | Granularity(size=size):
            return size
    raise AssertionError(node)


def adaptable_nodes_in_order(plan: Plan) -> list[Plan]:
    """Return the operators of a plan whose size may change, also if they occur more than once."""
    return [node for node in walk(plan) if is_adaptable(node)]


def same_windows(plan: Plan, other: Plan) -> bool:
    """Return whether two plans have the same windows and granularities at the same places, whatever is below them."""
    return _windows_of(plan) == _windows_of(other)


def _windows_of(plan: Plan) -> Sequence[tuple[object, ...]]:
    nodes = adaptable_nodes_in_order(plan)
    return [(type(node), best_size(node) if isinstance(node, Sized) else 0, streams_of(node)) for node in nodes]


def streams_of(plan: Plan) -> frozenset[str]:
    """Return the names of the streams that a plan reads."""
    return frozenset(each.stream for each in walk(plan) if isinstance(each, Scan))

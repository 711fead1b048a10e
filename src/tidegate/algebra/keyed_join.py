"""Keyed joins of several streams, along edges from many rows to at most one; part of `plan.Plan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

from tidegate.algebra.constraints import DEFAULT_SETTINGS, Constraint, ConstraintSettings, Reach
from tidegate.errors import NOWHERE, Span
from tidegate.schema import Schema, Type
from tidegate.values import value

if TYPE_CHECKING:
    from tidegate.algebra.plan import Plan


@value
class JoinEdge:
    """An edge along which rows of the parent join the row of the child with equal keys; there is at most one, ever.

    Parent and child are positions of inputs. `parent_columns` and `child_columns` are the names of the keys in the
    source streams or, for computed keys, their expressions.
    """

    parent: int
    child: int
    parent_keys: tuple[str, ...]
    child_keys: tuple[str, ...]
    parent_columns: tuple[str, ...] = field(default=(), compare=False)
    child_columns: tuple[str, ...] = field(default=(), compare=False)


class ConstraintKind(Enum):
    """The statement that a constraint makes about an edge."""

    ARRIVING = "arriving"  # a child arrives at most `within` after its parent
    CLUSTERED = "clustered"  # parents of one child are at most `within` apart
    ORDERED_PARENTS = "ordered parents"  # parents arrive in the order of the key
    ORDERED_CHILDREN = "ordered children"  # children arrive in the order of the key


def why_unordered(types: Sequence[Type]) -> str | None:
    """Return why no order of a key with these types can be used; None if one can.

    Examples
    --------
    >>> why_unordered([Type.STRING])
    'only the order of numbers and times can be used'
    """
    if len(types) > 1:
        return "rows are joined by several columns, but only one is ordered"
    if types[0].is_numeric or types[0] in (Type.TIMESTAMP, Type.INTERVAL):
        return None
    return "only the order of numbers and times can be used"


@value
class EdgeConstraint:
    """A constraint on an edge, given by position; `unused` is the reason if the join does not use it.

    `declaration` is the constraint that it follows from; one declaration may apply to several edges.
    """

    edge: int
    kind: ConstraintKind
    within: Reach
    unused: str | None = None
    declaration: Constraint | None = None


@value
class KeyedJoin:
    """Combinations of one row of each input that agree along all edges, valid while all their rows are valid.

    The edges connect all inputs. `streams` are the source streams of the inputs, in the same order; None where an
    input is not the rows of a source stream. Rows of such an input cannot be counted or monitored. `watched` lists,
    as edge and kind, what monitoring may find if the settings ask for it.
    """

    inputs: tuple[Plan, ...]
    edges: tuple[JoinEdge, ...]
    streams: tuple[str | None, ...]
    constraints: tuple[EdgeConstraint, ...] = ()
    watched: tuple[tuple[int, ConstraintKind], ...] = ()
    settings: ConstraintSettings = DEFAULT_SETTINGS
    span: Span = field(default=NOWHERE, compare=False)
    marks: tuple[str | None, ...] = ()
    """For each input, a column that says which rows pass, or None; empty if there are none. Rows that do not pass join
    nothing, but their parents know so.
    """

    @property
    def schema(self) -> Schema:
        return Schema(tuple(f for each in self.inputs for f in each.schema))

    @property
    def used_constraints(self) -> tuple[EdgeConstraint, ...]:
        """The constraints that the join uses."""
        return tuple(each for each in self.constraints if each.unused is None)

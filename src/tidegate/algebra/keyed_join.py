"""Joins of several streams along edges that lead from many rows to at most one; part of `plan.Plan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tidegate.algebra.constraints import DEFAULT_SETTINGS, Constraint, Reach, Settings
from tidegate.errors import NOWHERE, Span
from tidegate.schema import Schema, Type

if TYPE_CHECKING:
    from tidegate.algebra.plan import Plan


@dataclass(frozen=True, slots=True)
class JoinEdge:
    """Rows of the parent join the row of the child that agrees in the keys, pair by pair; there is at most one, ever.

    Parent and child are positions of inputs. The columns are what the keys are called in the source streams; where a
    key is computed, how.
    """

    parent: int
    child: int
    parent_keys: tuple[str, ...]
    child_keys: tuple[str, ...]
    parent_columns: tuple[str, ...] = field(default=(), compare=False)
    child_columns: tuple[str, ...] = field(default=(), compare=False)


class Kind(Enum):
    """What a constraint says of an edge."""

    ARRIVING = "arriving"  # a child arrives at most so far after its parent
    CLUSTERED = "clustered"  # parents of one child are at most so far apart
    ORDERED_PARENTS = "ordered parents"  # parents come in the order of the key
    ORDERED_CHILDREN = "ordered children"  # children come in the order of the key


def why_unordered(types: Sequence[Type]) -> str | None:
    """Why no order of a key of these types is made use of; None if one may be.

    Examples
    --------
    >>> why_unordered([Type.STRING])
    'only the order of numbers and times is made use of'
    """
    if len(types) > 1:
        return "rows are joined by several columns, and the order is that of one"
    if types[0].is_numeric or types[0] in (Type.TIMESTAMP, Type.INTERVAL):
        return None
    return "only the order of numbers and times is made use of"


@dataclass(frozen=True, slots=True)
class EdgeConstraint:
    """A constraint on an edge, by position; `unused` says why it is not made use of, if it is not.

    `declaration` is what it follows from; it may bear on several edges.
    """

    edge: int
    kind: Kind
    within: Reach
    unused: str | None = None
    declaration: Constraint | None = None


@dataclass(frozen=True, slots=True)
class KeyedJoin:
    """Combinations of one row of each input that agree along all edges, valid while all of them are.

    The edges connect all inputs. `streams` are the source streams whose rows the inputs are, in the same order;
    None where an input is something else: then rows cannot be counted, nor anything be found by watching.
    `watched` are what may be found by watching, if the settings ask for it: edge and kind.
    """

    inputs: tuple[Plan, ...]
    edges: tuple[JoinEdge, ...]
    streams: tuple[str | None, ...]
    constraints: tuple[EdgeConstraint, ...] = ()
    watched: tuple[tuple[int, Kind], ...] = ()
    settings: Settings = DEFAULT_SETTINGS
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return Schema(tuple(f for each in self.inputs for f in each.schema))

    @property
    def used(self) -> tuple[EdgeConstraint, ...]:
        """The constraints that are made use of."""
        return tuple(each for each in self.constraints if each.unused is None)

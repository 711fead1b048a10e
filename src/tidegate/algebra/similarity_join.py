"""Joins by likeness, and what of their work may be left out under overload; part of `plan.Plan`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tidegate.errors import NOWHERE, Span
from tidegate.expressions.nodes import TRUE, Expression
from tidegate.schema import Schema

if TYPE_CHECKING:
    from tidegate.algebra.plan import Plan

SECOND = 1_000_000


class Policy(Enum):
    """What a query does that cannot make all comparisons in time."""

    OFF = "off"  # it makes all of them, and takes longer
    ON = "on"  # it makes the most productive ones
    DROP = "drop"  # it takes in some of the rows only, at random: to compare with


@dataclass(frozen=True, slots=True)
class Utility:
    """What results are worth, by the types of the rows that they are made of.

    Each of the types reads columns of one source. `worth` has the utility of each value that a type can
    have, all others have `otherwise`; without any, types are numbers, and are utilities themselves. What a pair
    is worth is the greater of both utilities, or their average. A row without a type is worth `otherwise`.
    """

    types: tuple[Expression, ...]
    worth: tuple[tuple[int | float | str | bool, float], ...] = ()
    otherwise: float = 0.0
    average: bool = False


@dataclass(frozen=True, slots=True)
class Shedding:
    """What may be left out of a query, and when.

    `target` is how long a step may take, in microseconds. A `budget` is a number of comparisons in each step, in
    all buckets together; without one it is found from how long comparisons take. If the query is `approximate`,
    its author accepts values that are computed from the results that were found, such as a COUNT.
    """

    policy: Policy = Policy.OFF
    target: int = SECOND
    budget: int | None = None
    utility: Utility | None = None
    approximate: bool = False
    span: Span = field(default=NOWHERE, compare=False)
    """Where the query itself asks for it; nowhere if SET does."""


NEVER = Shedding()


class Measure(Enum):
    """How two columns are compared."""

    OVERLAP = "overlap"  # arrays, at least so many common elements
    JACCARD = "jaccard"  # arrays, at least this share of common elements
    SUBSET = "subset of"  # arrays
    SUPERSET = "superset of"  # arrays
    PRODUCT = "inner_product"  # maps, at least this sum of products
    DISTANCE = "abs"  # numbers, at most this far apart


@dataclass(frozen=True, slots=True)
class Likeness:
    """What two columns must have in common; `bound` is the least or the most, where the measure has one."""

    measure: Measure
    left: str
    right: str
    bound: int | float = 0


@dataclass(frozen=True, slots=True)
class SimilarityJoin:
    """Pairs that are alike, for which the predicate is true and whose validities overlap, valid in the overlap.

    Without a likeness, the predicate alone decides. Some pairs may be missing if shedding is on. Rows that start
    in the same slot of `width` microseconds are dealt with together.
    """

    left: Plan
    right: Plan
    likeness: Likeness | None
    predicate: Expression = TRUE
    shedding: Shedding = NEVER
    width: int = SECOND
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return self.left.schema + self.right.schema

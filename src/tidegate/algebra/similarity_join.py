"""Similarity joins, and the work that they may shed under overload; part of `plan.Plan`."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

from tidegate.errors import NOWHERE, Span
from tidegate.expressions.nodes import TRUE, Expression
from tidegate.schema import Schema
from tidegate.values import value

if TYPE_CHECKING:
    from tidegate.algebra.plan import Plan

SECOND = 1_000_000


class Policy(Enum):
    """The policy of a query that cannot make all comparisons in time."""

    OFF = "off"  # make all of them, and take longer
    ON = "on"  # make the most productive ones
    DROP = "drop"  # process only a random part of the rows; a baseline for comparison
    SAMPLE = "sample"  # estimate aggregates from a part of the rows of a stream


@value
class Utility:
    """The utility of results, by the types of the rows that they consist of.

    Each of the types reads columns of one source. `by_value` maps values of a type to utilities; all other values have
    the utility `otherwise`. If `by_value` is empty, types are numbers and serve as utilities themselves. The utility of
    a pair is the greater of both utilities, or their average. A row without a type has the utility `otherwise`.
    """

    types: tuple[Expression, ...]
    by_value: tuple[tuple[int | float | str | bool, float], ...] = ()
    otherwise: float = 0.0
    average: bool = False


@value
class Shedding:
    """The work that a query may leave out, and when.

    `target` is the time that a step may take, in microseconds. `budget` is a number of comparisons per step, over all
    buckets together; without one, it is derived from the measured time of comparisons. If the query is `approximate`,
    its author accepts values computed from the results found, such as a COUNT.
    """

    policy: Policy = Policy.OFF
    target: int = SECOND
    budget: int | None = None
    utility: Utility | None = None
    approximate: bool = False
    rate: int | None = None
    """Millionths of the rows that a sample keeps; None: as many as fit in the target time."""
    span: Span = field(default=NOWHERE, compare=False)
    """Position of the clause in the query; nowhere if SET asks for shedding."""


NO_SHEDDING = Shedding()


class Measure(Enum):
    """The way in which two columns are compared."""

    OVERLAP = "overlap"  # arrays, at least this number of common elements
    JACCARD = "jaccard"  # arrays, at least this share of common elements
    SUBSET = "subset of"  # arrays
    SUPERSET = "superset of"  # arrays
    PRODUCT = "inner_product"  # maps, at least this sum of products
    DISTANCE = "abs"  # numbers, at most this far apart


@value
class SimilarityCondition:
    """The similarity required of two columns; `bound` is the minimum or maximum, where the measure has one."""

    measure: Measure
    left: str
    right: str
    bound: int | float = 0


@value
class SimilarityJoin:
    """Similar pairs for which the predicate is true and whose validities overlap, valid in the overlap.

    Without a likeness, the predicate alone decides; if it has equalities between the sides, only rows with equal keys
    are compared. With shedding, some pairs may be missing. Rows that start in the same slot of `width` microseconds are
    processed together.
    """

    left: Plan
    right: Plan
    similarity: SimilarityCondition | None
    predicate: Expression = TRUE
    shedding: Shedding = NO_SHEDDING
    width: int = SECOND
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return self.left.schema + self.right.schema

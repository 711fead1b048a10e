"""What is known of a query that runs, for a better plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from tidegate.values import value


class GroupPosition(Enum):
    """Where a plan groups, if its rows can be grouped above a join or below it."""

    USUAL = "below joins with a side that is unique at every instant"
    ABOVE = "above joins"
    BELOW = "below joins with a side that is unique at every instant, or has a KEY"


class KeyedJoins(Enum):
    """Where joins on keys are keyed joins."""

    USUAL = "where they are expected to keep clearly fewer rows"
    ALWAYS = "wherever they can be"
    NEVER = "nowhere"


@value
class PlanChoices:
    """Choices among plans of the same meaning, each for all operators of a query."""

    grouping: GroupPosition = GroupPosition.USUAL
    keyed_joins: KeyedJoins = KeyedJoins.USUAL
    similarity_joins: bool = True
    """Whether joins on similarity conditions may be similarity joins."""
    covered: bool = True
    """Whether columns and rows may come from an operator of another query that has more of them."""


USUAL_CHOICES = PlanChoices()


@value
class PlanAdvice:
    """Advice for a plan that replaces another one.

    It is recorded with the plan, because the plan must be the same when it is made again.
    """

    replaced: tuple[int, ...] = ()
    """Owners of the subplans that are replaced: the new plan does not use theirs."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Rows that each source has had in the same time."""
    span: int = 0
    """That time, in microseconds of application time; 0 if it is not known."""
    selectivities: Mapping[str, float] = field(default_factory=dict)
    """Measured share of the pairs that satisfy a condition of a join, by the text of the condition."""

    inputs: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Valid rows at an instant of an input of joins, and their length in microseconds, by the name of each column."""

    kept: Mapping[str, float] = field(default_factory=dict)
    """Rows that keyed joins kept when they last ran, as a share of the valid rows, by the text of the join."""

    choices: PlanChoices = USUAL_CHOICES
    """What the cost model chose."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why it chose otherwise than usual, for EXPLAIN, by the name of the choice."""


NO_ADVICE = PlanAdvice()

"""What is known of a query that runs, for a better plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tidegate.values import value


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


NO_ADVICE = PlanAdvice()

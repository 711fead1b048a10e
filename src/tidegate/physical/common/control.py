"""Values by which steered operators are controlled.

A *report* says what one bucket observed in a step. After the step, the driver decides a *directive* from the reports of
all buckets: how the operator runs in the next step. The *control record* of the step has the directive, what the next
decision needs, and what is shown to users. `codec` converts all of them to JSON and back.
"""

from __future__ import annotations

from tidegate.catalog.constraints import ConstraintFinding
from tidegate.values import value


@value
class Directive:
    """Decision on how an operator runs in the next step, the same in all buckets."""


@value
class Report:
    """Observations of an operator in one bucket and step."""


@value
class Losses:
    """Estimated number of missing results, or of missing pairs of rows, with bounds.

    Without a sample there is no estimate, and the upper bound is the most that can be missing.
    """

    estimate: float | None
    low: float
    high: float
    of: str = "results"
    found: float | None = None
    """Estimated number of results or pairs without any constraint, if known."""


@value
class ShedWork:
    """Comparisons made and results found, of all that there are; `missed` estimates the results that were not found.

    `worth` and `worth_missed` are the utility of found and missed results, if they have one. `dropped` counts rows.
    """

    comparisons: int
    volume: int
    found: int
    missed: float
    dropped: int = 0
    worth: float | None = None
    worth_missed: float = 0.0

    @property
    def compared_share(self) -> float:
        """Share of comparisons that were made."""
        return _share(self.comparisons, self.volume)

    @property
    def results_share(self) -> float:
        """Estimated share of results that were found."""
        return _share(self.found, self.found + self.missed)

    @property
    def utility_share(self) -> float | None:
        """Estimated share of the utility of all results, if they have one."""
        return None if self.worth is None else _share(self.worth, self.worth + self.worth_missed)

    def __add__(self, other: ShedWork) -> ShedWork:
        return ShedWork(
            self.comparisons + other.comparisons,
            self.volume + other.volume,
            self.found + other.found,
            self.missed + other.missed,
            self.dropped + other.dropped,
            None if self.worth is None else self.worth + (other.worth or 0.0),
            self.worth_missed + other.worth_missed,
        )


@value
class ShedRecord:
    """Work that a join or an alert shed, in one step and since the beginning."""

    join: str
    policy: str
    step: int
    budget: float | None
    in_step: ShedWork
    overall: ShedWork
    history: tuple[tuple[int, float], ...] = ()
    """Recent changes of the share of comparisons: the step, and the share from there on."""
    query: str = ""


@value
class ControlRecord:
    """Record of what was decided after a step, and why; each feature adds what its next decision needs."""

    directive: Directive
    found: tuple[ConstraintFinding, ...] = ()
    """Findings on constraints, for SHOW CONSTRAINTS."""
    losses: Losses | None = None
    """Results lost because a constraint did not hold; None if none can be missing."""
    shed: tuple[ShedRecord, ...] = ()
    """Work shed, one record for each join or alert that may shed."""


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 1.0

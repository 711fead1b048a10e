"""Keys and constraints on how the rows of streams arrive.

A constraint holds within some reach; one that holds within 0 holds strictly. A reach in time refers to the times of
the rows, so it does not depend on the order of arrival. A reach in rows counts rows as they arrive.
"""

from __future__ import annotations

from enum import Enum

from tidegate.values import value


@value
class Reach:
    """The distance by which rows may deviate, in rows or in microseconds; exactly one is given."""

    rows: int | None = None
    time: int | None = None


@value
class Reference:
    """A matching row of `other` arrives, if ever, before this row or at most `within` after it.

    Rows match if they agree in the columns.
    """

    name: str | None
    columns: tuple[str, ...]
    other: str
    other_columns: tuple[str, ...]
    within: Reach


@value
class Clustered:
    """Rows that agree in the columns arrive at most `within` apart.

    A reach in rows counts the other rows between them; a reach in time starts at the first of them.
    """

    columns: tuple[str, ...]
    within: Reach


@value
class Ordered:
    """Rows that arrive in the wrong order of a column are at most `within` apart."""

    column: str
    within: Reach


Constraint = Reference | Clustered | Ordered


class ConstraintUse(Enum):
    """The constraints that joins use."""

    OFF = "off"
    DECLARED = "declared"
    MONITORED = "monitored"  # declared constraints, and those found by monitoring the streams


@value
class Monitoring:
    """Parameters of the monitoring of streams.

    factor: rows are kept longer than the used reach by this factor, so that a rising adherence is noticed
    sample: share of keys whose rows are kept until their window ends, for the same purpose
    events: number of joins or repetitions to observe before a constraint is used or tightened
    window: number of recent events whose worst adherence counts
    threshold: adherence beyond this number of rows is not used; None: any adherence below the window is used
    """

    factor: float = 1.2
    sample: float = 0.01
    events: int = 50
    window: int = 1000
    threshold: int | None = None


@value
class ConstraintSettings:
    """Settings of a program for the use of constraints.

    If `exact`, a violated constraint loses nothing: rows released because of it stay in cold storage until their
    window ends. Otherwise they are forgotten and results may be missing; the sample gives an estimate of how many.
    """

    use: ConstraintUse = ConstraintUse.DECLARED
    exact: bool = True
    monitoring: Monitoring = Monitoring()


DEFAULT_SETTINGS = ConstraintSettings()

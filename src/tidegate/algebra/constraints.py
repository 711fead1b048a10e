"""What is known of how the rows of streams arrive: keys, and constraints that hold within some reach.

A constraint that holds within 0 holds strictly. Time is that of the rows, so a constraint in time does not
depend on the order of arrival; rows are counted as they arrive.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Reach:
    """How far rows may deviate: in rows, or in microseconds; exactly one is given."""

    rows: int | None = None
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """A row of `other` that agrees in the columns arrives, if ever, at most so far after this one; or before it."""

    name: str | None
    columns: tuple[str, ...]
    other: str
    other_columns: tuple[str, ...]
    within: Reach


@dataclass(frozen=True, slots=True)
class Clustered:
    """Rows that agree in the columns are at most so far apart (in rows: of others; in time: from the first)."""

    columns: tuple[str, ...]
    within: Reach


@dataclass(frozen=True, slots=True)
class Ordered:
    """Rows that arrive in the wrong order of a column are at most so far apart."""

    column: str
    within: Reach


Constraint = Reference | Clustered | Ordered


class Use(Enum):
    """Which constraints joins make use of."""

    OFF = "off"
    DECLARED = "declared"
    MONITORED = "monitored"  # those that are declared, and those that are found by watching the streams


@dataclass(frozen=True, slots=True)
class Monitoring:
    """How streams are watched.

    factor: rows are kept this much longer than is used, to see the adherence rise
    sample: the share of keys that are kept until their window ends, for the same purpose
    events: so many joins or repetitions must have been seen before a constraint is made use of or tightened
    window: over so many events the worst adherence counts
    threshold: adherence beyond this many rows is not made use of; None: any that is less than the window
    """

    factor: float = 1.2
    sample: float = 0.01
    events: int = 50
    window: int = 1000
    threshold: int | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What a program says of the use of constraints.

    If it is exact, nothing is lost when a constraint is violated: what it lets go stays in cold storage until
    its window ends. Else it is forgotten, and results may be missing; how many is estimated from the sample.
    """

    use: Use = Use.DECLARED
    exact: bool = True
    monitoring: Monitoring = Monitoring()


DEFAULT_SETTINGS = Settings()

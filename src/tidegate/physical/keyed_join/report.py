"""Report of a keyed join on one step in one bucket.

Values by stream or by edge are in the order of the join's streams and edges. Constraints are named as in
`monitor.constraint_name`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.physical.common.control import Report
from tidegate.physical.keyed_join.kernels.model import Size


@dataclass(frozen=True, slots=True)
class ArrivalSummary:
    """Elements that arrived in a step, by stream."""

    elements: tuple[int, ...]
    first: tuple[int | None, ...]
    """Least start."""
    last: tuple[int | None, ...]
    """Greatest start."""
    longest: tuple[int, ...]
    """Longest validity."""
    counters: tuple[int, ...]
    """Rows of the stream's source so far."""


@dataclass(frozen=True, slots=True)
class WatchReport:
    """Distances that a watch observed (see `kernels.monitor.Observations`), and the rows that it keeps."""

    events: int
    greatest: int
    histogram: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class LostCounts:
    """Results or pairs of the sample, by group: found without constraints, and how many of these are missing."""

    found: tuple[int, ...]
    missing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LossSample:
    """Counts of the sample: of results if all streams share a key, otherwise of pairs by edge."""

    results: LostCounts | None = None
    pairs: Mapping[int, LostCounts] = field(default_factory=dict)

    @property
    def of(self) -> str:
        """What is counted: results or pairs."""
        return "pairs" if self.results is None else "results"

    @property
    def counts(self) -> tuple[LostCounts, ...]:
        """All counts."""
        return tuple(self.pairs.values()) if self.results is None else (self.results,)


@dataclass(frozen=True, slots=True)
class LossReport:
    """Sample of missing results, and the elements of each stream that would wait without constraints, if known."""

    lost: LossSample
    waiting: tuple[float, ...] | None = None
    kept: int = 0
    """Elements that the sample keeps."""


@dataclass(frozen=True, slots=True)
class KeyedJoinReport(Report):
    """Observations of a keyed join."""

    arrivals: ArrivalSummary
    sizes: tuple[Size, ...]
    """Elements kept, by stream."""
    hits: tuple[int, ...]
    """New parents that can never join, because their child is remembered as No, by edge."""
    watched: Mapping[str, WatchReport] = field(default_factory=dict)
    broken: Mapping[str, int] = field(default_factory=dict)
    """Rows that arrived too late, by constraint."""
    losses: LossReport | None = None
    """In MODE lean, if constraints are or may be used."""
    windows: tuple[int, ...] = ()
    """Rows of each stream's window of rows, or 0; empty if no stream is a window of rows."""
    results: int = 0
    chilled: tuple[int, ...] = ()
    """Elements that became cold, by stream."""
    returned: tuple[int, ...] = ()
    """Cold elements that returned, by stream."""
    repeated: tuple[int, ...] = ()
    """Elements whose key was repeated, by stream."""

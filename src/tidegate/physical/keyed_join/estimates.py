"""Estimate the rows that constraints save, from the reports of buckets.

With rate r and lifetime w, r w rows of a stream are kept without constraints. With a reach d

    a parent that never finds its child waits for d instead of w        arriving, ordered children
    a child is kept for d after its first parent instead of w           clustered, ordered parents

and both for at least one step. This is the saving of a constraint by itself; several may save the same rows. The
share of parents without a child, and of children without a parent, follows from the watches of the edge, or, without a
watch, from the number of rows kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from tidegate.algebra.constraints import Reach
from tidegate.algebra.keyed_join import ConstraintKind
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.model import Size
from tidegate.physical.keyed_join.report import KeyedJoinReport
from tidegate.time import FOREVER

FADING = 0.8
"""Factor by which counts fade with each step: a rate covers about the last five steps."""

ENDING_KINDS = (ConstraintKind.CLUSTERED, ConstraintKind.ORDERED_PARENTS)
"""Kinds that limit how long parents of a child arrive. The others limit how long a parent waits for its child."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Pace of the streams: elements and rows of each, over a time, with validities, sizes and lengths of steps.

    windows: for each stream, the rows of its window of rows, or 0
    stride: the longest of the last steps, in time; row_strides: in rows of each stream
    waiting: the elements of each stream that would wait without constraints, if known
    """

    elements: tuple[float, ...]
    rows: tuple[float, ...]
    counters: tuple[int, ...]
    longest: tuple[int, ...]
    row_strides: tuple[float, ...]
    sizes: tuple[Size, ...]
    time: float = 0.0
    stride: float = 0.0
    now: int | None = None
    began: int | None = None
    waiting: tuple[float, ...] | None = None
    windows: tuple[int, ...] = ()

    @classmethod
    def beginning(cls, streams: int) -> Pace:
        zeros, none = (0.0,) * streams, (0,) * streams
        return cls(zeros, zeros, none, none, zeros, (Size(0, 0, 0, 0),) * streams)

    def rate(self, stream: int) -> float:
        """Return the elements of a stream per microsecond."""
        return self.elements[stream] / self.time if self.time else 0.0

    def row_rate(self, stream: int) -> float:
        """Return the rows of the stream's source per microsecond."""
        return self.rows[stream] / self.time if self.time else 0.0

    def lifetime(self, stream: int) -> int:
        """Return how long elements are valid, at most the time that has passed."""
        passed = (self.now or 0) - (self.began or 0)
        if not self.windows or not self.windows[stream]:
            return min(self.longest[stream], passed)
        rate = self.row_rate(stream)
        return min(int(self.windows[stream] / rate), passed) if rate else passed

    def elements_in_lifetime(self, stream: int) -> float:
        """Return the number of elements that arrive in the lifetime of one."""
        return self.rate(stream) * self.lifetime(stream)


def advance_pace(pace: Pace, reports: Sequence[KeyedJoinReport]) -> Pace:
    """Return the pace after a step, from the reports of all buckets."""
    streams = range(len(pace.elements))
    came = [report.arrivals for report in reports]
    starts = [start for each in came for start in (*each.first, *each.last) if start is not None]
    now = max(starts, default=None) if pace.now is None else max([pace.now, *starts])
    begin = min(starts, default=now) if pace.now is None else pace.now
    passed = 0 if now is None or begin is None else now - begin
    counters = [max(each.counters[s] for each in came) for s in streams]
    more = [max(counters[s] - pace.counters[s], 0) for s in streams]
    elements = [sum(each.elements[s] for each in came) for s in streams]
    return Pace(
        tuple(FADING * pace.elements[s] + elements[s] for s in streams),
        tuple(FADING * pace.rows[s] + more[s] for s in streams),
        tuple(counters),
        tuple(max(pace.longest[s], *(each.longest[s] for each in came)) for s in streams),
        tuple(max(FADING * pace.row_strides[s], float(more[s])) for s in streams),
        tuple(_sum_sizes([report.sizes[s] for report in reports]) for s in streams),
        FADING * pace.time + passed,
        max(FADING * pace.stride, float(passed)),
        now,
        begin if pace.began is None else pace.began,
        _estimate_waiting(reports, len(streams)),
        reports[0].windows if reports else pace.windows,
    )


def _sum_sizes(sizes: Sequence[Size]) -> Size:
    return Size(*(sum(getattr(size, each.name) for size in sizes) for each in fields(Size)))


def _estimate_waiting(reports: Sequence[KeyedJoinReport], streams: int) -> tuple[float, ...] | None:
    """Return the waiting elements that a sample estimates, or None without a sample."""
    known = [report.losses.waiting for report in reports if report.losses and report.losses.waiting is not None]
    if len(known) < len(reports):
        return None
    return tuple(sum(waiting[s] for waiting in known) for s in range(streams))


def counted_stream(graph: Graph, edge: int, kind: ConstraintKind) -> int:
    """Return the stream whose rows the distances of a kind count."""
    parents = kind in (ConstraintKind.CLUSTERED, ConstraintKind.ORDERED_PARENTS)
    return graph.edges[edge].parent if parents else graph.edges[edge].child


def reach_duration(reach: Reach, pace: Pace, stream: int) -> float:
    """Return the duration of a reach, at the pace of a stream."""
    times = [] if reach.time is None else [float(reach.time)]
    if reach.rows is not None:
        rate = pace.row_rate(stream)
        times.append(reach.rows / rate if rate else float(FOREVER))
    return min(times, default=float(FOREVER))


def greatest_distance(graph: Graph, edge: int, kind: ConstraintKind, pace: Pace) -> int:
    """Return the greatest distance, in time, of elements in one result, as far as validities are known."""
    parent, child = (pace.longest[stream] for stream in graph.edges[edge])
    if not parent or (kind in ENDING_KINDS and not child):
        return FOREVER
    return parent + child if kind in ENDING_KINDS else parent - 1


@dataclass(frozen=True, slots=True)
class Partners:
    """Parents that arrived at an edge, those that joined a child, and those that repeated a key."""

    parents: float = 0.0
    joined: float | None = None
    repeated: float | None = None

    def share_without_child(self, pace: Pace, stream: int, waits: float) -> float:
        """Return the share of parents that never find their child. They are kept as long as they wait."""
        if self.joined is not None and self.parents:
            return min(max(1 - self.joined / self.parents, 0.0), 1.0)
        kept = pace.sizes[stream]
        waiting = kept.unknown + kept.cold if pace.waiting is None else pace.waiting[stream]
        arrived = pace.elements_in_lifetime(stream) if pace.waiting else pace.rate(stream) * waits
        return min(waiting / arrived, 1.0) if arrived else 0.0

    def share_with_parents(self, pace: Pace, child: int) -> float:
        """Return the share of children that have parents."""
        if self.repeated is None or not pace.elements[child]:
            return 1.0
        return min(max((self.parents - self.repeated) / pace.elements[child], 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class SavingEstimate:
    """Rows of a stream that are kept without a constraint, and how many fewer with it."""

    stream: int
    without: float
    rows: float


def estimate_saving(
    graph: Graph,
    edge: int,
    kind: ConstraintKind,
    reach: Reach,
    pace: Pace,
    partners: Partners,
    *,
    forgotten: bool = False,
) -> SavingEstimate:
    """Return the saving of a constraint, in use or not. `forgotten`: rows that it removes are no longer stored."""
    parent, child = graph.edges[edge]
    stream = child if kind in ENDING_KINDS else parent
    long = max(reach_duration(reach, pace, counted_stream(graph, edge, kind)), pace.stride)
    lifetime = pace.lifetime(stream)
    match kind:
        case ConstraintKind.ORDERED_PARENTS:
            share = 1.0
        case ConstraintKind.CLUSTERED:
            share = partners.share_with_parents(pace, child)
        case _:
            share = partners.share_without_child(pace, parent, min(long, lifetime) if forgotten else lifetime)
    rows = share * pace.rate(stream) * max(lifetime - long, 0.0)
    return SavingEstimate(stream, share * pace.elements_in_lifetime(stream), rows)

"""What constraints save: how many rows are not kept because of them, estimated from what buckets report.

With rate r and lifetime w, r w rows of a stream are kept without constraints. With a reach d

    a parent that never finds its child waits for d instead of w        arriving, ordered children
    a child is kept for d after its first parent instead of w           clustered, ordered parents

and both for no less than a step. That is what a constraint saves by itself; several may save the same rows. Parents
that find no child, and children that have no parent, are known from what is watched of the edge; where nothing is,
from how many are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.algebra.constraints import Reach
from tidegate.algebra.keyed_join import Kind
from tidegate.physical.common.operator import Facts
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.time import FOREVER

FADING = 0.8
"""What was counted counts so much less with each step: a rate is that of about the last five steps."""

ENDINGS = (Kind.CLUSTERED, Kind.ORDERED_PARENTS)
"""Kinds that say when no more parents of a child come; the others say when a child does not come any more."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How streams go on: of each, elements and rows counted, over a time; validities, sizes, and lengths of steps.

    windows: of how many rows windows are, where they are windows of rows, else 0
    stride: the longest of the last steps, in time; row_strides: in rows of each stream
    waiting: how many elements of each stream would be waiting without constraints, if that is known
    """

    elements: tuple[float, ...]
    rows: tuple[float, ...]
    counters: tuple[int, ...]
    longest: tuple[int, ...]
    row_strides: tuple[float, ...]
    sizes: tuple[tuple[int, ...], ...]
    time: float = 0.0
    stride: float = 0.0
    now: int | None = None
    began: int | None = None
    waiting: tuple[float, ...] | None = None
    windows: tuple[int, ...] = ()

    @classmethod
    def beginning(cls, streams: int) -> Pace:
        zeros, none = (0.0,) * streams, (0,) * streams
        return cls(zeros, zeros, none, none, zeros, ((0, 0, 0, 0),) * streams)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Pace:
        lists = {name: tuple(values) for name, values in told.items() if isinstance(values, list | tuple)}
        lists["sizes"] = tuple(tuple(size) for size in told["sizes"])
        return cls(**{**told, **lists})

    def rate(self, stream: int) -> float:
        """Elements of a stream in a microsecond."""
        return self.elements[stream] / self.time if self.time else 0.0

    def row_rate(self, stream: int) -> float:
        """Rows of its source in a microsecond."""
        return self.rows[stream] / self.time if self.time else 0.0

    def lifetime(self, stream: int) -> int:
        """How long elements are valid, as far as time has gone on."""
        passed = (self.now or 0) - (self.began or 0)
        if not self.windows or not self.windows[stream]:
            return min(self.longest[stream], passed)
        rate = self.row_rate(stream)
        return min(int(self.windows[stream] / rate), passed) if rate else passed

    def filled(self, stream: int) -> float:
        """How many elements there are in the lifetime of one."""
        return self.rate(stream) * self.lifetime(stream)


def go_on(pace: Pace, reports: Sequence[Facts]) -> Pace:
    """The pace after a step, from the reports of all buckets."""
    streams = range(len(pace.elements))
    starts = [each for report in reports for name in ("first", "last") for each in report[name] if each is not None]
    now = max(starts, default=None) if pace.now is None else max([pace.now, *starts])
    begin = min(starts, default=now) if pace.now is None else pace.now
    passed = 0 if now is None or begin is None else now - begin
    counters = [max(report["counters"][s] for report in reports) for s in streams]
    more = [max(counters[s] - pace.counters[s], 0) for s in streams]
    elements = [sum(report["elements"][s] for report in reports) for s in streams]
    return Pace(
        tuple(FADING * pace.elements[s] + elements[s] for s in streams),
        tuple(FADING * pace.rows[s] + more[s] for s in streams),
        tuple(counters),
        tuple(max(pace.longest[s], *(report["longest"][s] for report in reports)) for s in streams),
        tuple(max(FADING * pace.row_strides[s], float(more[s])) for s in streams),
        tuple(tuple(sum(r["sizes"][s][i] for r in reports) for i in range(4)) for s in streams),
        FADING * pace.time + passed,
        max(FADING * pace.stride, float(passed)),
        now,
        begin if pace.began is None else pace.began,
        _waiting(reports, len(streams)),
        tuple(reports[0].get("windows", ())) if reports else pace.windows,
    )


def _waiting(reports: Sequence[Facts], streams: int) -> tuple[float, ...] | None:
    """What a sample says of that."""
    if all("waiting" in report for report in reports):
        return tuple(sum(report["waiting"][s] for report in reports) for s in range(streams))
    return None


def counted(graph: Graph, edge: int, kind: Kind) -> int:
    """The stream whose rows the distances of a kind count."""
    parents = kind in (Kind.CLUSTERED, Kind.ORDERED_PARENTS)
    return graph.edges[edge].parent if parents else graph.edges[edge].child


def duration(reach: Reach, pace: Pace, stream: int) -> float:
    """How long a reach is, in time, if a stream goes on at its pace."""
    times = [] if reach.time is None else [float(reach.time)]
    if reach.rows is not None:
        rate = pace.row_rate(stream)
        times.append(reach.rows / rate if rate else float(FOREVER))
    return min(times, default=float(FOREVER))


def farthest(graph: Graph, edge: int, kind: Kind, pace: Pace) -> int:
    """Up to which distance, in time, elements may be in one result, as far as validities are known."""
    parent, child = (pace.longest[stream] for stream in graph.edges[edge])
    if not parent or (kind in ENDINGS and not child):
        return FOREVER
    return parent + child if kind in ENDINGS else parent - 1


@dataclass(frozen=True, slots=True)
class Partners:
    """Of parents that arrived at an edge, how many joined a child; and how many had the key of one before them."""

    parents: float = 0.0
    joined: float | None = None
    repeated: float | None = None

    def lonely(self, pace: Pace, stream: int, waits: float) -> float:
        """The share of parents that never find their child; they are kept for as long as they wait."""
        if self.joined is not None and self.parents:
            return min(max(1 - self.joined / self.parents, 0.0), 1.0)
        _, unknown, _, cold = pace.sizes[stream]
        waiting = unknown + cold if pace.waiting is None else pace.waiting[stream]
        arrived = pace.filled(stream) if pace.waiting else pace.rate(stream) * waits
        return min(waiting / arrived, 1.0) if arrived else 0.0

    def attended(self, pace: Pace, child: int) -> float:
        """The share of children that have parents."""
        if self.repeated is None or not pace.elements[child]:
            return 1.0
        return min(max((self.parents - self.repeated) / pace.elements[child], 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Saving:
    """Of a stream, how many rows are kept without a constraint, and how many fewer with it."""

    stream: int
    without: float
    rows: float


def saving(
    graph: Graph, edge: int, kind: Kind, reach: Reach, pace: Pace, partners: Partners, *, forgotten: bool = False
) -> Saving:
    """What a constraint saves, or would save; `forgotten` says that what it lets go is not there any more."""
    parent, child = graph.edges[edge]
    stream = child if kind in ENDINGS else parent
    long = max(duration(reach, pace, counted(graph, edge, kind)), pace.stride)
    lifetime = pace.lifetime(stream)
    match kind:
        case Kind.ORDERED_PARENTS:
            share = 1.0
        case Kind.CLUSTERED:
            share = partners.attended(pace, child)
        case _:
            share = partners.lonely(pace, parent, min(long, lifetime) if forgotten else lifetime)
    rows = share * pace.rate(stream) * max(lifetime - long, 0.0)
    return Saving(stream, share * pace.filled(stream), rows)

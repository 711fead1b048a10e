"""Decide whether a constraint is used, by its savings and costs, and give the reason if not.

Declared constraints are used. Monitored constraints must be known, allowed, and worthwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse, Reach
from tidegate.algebra.explain_keyed_join import reach_text
from tidegate.algebra.keyed_join import ConstraintKind, EdgeConstraint, JoinEdge
from tidegate.catalog.constraints import (
    USED,
    ConstraintFinding,
    declaration_identity,
    describe_bare_constraint,
    describe_saved_rows,
)
from tidegate.physical.keyed_join import constraint_text
from tidegate.physical.keyed_join.distances import STEPS, DistanceTracker, distance_to_keep
from tidegate.physical.keyed_join.estimates import (
    ENDING_KINDS,
    Pace,
    Partners,
    SavingEstimate,
    counted_stream,
    estimate_saving,
)
from tidegate.physical.keyed_join.kernels.graph import Edge, Graph
from tidegate.physical.keyed_join.monitor import Watch, constraint_name
from tidegate.time import FOREVER

LEAST_SAVED_SHARE = 0.05
"""Share of the bytes kept for all streams that a monitored constraint must save to be used. Estimates are no more
precise, and a constraint that comes into and out of use costs more than it saves.
"""

LEAST_SHARE_IN_USE = 0.01
"""Share of these bytes that a constraint in use must save to stay in use."""

CLUSTER_BYTES = 24
"""Bytes that a child needs to count its parents, if clusters are used: three numbers."""

FILTER_BYTES = 1
"""Bytes in memory for each key of a cold row: six bits of a digest, and spare room."""


@dataclass(frozen=True)
class ConstraintChoice:
    """Options of a decision.

    `declared` are the constraints of the plan. `watches` has at most one watch for each edge and kind. `row_bytes` is
    the size of an element of each stream. `unbounded` are the streams whose elements never end.
    """

    edges: tuple[JoinEdge, ...]
    streams: tuple[str | None, ...]
    declared: tuple[EdgeConstraint, ...]
    watches: tuple[Watch, ...]
    settings: ConstraintSettings
    row_bytes: tuple[int, ...]
    unbounded: tuple[int, ...] = ()

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.names, tuple(Edge(edge.parent, edge.child) for edge in self.edges))

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(name or f"input {i + 1}" for i, name in enumerate(self.streams))


@dataclass(frozen=True, slots=True)
class Candidate:
    """Constraint that is declared, watched, or both, and its observations.

    A declared constraint that cannot be used is a candidate of its own: the watch may concern other columns, or find a
    smaller distance.
    """

    edge: int
    kind: ConstraintKind
    declared: EdgeConstraint | None = None
    watch: Watch | None = None
    tracker: DistanceTracker = field(default_factory=DistanceTracker)

    @property
    def name(self) -> str:
        return constraint_name(self.edge, self.kind)

    @property
    def has_reach(self) -> bool:
        """Return whether there is a reach that could be used."""
        return (self.declared is not None and self.declared.unused is None) or self.tracker.used is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintVerdict(ConstraintFinding):
    """Finding on a constraint of one edge, for users and for the decision."""

    name: str
    """Edge and kind (`monitor.constraint_name`)."""
    is_declared: bool
    reach: Reach | None
    """Reach in force; None if the constraint is not used."""
    worst: int
    """Greatest distance seen lately."""
    why: str | None
    """Reason why the constraint is not used."""


def list_candidates(choice: ConstraintChoice, trackers: Mapping[str, DistanceTracker]) -> list[Candidate]:
    """Return all constraints, declared ones first. Several of one kind may be declared."""
    watched = {watch.name: watch for watch in choice.watches}
    names = {constraint_name(each.edge, each.kind) for each in choice.declared if each.unused is None}
    declared = [_declared_candidate(each, watched, trackers) for each in choice.declared]
    more = [watch for watch in choice.watches if watch.name not in names]
    return declared + [Candidate(watch.edge, watch.kind, None, watch, trackers[watch.name]) for watch in more]


def _declared_candidate(
    each: EdgeConstraint, watched: Mapping[str, Watch], trackers: Mapping[str, DistanceTracker]
) -> Candidate:
    name = constraint_name(each.edge, each.kind)
    if each.unused is not None:
        return Candidate(each.edge, each.kind, each)
    return Candidate(each.edge, each.kind, each, watched.get(name), trackers.get(name, DistanceTracker()))


def judge_candidate(
    each: Candidate, choice: ConstraintChoice, pace: Pace, partners: Partners, known: Collection[str], *, before: bool
) -> ConstraintVerdict:
    """Return the verdict on a constraint.

    `known` are the names of all constraints that could be used. `before` says whether this one was in use.
    """
    reach = _usable_reach(each, choice, pace)
    forgotten = before and not choice.settings.exact
    saved = estimate_saving(choice.graph, each.edge, each.kind, reach, pace, partners, forgotten=forgotten)
    why = _why_unused(each, choice, pace, saved, known, before=before)
    return _make_verdict(each, choice, reach, round(saved.rows) if each.has_reach else 0, why)


def _make_verdict(
    each: Candidate, choice: ConstraintChoice, reach: Reach, rows: int, why: str | None
) -> ConstraintVerdict:
    edge, tracker = choice.edges[each.edge], each.tracker
    in_rows = each.watch is not None and each.watch.in_rows
    far = reach.rows if in_rows else reach.time
    found = "" if far is None else constraint_text.format_distance(far, in_rows=in_rows)
    declaration = each.declared.declaration if each.declared else None
    return ConstraintVerdict(
        stream=choice.names[constraint_text.declaring_stream(edge, each.kind)],
        constraint=describe_bare_constraint(declaration)
        if declaration
        else constraint_text.describe_constraint(edge, each.kind, choice.names),
        declaration=declaration_identity(declaration) if declaration else "",
        within=reach_text(each.declared.within) if each.declared else found,
        in_use=USED if why is None else f"no: {why}",
        used="" if tracker.used is None else constraint_text.format_distance(tracker.used, in_rows=in_rows),
        history=", ".join(constraint_text.describe_history(tracker.changes, in_rows=in_rows)),
        saves=describe_saved_rows(rows, is_used=why is None) if each.has_reach else "",
        rows=rows,
        distance=tracker.used or 0,
        name=each.name,
        is_declared=each.declared is not None,
        reach=reach if why is None else None,
        worst=tracker.worst,
        why=why,
    )


def _usable_reach(each: Candidate, choice: ConstraintChoice, pace: Pace) -> Reach:
    """Return the declared reach, the monitored one with its margin, or, if both are known, the smaller."""
    declared = each.declared.within if each.declared and each.declared.unused is None else Reach()
    found, settings = Reach(), choice.settings
    if each.watch and each.tracker.used is not None and (settings.use is ConstraintUse.MONITORED or not each.declared):
        stride = (
            pace.row_strides[counted_stream(choice.graph, each.edge, each.kind)] if each.watch.in_rows else pace.stride
        )
        used, risen = each.tracker.used, each.tracker.has_risen
        far = min(distance_to_keep(used, int(stride), settings.monitoring, risen=risen), FOREVER)
        found = Reach(rows=far) if each.watch.in_rows else Reach(time=far)
    return Reach(lesser(declared.rows, found.rows), lesser(declared.time, found.time))


def lesser(one: int | None, other: int | None) -> int | None:
    """Return the smaller of two reaches, each of which may be unknown."""
    return min((each for each in (one, other) if each is not None), default=None)


def _why_unused(
    each: Candidate,
    choice: ConstraintChoice,
    pace: Pace,
    saved: SavingEstimate,
    known: Collection[str],
    *,
    before: bool,
) -> str | None:
    """Return the reason why a constraint is not used, or None if it is."""
    settings = choice.settings
    if each.declared is not None:
        return "constraints are off" if settings.use is ConstraintUse.OFF else each.declared.unused
    if settings.use is not ConstraintUse.MONITORED:
        return "it is not declared, and SET constraints = monitored is not given"
    if each.tracker.used is None:
        return _why_unknown(each, settings)
    rows = _distance_in_rows(each, choice, pace)
    if settings.monitoring.threshold is not None and rows > settings.monitoring.threshold:
        return f"it holds within {rows:.0f} rows, more than monitor_threshold = {settings.monitoring.threshold}"
    alone = each.kind not in ENDING_KINDS or _is_covered(choice.graph, choice.edges[each.edge].child, known)
    if not alone:
        return f"rows of {choice.names[saved.stream]} must be kept for other streams, about which less is known"
    all_bytes = _kept_bytes(choice, pace) + saved.rows * choice.row_bytes[saved.stream]
    part = _net_bytes(each, choice, saved) / all_bytes if all_bytes else 0.0
    if part < (LEAST_SHARE_IN_USE if before else LEAST_SAVED_SHARE):
        return f"it would save {saved.rows:.0f} rows of {choice.names[saved.stream]}, too few for its cost"
    return None


def _why_unknown(each: Candidate, settings: ConstraintSettings) -> str:
    if each.tracker.is_exceeded:
        return "it was exceeded, and is being watched again"
    in_rows = each.watch is not None and each.watch.in_rows
    missing = _missing_observations(each.tracker, settings.monitoring.events, in_rows=in_rows)
    return f"not enough is known yet: {', '.join(missing)}"


def _missing_observations(followed: DistanceTracker, events: int, *, in_rows: bool) -> Iterator[str]:
    """Yield the observations still missing before a distance can be used."""
    if followed.events < max(events, 1):
        yield f"{followed.events} events of {max(events, 1)}"
    if followed.steps < STEPS:
        yield f"seen in {followed.steps} step{'' if followed.steps == 1 else 's'} of {STEPS}"
    if followed.span < 2 * followed.worst:
        so_far, needed = (
            constraint_text.format_distance(each, in_rows=in_rows) for each in (followed.span, 2 * followed.worst)
        )
        yield f"watched over {so_far} of {needed}, twice the farthest"


def _distance_in_rows(each: Candidate, choice: ConstraintChoice, pace: Pace) -> float:
    """Return the distance in use, in rows."""
    used = each.tracker.used or 0
    if each.watch and each.watch.in_rows:
        return used
    return used * pace.row_rate(counted_stream(choice.graph, each.edge, each.kind))


def _is_covered(graph: Graph, child: int, known: Collection[str]) -> bool:
    """Return whether the end of one parent in each group of sources is known.

    Only then no later result can have the child.
    """

    def has_known_end(edge: int) -> bool:
        return any(constraint_name(edge, kind) in known for kind in ENDING_KINDS)

    above = graph.above[child]
    return all(any(graph.edges[e].parent in group and has_known_end(e) for e in above) for group in graph.sources)


def _kept_bytes(choice: ConstraintChoice, pace: Pace) -> int:
    """Return the bytes of all streams kept now, except cold elements."""
    rows = (size.yes + size.unknown for size in pace.sizes)
    return sum(count * size for count, size in zip(rows, choice.row_bytes, strict=True))


def _net_bytes(each: Candidate, choice: ConstraintChoice, saved: SavingEstimate) -> float:
    """Return the bytes saved, minus the bytes needed for that."""
    graph, row = choice.graph, choice.row_bytes[saved.stream]
    keys = len(graph.above[saved.stream]) + len(graph.below[saved.stream])
    cold = FILTER_BYTES * keys if choice.settings.exact else 0
    marks = CLUSTER_BYTES * (saved.without - saved.rows) if each.kind is ConstraintKind.CLUSTERED else 0
    return saved.rows * (row - cold) - marks

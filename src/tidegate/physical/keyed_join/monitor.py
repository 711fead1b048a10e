"""Observe how well streams satisfy constraints, in one bucket and one step.

In each step the operator runs these calls in order; `batch` and `moment` are those of the join:

    parts, watched = watch_elements(watches, directive, parts, graph, batch, moment)
    hits = count_hits_on_no(join, batch)                              # before the join's own step
    answer = join.step(batch, moment, constraints)
    if MODE lean, and some constraint is or may be used:              # after the join's own step
        lost = losses.observe_losses(sample, join, batch, moment, constraints, common, edges, keys)
    report = KeyedJoinReport(summarize_arrivals(graph, batch, moment), join.sizes(), hits, watched, …)

`watches` has one `Watch` for each edge and kind. `directive` is the last decision of the driver (`control.decide`).
Parts are named arrays, `NO_PARTS` at first. They are kept as state and passed to the next step. A part that has not
changed is the same object.

Codes of keys must depend on values alone: a hash of the code decides whether a key is watched, so that all buckets
that see a key agree. Elements that do not pass are not watched.

Distances are those of `kernels/monitor.py`. In time, they depend neither on the cut into steps nor on the order of
arrival. In rows, all elements of a step count as the last one, so a distance is never less than what a join must keep
between steps. For keys, the reports of buckets are added up, and the sum is the same for any number of buckets. For
the order of a key, a bucket compares with the greatest value that it has seen, as its join does. So it reports the
distance that it needs, which is never more than that of the whole stream.

Size: keys and places, 16 bytes for each element that may still find a partner, up to the distance in the directive;
for a share of keys, up to their validity. If all buckets together have more than `control.MOST_WATCHED_ROWS` rows,
fewer keys are watched. For the order of a key, at most `_CELLS` steps, and the arrivals that the watermark has not
passed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.algebra.keyed_join import ConstraintKind
from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.kernels.hashing import Hashes, hash_columns, read_only
from tidegate.physical.keyed_join.directive import KeyedJoinDirective
from tidegate.physical.keyed_join.kernels import monitor
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import NEVER, NO, Moment, StreamArrivals
from tidegate.physical.keyed_join.kernels.monitor import Limits, Observations, filter_rows
from tidegate.physical.keyed_join.kernels.monitor_clusters import ClustersSeen, observe_clusters
from tidegate.physical.keyed_join.kernels.monitor_joins import JoinsSeen, observe_joins
from tidegate.physical.keyed_join.kernels.monitor_orders import OrderedArrivals, OrdersSeen, observe_orders
from tidegate.physical.keyed_join.report import ArrivalSummary, WatchReport

Parts = Mapping[str, Columns]
"""State as named parts."""

NO_PARTS: Parts = {}

_CELLS = 1024
"""Cells in the distance kept for the order of a key. One step is kept for each."""

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Watch:
    """Edge, by number, and kind of constraint to watch, and the unit."""

    edge: int
    kind: ConstraintKind
    in_rows: bool = False

    @property
    def name(self) -> str:
        """Return its name in reports and directives: the number of the edge, and the kind."""
        return constraint_name(self.edge, self.kind)


def constraint_name(edge: int, kind: ConstraintKind) -> str:
    """Return the name of a kind of constraint on an edge in reports and directives.

    Examples
    --------
    >>> constraint_name(2, ConstraintKind.ORDERED_PARENTS)
    '2/ordered_parents'
    """
    return f"{edge}/{kind.name.lower()}"


def watch_elements(
    watches: Sequence[Watch],
    directive: KeyedJoinDirective | None,
    parts: Parts,
    graph: Graph,
    batch: Mapping[int, StreamArrivals],
    moment: Moment,
) -> tuple[Parts, dict[str, WatchReport]]:
    """Watch the elements of a step; return the state of the watches, and their reports by name."""
    passing = {stream: _passing_elements(arrivals) for stream, arrivals in batch.items()}
    after: dict[str, Columns] = {}
    reports: dict[str, WatchReport] = {}
    for each in watches:
        limits, share = limits_of_watch(directive, each.name)
        own = {name: part for name, part in parts.items() if name.startswith(f"watch.{each.name}.")}
        view = _WatchView(each, graph, passing, moment)
        observe = _OBSERVERS[each.kind]
        columns, observed = observe(view, _shorten_names(own), limits, share)
        after |= {f"watch.{each.name}.{name}": part for name, part in columns.items()}
        reports[each.name] = _report_watch(observed, columns)
    return after, reports


def limits_of_watch(directive: KeyedJoinDirective | None, name: str) -> tuple[Limits, float]:
    """Return the distances to watch, and the share of keys. Before the first decision, everything is watched."""
    decided = directive.watch.get(name) if directive else None
    if decided is None:
        return Limits(), 1.0
    return Limits(decided.kept, decided.sampled, decided.sample), decided.keys


def count_hits_on_no(join: SynopsisJoin, batch: Mapping[int, StreamArrivals]) -> tuple[int, ...]:
    """Return for each edge how many new parents can never join, because their child is remembered as No."""
    hits = [0] * len(join.graph.edges)
    for number, edge in enumerate(join.graph.edges):
        table = join.tables[edge.child]
        if edge.parent in batch and len(batch[edge.parent]) and table.count:
            never = table[f"key{number}"][table["component"] == NO]
            if len(never):
                hits[number] = int(np.isin(_passing_elements(batch[edge.parent]).keys[number], never).sum())
    return tuple(hits)


@dataclass(frozen=True, slots=True, eq=False)
class _WatchView:
    """Elements of a step in the two streams of an edge, on the axis of one watch."""

    watch: Watch
    graph: Graph
    batch: Mapping[int, StreamArrivals]
    moment: Moment

    @property
    def _counters(self) -> Sequence[int]:
        """Return the number of arrivals, for clusters only those in this bucket, as other keys are counted there."""
        met = self.moment.bucket_counters if self.watch.kind is ConstraintKind.CLUSTERED else None
        return met or self.moment.counters

    def keys(self, stream: int) -> Ints:
        return self.batch[stream].keys[self.watch.edge] if stream in self.batch else _NONE

    def places(self, stream: int, counted: int) -> Ints:
        """Return times, or for all elements the arrivals of the stream `counted`."""
        if stream not in self.batch:
            return _NONE
        if self.watch.in_rows:
            return np.full(len(self.batch[stream]), self._counters[counted], np.int64)
        return self.batch[stream].start

    def watermark(self, stream: int, counted: int) -> int:
        """Return the least place of later arrivals."""
        if self.watch.in_rows:
            return self._counters[counted] + (stream == counted)
        return self.moment.watermarks[stream]

    def watched_arrivals(self, stream: int, counted: int, share: float) -> monitor.WatchedArrivals:
        """Return the elements whose keys are watched."""
        key, at = hash_columns([pa.array(self.keys(stream))]), self.places(stream, counted)
        if share < 1:
            some = _is_watched(key, share)
            key, at = key[some], at[some]
        return monitor.WatchedArrivals(key, at, self.watermark(stream, counted))


_Observer = Callable[[_WatchView, Parts, Limits, float], tuple[Parts, Observations]]


def _observe_arriving(view: _WatchView, parts: Parts, limits: Limits, share: float) -> tuple[Parts, Observations]:
    edge = view.graph.edges[view.watch.edge]
    parents, children = (view.watched_arrivals(stream, edge.child, share) for stream in edge)
    before = JoinsSeen.from_columns(_thin_parts(parts, share)) if parts else JoinsSeen()
    seen, observed = observe_joins(before, parents, children, limits)
    return seen.to_columns(), observed


def _observe_clustered(view: _WatchView, parts: Parts, limits: Limits, share: float) -> tuple[Parts, Observations]:
    parent = view.graph.edges[view.watch.edge].parent
    before = ClustersSeen.from_columns(_thin_parts(parts, share)) if parts else ClustersSeen()
    new = view.watched_arrivals(parent, parent, share)
    seen, observed = observe_clusters(before, new, limits, in_rows=view.watch.in_rows)
    return seen.to_columns(), observed


def _observe_ordered(view: _WatchView, parts: Parts, limits: Limits, _share: float) -> tuple[Parts, Observations]:
    edge = view.graph.edges[view.watch.edge]
    stream = edge.parent if view.watch.kind is ConstraintKind.ORDERED_PARENTS else edge.child
    before = OrdersSeen.from_columns(parts) if parts else OrdersSeen()
    new = OrderedArrivals(view.keys(stream), view.places(stream, stream), view.watermark(stream, stream))
    seen, observed = observe_orders(before, new, limits)
    return {**seen.to_columns(), "steps": _merge_cells(seen.steps, limits)}, observed


_OBSERVERS: Mapping[ConstraintKind, _Observer] = {
    ConstraintKind.ARRIVING: _observe_arriving,
    ConstraintKind.CLUSTERED: _observe_clustered,
    ConstraintKind.ORDERED_PARENTS: _observe_ordered,
    ConstraintKind.ORDERED_CHILDREN: _observe_ordered,
}


def _merge_cells(steps: Columns, limits: Limits) -> Columns:
    """Merge the steps in each cell into one, with the first place and the last value, so that no distance shrinks."""
    if len(steps["at"]) <= _CELLS:
        return steps
    spread = int(steps["at"][-1]) - int(steps["at"][0])
    cell = steps["at"] // max(min(limits.kept, spread) // _CELLS, 1)
    first = np.concatenate([[True], cell[1:] != cell[:-1]])
    last = np.concatenate([first[1:], [True]])
    return {"value": read_only(steps["value"][last]), "at": read_only(steps["at"][first])}


def _thin_parts(parts: Parts, share: float) -> Parts:
    """Return the rows whose keys are watched."""
    if share >= 1:
        return parts
    return {name: filter_rows(part, _is_watched(part["key"], share)) for name, part in parts.items()}


def _is_watched(key: Hashes, share: float) -> Mask:
    return monitor.is_in_sample(key, Limits(share=share))


def _shorten_names(parts: Parts) -> Parts:
    return {name.rsplit(".", 1)[1]: part for name, part in parts.items()}


def _report_watch(observed: Observations, parts: Parts) -> WatchReport:
    size = sum(len(part["at"]) for part in parts.values())
    return WatchReport(observed.events, observed.greatest, observed.histogram, size)


def _passing_elements(arrivals: StreamArrivals) -> StreamArrivals:
    if arrivals.passes is None or arrivals.passes.all():
        return arrivals
    some = arrivals.passes
    columns = (arrivals.start[some], arrivals.end[some], arrivals.number[some], arrivals.row[some])
    return StreamArrivals({edge: key[some] for edge, key in arrivals.keys.items()}, *columns)


def summarize_arrivals(graph: Graph, batch: Mapping[int, StreamArrivals], moment: Moment) -> ArrivalSummary:
    """Return for each stream: passing elements, first and last start, longest validity, and all rows so far."""
    streams = [batch.get(stream) for stream in range(len(graph))]
    some = [each if each is not None and len(each) else None for each in streams]
    return ArrivalSummary(
        elements=tuple(0 if each is None else len(_passing_elements(each)) for each in some),
        first=tuple(None if each is None else int(each.start.min()) for each in some),
        last=tuple(None if each is None else int(each.start.max()) for each in some),
        longest=tuple(0 if each is None else _longest_validity(each) for each in some),
        counters=tuple(moment.counters),
    )


def _longest_validity(arrivals: StreamArrivals) -> int:
    return NEVER if (arrivals.end >= NEVER).any() else int((arrivals.end - arrivals.start).max())

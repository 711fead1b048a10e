"""How well streams keep to constraints, as one bucket sees it in a step.

What the operator does in each step, in this order; `batch` and `moment` are those that it gives to the join:

    watched, seen = watch(watches, order, parts_of_watching, graph, batch, moment)
    hits = hits_on_no(join, batch)                                    # before the join's own step
    answer = join.step(batch, moment, constraints)
    report = seen | {"sizes": sizes(join), "hits": hits}
    if MODE lean, and some constraint is or may be made use of:       # after the join's own step
        report |= losses.observe(sample, join, batch, moment, constraints, common, edges, share)

`watches` are what is watched, one for each edge and kind (`Watch`). `order` is what the driver decided last:
`choosing.decide`, which says what else is in it. Parts are named arrays, `NO_PARTS` at the beginning; they are kept
as state and handed over again in the next step, and a part that has not changed is the same object.

Codes of keys must depend on values alone: whether a key is watched is told by a hash of its code, so that all parts
of a key agree, whoever sees them. Elements that do not pass are not watched.

Distances are those of `kernels/synopses/monitor.py`. In time they depend neither on the cut into steps nor on the
order of arrival. In rows all elements of a step count as the last: then a distance is never less than what a join
must keep between steps. Of keys, what buckets report is added up, and is the same for any number of them. Of the
order of a key, a bucket compares with the greatest that came to it, which is what its join does, too: what it
reports is what it needs, and is never more than what the stream as a whole has.

Size: keys and places, 16 bytes for each element that may still meet another, up to the distance that the order says;
for a share of keys, up to their validity. If that is more than `choosing.ROOM` rows in all buckets together, fewer
keys are watched. Of the order of a key, at most `_CELLS` steps and what is not settled by the watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.algebra.keyed_join import Kind
from tidegate.physical.common.arrays import Columns, Ints
from tidegate.physical.common.kernels.hashing import Hashes, hash_columns, read_only
from tidegate.physical.common.operator import Facts
from tidegate.physical.keyed_join.kernels import monitor
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import NEVER, NO, Arrivals, Moment
from tidegate.physical.keyed_join.kernels.monitor import Limits, Observed, kept_rows
from tidegate.physical.keyed_join.kernels.monitor_clusters import ClustersSeen, observe_clusters
from tidegate.physical.keyed_join.kernels.monitor_joins import JoinsSeen, observe_joins
from tidegate.physical.keyed_join.kernels.monitor_orders import OrderedArrivals, OrdersSeen, observe_orders

Parts = Mapping[str, Columns]
"""State as named parts."""

NO_PARTS: Parts = {}

_CELLS = 1024
"""Of the order of a key, one step is kept for each of so many parts of the distance that is kept."""

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched of an edge, by number, and in which unit."""

    edge: int
    kind: Kind
    in_rows: bool = False

    @property
    def name(self) -> str:
        """How reports and orders call it: the number of the edge, and the kind as the join calls it."""
        return name_of(self.edge, self.kind)


def name_of(edge: int, kind: Kind) -> str:
    """How reports and orders call a kind of constraint on an edge.

    Examples
    --------
    >>> name_of(2, Kind.ORDERED_PARENTS)
    '2/ordered_parents'
    """
    return f"{edge}/{kind.name.lower()}"


def watch(
    watches: Sequence[Watch],
    order: Facts,
    parts: Parts,
    graph: Graph,
    batch: Mapping[int, Arrivals],
    moment: Moment,
) -> tuple[Parts, Facts]:
    """Watch the elements of a step; what is to be kept of them, and the report."""
    passing = {stream: _passing(arrivals) for stream, arrivals in batch.items()}
    after: dict[str, Columns] = {}
    told: dict[str, Facts] = {}
    for each in watches:
        limits, share = limits_of(order, each.name)
        own = {name: part for name, part in parts.items() if name.startswith(f"watch.{each.name}.")}
        view = _View(each, graph, passing, moment)
        observe = _OBSERVERS[each.kind]
        columns, observed = observe(view, _short(own), limits, share)
        after |= {f"watch.{each.name}.{name}": part for name, part in columns.items()}
        told[each.name] = _said(observed, columns)
    return after, _arrivals(graph, batch, moment) | {"watched": told}


def limits_of(order: Facts, name: str) -> tuple[Limits, float]:
    """How far is watched, and which share of all keys; before anything is decided, all is."""
    told = order.get("watch", {}).get(name)
    if told is None:
        return Limits(), 1.0
    return Limits(told["kept"], told["sampled"], told["sample"]), told["keys"]


def hits_on_no(join: SynopsisJoin, batch: Mapping[int, Arrivals]) -> list[int]:
    """For each edge, how many new parents find out at once, by what is remembered as No, that they never join."""
    hits = [0] * len(join.graph.edges)
    for number, edge in enumerate(join.graph.edges):
        table = join.tables[edge.child]
        if edge.parent in batch and len(batch[edge.parent]) and table.count:
            never = table[f"key{number}"][table["component"] == NO]
            if len(never):
                hits[number] = int(np.isin(_passing(batch[edge.parent]).keys[number], never).sum())
    return hits


def sizes(join: SynopsisJoin) -> list[list[int]]:
    """For each stream, how many elements are Yes, Unknown, No and cold."""
    return [[each.yes, each.unknown, each.no, each.cold] for each in join.sizes()]


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """What a step has of the two streams of an edge, on the axis of one watch."""

    watch: Watch
    graph: Graph
    batch: Mapping[int, Arrivals]
    moment: Moment

    @property
    def _counters(self) -> Sequence[int]:
        """How many have arrived; where equal keys are told from others, of those that came here."""
        met = self.moment.met if self.watch.kind is Kind.CLUSTERED else None
        return met or self.moment.counters

    def keys(self, stream: int) -> Ints:
        return self.batch[stream].keys[self.watch.edge] if stream in self.batch else _NONE

    def places(self, stream: int, counted: int) -> Ints:
        """Times, or for all of them the number of arrivals of the stream that is counted."""
        if stream not in self.batch:
            return _NONE
        if self.watch.in_rows:
            return np.full(len(self.batch[stream]), self._counters[counted], np.int64)
        return self.batch[stream].start

    def watermark(self, stream: int, counted: int) -> int:
        """The least place to come."""
        if self.watch.in_rows:
            return self._counters[counted] + (stream == counted)
        return self.moment.watermarks[stream]

    def keyed(self, stream: int, counted: int, share: float) -> monitor.Arrivals:
        """The elements whose keys are watched."""
        key, at = hash_columns([pa.array(self.keys(stream))]), self.places(stream, counted)
        if share < 1:
            some = _watched(key, share)
            key, at = key[some], at[some]
        return monitor.Arrivals(key, at, self.watermark(stream, counted))


_Observer = Callable[[_View, Parts, Limits, float], tuple[Parts, Observed]]


def _arriving(view: _View, parts: Parts, limits: Limits, share: float) -> tuple[Parts, Observed]:
    edge = view.graph.edges[view.watch.edge]
    parents, children = (view.keyed(stream, edge.child, share) for stream in edge)
    before = JoinsSeen.from_columns(_thinned(parts, share)) if parts else JoinsSeen()
    seen, observed = observe_joins(before, parents, children, limits)
    return seen.to_columns(), observed


def _clustered(view: _View, parts: Parts, limits: Limits, share: float) -> tuple[Parts, Observed]:
    parent = view.graph.edges[view.watch.edge].parent
    before = ClustersSeen.from_columns(_thinned(parts, share)) if parts else ClustersSeen()
    new = view.keyed(parent, parent, share)
    seen, observed = observe_clusters(before, new, limits, in_rows=view.watch.in_rows)
    return seen.to_columns(), observed


def _ordered(view: _View, parts: Parts, limits: Limits, _share: float) -> tuple[Parts, Observed]:
    edge = view.graph.edges[view.watch.edge]
    stream = edge.parent if view.watch.kind is Kind.ORDERED_PARENTS else edge.child
    before = OrdersSeen.from_columns(parts) if parts else OrdersSeen()
    new = OrderedArrivals(view.keys(stream), view.places(stream, stream), view.watermark(stream, stream))
    seen, observed = observe_orders(before, new, limits)
    return {**seen.to_columns(), "steps": _coarse(seen.steps, limits)}, observed


_OBSERVERS: Mapping[Kind, _Observer] = {
    Kind.ARRIVING: _arriving,
    Kind.CLUSTERED: _clustered,
    Kind.ORDERED_PARENTS: _ordered,
    Kind.ORDERED_CHILDREN: _ordered,
}


def _coarse(steps: Columns, limits: Limits) -> Columns:
    """Of the steps in each cell, one with the place of the first and the value of the last: nothing gets nearer."""
    if len(steps["at"]) <= _CELLS:
        return steps
    spread = int(steps["at"][-1]) - int(steps["at"][0])
    cell = steps["at"] // max(min(limits.kept, spread) // _CELLS, 1)
    first = np.concatenate([[True], cell[1:] != cell[:-1]])
    last = np.concatenate([first[1:], [True]])
    return {"value": read_only(steps["value"][last]), "at": read_only(steps["at"][first])}


def _thinned(parts: Parts, share: float) -> Parts:
    """The rows whose keys are watched."""
    if share >= 1:
        return parts
    return {name: kept_rows(part, _watched(part["key"], share)) for name, part in parts.items()}


def _watched(key: Hashes, share: float) -> Any:
    return monitor.chosen_keys(key, Limits(share=share))


def _short(parts: Parts) -> Parts:
    return {name.rsplit(".", 1)[1]: part for name, part in parts.items()}


def _said(observed: Observed, parts: Parts) -> Facts:
    size = sum(len(part["at"]) for part in parts.values())
    histogram = list(observed.histogram)
    return {"events": observed.events, "greatest": observed.greatest, "histogram": histogram, "size": size}


def _passing(arrivals: Arrivals) -> Arrivals:
    if arrivals.passes is None or arrivals.passes.all():
        return arrivals
    some = arrivals.passes
    columns = (arrivals.start[some], arrivals.end[some], arrivals.number[some], arrivals.row[some])
    return Arrivals({edge: key[some] for edge, key in arrivals.keys.items()}, *columns)


def _arrivals(graph: Graph, batch: Mapping[int, Arrivals], moment: Moment) -> dict[str, Any]:
    """For each stream: elements, the first and the last start, the longest validity, and all rows so far."""
    streams = [batch.get(stream) for stream in range(len(graph))]
    some = [each if each is not None and len(each) else None for each in streams]
    return {
        "elements": [0 if each is None else len(each) for each in some],
        "first": [None if each is None else int(each.start.min()) for each in some],
        "last": [None if each is None else int(each.start.max()) for each in some],
        "longest": [0 if each is None or each.end[0] >= NEVER else int((each.end - each.start).max()) for each in some],
        "counters": list(moment.counters),
    }

"""Keyed join of streams with synopses. Each step processes one batch of all streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints, Mask, Positions
from tidegate.physical.keyed_join.kernels import state_parts
from tidegate.physical.keyed_join.kernels.bounds import LEAST, KeyOrder
from tidegate.physical.keyed_join.kernels.changes import TableChanges
from tidegate.physical.keyed_join.kernels.classify import DecisionRules, classify
from tidegate.physical.keyed_join.kernels.clusters import Clusters, Ending, count_parents, forget_clusters, note_waiting
from tidegate.physical.keyed_join.kernels.cold import ColdElements, mark_repeated, move_cold_elements
from tidegate.physical.keyed_join.kernels.combine import new_combinations
from tidegate.physical.keyed_join.kernels.forgetting import find_expendable, mark_leaving, sweep
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.graph_decisions import narrow_validity
from tidegate.physical.keyed_join.kernels.index import KeyIndex, repeated_rows
from tidegate.physical.keyed_join.kernels.model import (
    COLD,
    COLD_YES,
    GONE,
    NEVER,
    NO,
    NO_POSITIONS,
    UNKNOWN,
    YES,
    Bound,
    Constraints,
    Moment,
    Patience,
    Size,
    StreamArrivals,
    SynopsisJoinResult,
    horizons_of,
)
from tidegate.physical.keyed_join.kernels.rows import redirect_pointers
from tidegate.physical.keyed_join.kernels.state_parts import Log
from tidegate.physical.keyed_join.kernels.table import Table
from tidegate.physical.keyed_join.kernels.waiting import list_waiting

_NONE = Bound()
_NO_ROWS = np.empty(0, np.int64)
_NO_ORDER = KeyOrder()
_LEAVES = (np.array([GONE, GONE, GONE], np.uint8), np.array([COLD, COLD_YES, GONE], np.uint8))
"""Component of an element that leaves because of a constraint, by its component before, in lean and in exact joins."""


@dataclass(slots=True, eq=False)
class SynopsisJoin:
    """Kept elements of all streams; changed in place.

    In an exact join, an element that leaves because of a constraint becomes cold, and returns when a partner arrives.
    Results then equal those of the plain join, whatever the constraints are. Otherwise the element is forgotten.
    """

    graph: Graph
    exact: bool
    watched: frozenset[int]
    """Edges whose cluster constraints may be used: their parents are counted."""
    tables: list[Table]
    cold: list[ColdElements]
    clusters: dict[int, Clusters]
    logs: list[Log]
    orders: dict[str, KeyOrder] = field(default_factory=dict)
    written: dict[str, Columns] = field(default_factory=dict)
    is_logged: bool = True
    """True if the logs have all changes."""
    _nothing: tuple[Ints, ...] = ()
    """An empty array of rows for each stream."""

    def __post_init__(self) -> None:
        self._nothing = (_NO_ROWS,) * len(self.tables)

    @classmethod
    def empty(
        cls,
        graph: Graph,
        *,
        exact: bool = True,
        watched: frozenset[int] = frozenset(),
        same: Sequence[Mapping[int, int]] | None = None,
    ) -> SynopsisJoin:
        """Return an empty join. `same` maps, for each stream, an edge to the first edge with the same key."""
        alike = same or [{}] * len(graph)
        tables = [Table.empty(graph, stream, watched, alike[stream]) for stream in range(len(graph))]
        clusters = {edge: Clusters() for edge in sorted(watched)}
        logs = [Log.empty(table) for table in tables]
        return cls(graph, exact, watched, tables, [ColdElements() for _ in tables], clusters, logs)

    def step(self, batch: Mapping[int, StreamArrivals], moment: Moment, constraints: Constraints) -> SynopsisJoinResult:
        """Process the next elements of some streams; return the combinations that are complete now."""
        self.is_logged = False
        repeated = self._append_arrivals(batch, moment)
        returned = self._bring_back()
        self._observe_orders(batch, moment, constraints)
        self._link_parents()
        counters, came_back = moment.bucket_counters or moment.counters, returned is not self._nothing
        if came_back:
            self._narrow_returned(returned)
        if self.watched:
            counts = {stream: len(arrivals) for stream, arrivals in batch.items()}
            count_parents(self.graph, self.tables, self.clusters, counts, moment.bucket_counters)
            note_waiting(self.graph, self.tables, self.watched, counters)
        late, horizons = COLD if self.exact else NO, horizons_of(moment.watermarks)
        terms = DecisionRules(self._patience(moment, constraints, horizons), late, constraints.keeps_no, counters)
        promoted = classify(self.graph, self.tables, terms, came_back=came_back)
        found = new_combinations(self.graph, self.tables, promoted)
        chilled = self._remove_unneeded(moment, constraints, horizons, returned=came_back)
        return SynopsisJoinResult(found, repeated, chilled, returned)

    def sizes(self) -> tuple[Size, ...]:
        """Return the number of kept elements of each stream."""
        counts = [np.bincount(table["component"], minlength=6) for table in self.tables]
        return tuple(
            Size(int(c[YES]), int(c[UNKNOWN]), int(c[NO]), len(cold)) for c, cold in zip(counts, self.cold, strict=True)
        )

    def live_rows(self, stream: int) -> Ints:
        """Return the rows of a stream's elements that may still be part of a result, except cold ones."""
        table = self.tables[stream]
        kept: Ints = table["row"][table["component"] <= YES]
        return kept

    def cold_rows(self, stream: int) -> Ints:
        """Return the rows of a stream's cold elements."""
        return self.cold[stream].rows()

    def keep_rows(self, stays: Callable[[Ints], Mask]) -> None:
        """Forget all elements whose row does not stay. Elements that join must stay or go together."""
        for table in self.tables:
            gone = np.flatnonzero((table["component"] < GONE) & ~stays(table["row"]))
            if len(gone):
                table["component"][gone] = GONE
                list_waiting(table)
        self._compact(always=True)

    def log_changes(self) -> tuple[TableChanges, ...]:
        """Log the changes since the last call; return for each stream the new and removed elements."""
        self.is_logged = True
        return tuple(log.log_changes(table) for log, table in zip(self.logs, self.tables, strict=True))

    def to_columns(self) -> Mapping[str, Columns]:
        """Return the state as named, immutable parts. A part that has not changed is the same object as before."""
        if not self.is_logged:
            self.log_changes()
        self.written = state_parts.to_columns(self.logs, self.cold, self.clusters, self.orders, self.written)
        return self.written

    @classmethod
    def from_columns(
        cls,
        parts: Mapping[str, Columns],
        graph: Graph,
        *,
        exact: bool = True,
        watched: frozenset[int] = frozenset(),
        same: Sequence[Mapping[int, int]] | None = None,
    ) -> SynopsisJoin:
        join = cls.empty(graph, exact=exact, watched=watched, same=same)
        join.orders = state_parts.orders_from(parts)
        join.clusters |= {e: Clusters.of(parts[f"clusters{e}"]) for e in watched if f"clusters{e}" in parts}
        for stream, table in enumerate(join.tables):
            join.cold[stream] = state_parts.cold_from(parts, stream)
            join.logs[stream] = state_parts.log_from(parts, stream, table)
            columns = join.logs[stream].live_elements()
            known = {f"was {name}": columns[name] for name in columns if f"was {name}" in table.columns}
            table.append({**columns, **known, "was": columns["component"]}, len(columns["row"]))
            table.fresh = 0
            list_waiting(table)
        join._link_parents()  # noqa: SLF001 - of the same class
        for stream, table in enumerate(join.tables):
            narrow_validity(graph, join.tables, stream, np.arange(table.count, dtype=np.int32))
            table.chain(table.count)
        join.written = dict(parts)
        return join

    def _append_arrivals(self, batch: Mapping[int, StreamArrivals], moment: Moment) -> tuple[Ints, ...]:
        """Append new elements; return the rows of those that have the key of another one."""
        repeated = list(self._nothing)
        for stream, table in enumerate(self.tables):
            table.fresh = table.count
            if stream not in batch or not len(batch[stream].start):
                continue
            below = self.graph.below[stream]
            table.append_arrivals(batch[stream], [moment.counters[self.graph.edges[edge].child] for edge in below])
            if self.cold[stream].slices:
                mark_repeated(table, self.cold[stream])
            if table.repeats:
                repeated[stream] = repeated_rows(table.component, table.columns["row"], table.fresh, table.count)
        return tuple(repeated)

    def _bring_back(self) -> tuple[Ints, ...]:
        """Move cold elements back that join new ones, then those that join these, and so on.

        The result has their rows, for each stream.
        """
        if not self.exact or not any(cold.slices for cold in self.cold):
            return self._nothing
        before = [table.count for table in self.tables]
        done = [table.fresh for table in self.tables]
        while any(cold.slices for cold in self.cold):
            upto = [table.count for table in self.tables]
            if upto == done:
                break
            for here, name, there, other in self._lookups():
                table = self.tables[here]
                lives = table["component"][done[here] : upto[here]] <= YES
                for columns in self.cold[there].take(other, table[name][done[here] : upto[here]][lives]):
                    self.tables[there].append(columns, len(columns["row"]))
            done = upto
        if all(table.count == count for table, count in zip(self.tables, before, strict=True)):
            return self._nothing
        return tuple(table["row"][count:] for table, count in zip(self.tables, before, strict=True))

    def _lookups(self) -> list[tuple[int, str, int, str]]:
        """Return the lookups between streams: from stream and key, to stream and key."""
        ways: dict[tuple[int, str, int, str], None] = {}
        for number, edge in enumerate(self.graph.edges):
            parent, child = (self.tables[stream].layout.same[f"key{number}"] for stream in edge)
            ways[edge.parent, parent, edge.child, child] = None
            ways[edge.child, child, edge.parent, parent] = None
        return [way for way in ways if self.cold[way[2]].slices]

    def _narrow_returned(self, returned: Sequence[Ints]) -> None:
        """Recompute the validity of elements that have returned, with all elements below them."""
        for stream, rows in enumerate(returned):
            if len(rows):
                count = self.tables[stream].count
                narrow_validity(self.graph, self.tables, stream, np.arange(count - len(rows), count, dtype=np.int32))

    def _observe_orders(self, batch: Mapping[int, StreamArrivals], moment: Moment, constraints: Constraints) -> None:
        """Update the lower bounds of keys still to arrive, from the order of keys."""
        for edge, bound in constraints.ordered_parents.items():
            self._observe_order(f"parent{edge}", edge, self.graph.edges[edge].parent, bound, batch, moment)
        for edge, bound in constraints.ordered_children.items():
            self._observe_order(f"child{edge}", edge, self.graph.edges[edge].child, bound, batch, moment)

    def _observe_order(
        self, name: str, edge: int, stream: int, bound: Bound, batch: Mapping[int, StreamArrivals], moment: Moment
    ) -> None:
        new = batch.get(stream)
        columns = (_NO_ROWS, _NO_ROWS, _NO_ROWS) if new is None else (new.keys[edge], new.number, new.start)
        now = ((moment.settled or moment.counters)[stream], moment.watermarks[stream])
        self.orders[name] = self.orders.get(name, _NO_ORDER).absorb(*columns, bound, *now)

    def _link_parents(self) -> None:
        """Link new parents to their children. In trees, parents that have waited are linked later."""
        for number, edge in enumerate(self.graph.edges):
            parent, child = self.tables[edge.parent], self.tables[edge.child]
            wanted, found = parent.keys[number], parent.children[number]
            if parent.fresh < parent.count and child.count:
                child.index(number).find_from(wanted, parent.fresh, parent.count, child.component, found)
            if parent.layout.is_chained or not len(parent.waiting) or child.fresh == child.count:
                continue
            index = child.index(number)
            new = child.count - child.fresh
            if new < len(parent.waiting) or 16 * new < len(index.slots):  # a small index is faster to search
                index = KeyIndex.with_room_for(new)
                index.insert(child[f"key{number}"], child.fresh, child.count, child.component, child["number"])
            index.find(wanted, parent.waiting, child.component, found)

    def _patience(self, moment: Moment, constraints: Constraints, horizons: Sequence[int]) -> list[Patience]:
        limits = []
        for number, edge in enumerate(self.graph.edges):
            bound = constraints.arriving.get(number, _NONE)
            watermark, counter = moment.watermarks[edge.child], (moment.settled or moment.counters)[edge.child]
            rows = -1 if bound.rows is None else counter - bound.rows
            time = LEAST if bound.time is None else watermark - bound.time
            ordered = constraints.ordered_children.get(number)
            low = LEAST if ordered is None else self.orders[f"child{number}"].lower_bound(ordered)
            limits.append(Patience(rows, time, low, watermark if watermark > horizons[edge.parent] else LEAST))
        return limits

    def _endings(self, moment: Moment, constraints: Constraints) -> dict[int, Ending]:
        endings: dict[int, Ending] = {}
        for number in {*constraints.clustered, *constraints.ordered_parents}:
            parent = self.graph.edges[number].parent
            bound = constraints.clustered.get(number, _NONE)
            gap = NEVER if bound.rows is None else bound.rows
            time = LEAST if bound.time is None else moment.watermarks[parent] - bound.time
            ordered = constraints.ordered_parents.get(number)
            low = LEAST if ordered is None else self.orders[f"parent{number}"].lower_bound(ordered)
            endings[number] = Ending(
                (moment.measurable or moment.bucket_counters or moment.counters)[parent], gap, time, low
            )
        return endings

    def _remove_unneeded(
        self, moment: Moment, constraints: Constraints, horizons: Sequence[int], *, returned: bool
    ) -> tuple[Ints, ...]:
        """Remove elements that need not be kept; return the rows of those that become cold."""
        endings = self._endings(moment, constraints)
        marked = self._mark_expendable(endings, horizons)
        if self.clusters:
            forget_clusters(self.graph, self.clusters, endings, moment.expired_until(horizons))
        known = (self.graph, self.tables, horizons, moment.ended, constraints.keeps_no, marked)
        sweep(*known, exact=self.exact, thorough=returned)
        chilled = self._nothing
        if self.exact:
            chilled = tuple(map(move_cold_elements, self.tables, self.cold))
            for cold, over in zip(self.cold, moment.expired_until(horizons), strict=True):
                cold.expire(over)
        self._compact(always=False)
        return chilled

    def _mark_expendable(self, endings: Mapping[int, Ending], horizons: Sequence[int]) -> list[Positions]:
        """Let elements leave that, by constraints, no later combination can have; return their positions."""
        marked = [NO_POSITIONS] * len(self.tables)
        for stream in {self.graph.edges[edge].child for edge in endings}:
            marked[stream] = find_expendable(self.graph, self.tables, stream, endings, horizons)
        for table, some in zip(self.tables, marked, strict=True) if endings else ():
            if len(some):
                mark_leaving(table.component, some, _LEAVES[self.exact])
        return marked

    def _compact(self, *, always: bool) -> None:
        for stream, table in enumerate(self.tables):
            moved = table.compact(always=always)
            table.fresh = table.count
            if moved is not None:
                for edge in self.graph.above[stream]:
                    redirect_pointers(self.tables[self.graph.edges[edge].parent][f"child{edge}"], moved)

"""A many-one join of streams that keeps synopses: step by step, one batch of all streams at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate.physical.kernels.synopses import saved
from tidegate.physical.kernels.synopses.bounds import LEAST, Order
from tidegate.physical.kernels.synopses.classify import classify
from tidegate.physical.kernels.synopses.clusters import Clusters
from tidegate.physical.kernels.synopses.cold import Cold
from tidegate.physical.kernels.synopses.combine import combinations
from tidegate.physical.kernels.synopses.graph import Graph
from tidegate.physical.kernels.synopses.index import KeyIndex
from tidegate.physical.kernels.synopses.model import (
    COLD,
    COLD_YES,
    GONE,
    NEVER,
    NO,
    REPEATED,
    UNKNOWN,
    YES,
    Answer,
    Arrivals,
    Bound,
    Columns,
    Constraints,
    Ints,
    Moment,
    Patience,
    Size,
)
from tidegate.physical.kernels.synopses.sweep import (
    Ending,
    count_parents,
    expendable,
    forget_clusters,
    note_waiting,
    sweep,
)
from tidegate.physical.kernels.synopses.table import Table, arrived, follow

_NONE = Bound()


@dataclass(slots=True, eq=False)
class SynopsisJoin:
    """The kept elements of all streams; it is changed in place.

    If it is exact, what leaves because of a constraint gets cold and comes back when a partner arrives;
    then results are those of the plain join, whatever the constraints. Else it is forgotten.
    """

    graph: Graph
    exact: bool
    watched: frozenset[int]
    """Edges whose clusters may be made use of: parents are counted there."""
    tables: list[Table]
    cold: list[Cold]
    clusters: dict[int, Clusters]
    orders: dict[str, Order] = field(default_factory=dict)
    written: dict[str, Columns] = field(default_factory=dict)

    @classmethod
    def empty(cls, graph: Graph, *, exact: bool = True, watched: frozenset[int] = frozenset()) -> SynopsisJoin:
        tables = [Table.empty(graph, stream, watched) for stream in range(len(graph))]
        clusters = {edge: Clusters.empty() for edge in sorted(watched)}
        return cls(graph, exact, watched, tables, [Cold() for _ in tables], clusters)

    def step(self, batch: Mapping[int, Arrivals], moment: Moment, constraints: Constraints) -> Answer:
        """Take in the next elements of some streams, and answer the combinations that are complete now."""
        repeated = self._append(batch, moment)
        returned = self._bring_back()
        self._observe(batch, moment, constraints)
        slots = self._link()
        counts = {stream: len(arrivals) for stream, arrivals in batch.items()}
        self.clusters = count_parents(self.graph, self.tables, self.clusters, counts)
        note_waiting(self.graph, self.tables, self.watched, moment.counters)
        late = COLD if self.exact else NO
        promoted = classify(self.graph, self.tables, self._patience(moment, constraints), slots, late)
        found = combinations(self.graph, self.tables, promoted)
        chilled = self._collect(moment, constraints, returned=any(map(len, returned)))
        return Answer(found, repeated, chilled, returned)

    def sizes(self) -> tuple[Size, ...]:
        """What is kept of each stream."""
        counts = [np.bincount(table["component"], minlength=6) for table in self.tables]
        return tuple(
            Size(int(c[YES]), int(c[UNKNOWN]), int(c[NO]), len(cold)) for c, cold in zip(counts, self.cold, strict=True)
        )

    def rows(self, stream: int) -> Ints:
        """Rows of the elements of a stream that may yet be part of a result, without those that are cold."""
        table = self.tables[stream]
        kept: Ints = table["row"][table["component"] <= YES]
        return kept

    def cold_rows(self, stream: int) -> Ints:
        """Rows of the cold elements of a stream."""
        return self.cold[stream].rows()

    def to_columns(self) -> Mapping[str, Columns]:
        """The state in named parts that never change; one that is as it was the last time is the same object."""
        self._compact(always=True)
        self.written = saved.to_columns(self.tables, self.cold, self.clusters, self.orders, self.written)
        for table in self.tables:
            table.changed = False
        return self.written

    @classmethod
    def from_columns(
        cls,
        parts: Mapping[str, Columns],
        graph: Graph,
        *,
        exact: bool = True,
        watched: frozenset[int] = frozenset(),
    ) -> SynopsisJoin:
        join = cls.empty(graph, exact=exact, watched=watched)
        join.orders = saved.from_columns(parts, join.tables, join.cold)
        join.clusters = {edge: Clusters(**parts[f"clusters{edge}"]) for edge in sorted(watched)}
        for table in join.tables:
            table.changed, table.fresh = False, 0
            table.waiting = np.flatnonzero(table["component"] == UNKNOWN).astype(np.int32)
        join._link(everything=True)  # noqa: SLF001 - its own
        join.written = dict(parts)
        return join

    def _append(self, batch: Mapping[int, Arrivals], moment: Moment) -> tuple[Ints, ...]:
        """Append what arrived; the rows of those that have the key of another one."""
        repeated = []
        for stream, table in enumerate(self.tables):
            table.fresh = table.count
            if stream in batch and len(batch[stream]):
                below, above = self.graph.below[stream], self.graph.above[stream]
                seen = {edge: moment.counters[self.graph.edges[edge].child] for edge in below}
                table.append(arrived(batch[stream], below + above, seen), len(batch[stream]))
            fresh = slice(table.fresh, table.count)
            twice = table["component"][fresh] == REPEATED
            repeated.append(table["row"][fresh][twice])
        return tuple(repeated)

    def _bring_back(self) -> tuple[Ints, ...]:
        """Bring back what joins new elements, what joins those, and so on; the rows of all that."""
        before = [table.count for table in self.tables]
        done = [table.fresh for table in self.tables]
        while any(len(cold.slices) + len(cold.loose) for cold in self.cold):
            upto = [table.count for table in self.tables]
            if upto == done:
                break
            for number, edge in enumerate(self.graph.edges):
                for here, there in ((edge.parent, edge.child), (edge.child, edge.parent)):
                    table = self.tables[here]
                    lives = table["component"][done[here] : upto[here]] <= YES
                    keys = table[f"key{number}"][done[here] : upto[here]][lives]
                    for columns in self.cold[there].take(f"key{number}", keys):
                        self.tables[there].append(columns, len(columns["row"]))
            done = upto
        return tuple(table["row"][count:] for table, count in zip(self.tables, before, strict=True))

    def _observe(self, batch: Mapping[int, Arrivals], moment: Moment, constraints: Constraints) -> None:
        """Learn from the order of keys below which none arrives any more."""
        for side, bounds in (("parent", constraints.ordered_parents), ("child", constraints.ordered_children)):
            for edge, bound in bounds.items():
                stream = getattr(self.graph.edges[edge], side)
                new = batch.get(stream)
                none = np.empty(0, np.int64)
                columns = (none, none, none) if new is None else (new.keys[edge], new.number, new.start)
                now = (moment.counters[stream], moment.watermarks[stream])
                name = f"{side}{edge}"
                self.orders[name] = self.orders.get(name, Order()).absorb(*columns, bound, *now)

    def _low(self, name: str, bound: Bound | None) -> int:
        return LEAST if bound is None else self.orders[name].low(bound)

    def _link(self, *, everything: bool = False) -> list[Ints]:
        """Let new parents know where their children are; for each edge, the slots of new children.

        Those that have waited are told at once where that must be known before they are looked at.
        """
        slots = [np.empty((0, 2), np.int64) for _ in self.graph.edges]
        for number, edge in enumerate(self.graph.edges):
            parent, child = self.tables[edge.parent], self.tables[edge.child]
            wanted, component, found = parent[f"key{number}"], child["component"], parent[f"child{number}"]
            if parent.fresh < parent.count and child.count:
                child.indexes[number].find(wanted, parent.new(), component, found)
            if everything or not len(parent.waiting) or child.fresh == child.count:
                continue
            index = child.indexes[number]
            if child.count - child.fresh < len(parent.waiting):  # a small index is faster to search
                index = KeyIndex.sized(child.count - child.fresh)
                index.insert(child[f"key{number}"], child.fresh, child.count, component, child["number"])
            if number in self.watched or self.graph.shape != "tree":
                index.find(wanted, parent.waiting, component, found)
            else:
                slots[number] = index.slots
        return slots

    def _patience(self, moment: Moment, constraints: Constraints) -> list[Patience]:
        limits, horizons = [], self._horizons(moment.watermarks)
        for number, edge in enumerate(self.graph.edges):
            bound = constraints.arriving.get(number, _NONE)
            watermark, counter = moment.watermarks[edge.child], moment.counters[edge.child]
            rows = -1 if bound.rows is None else counter - bound.rows
            time = LEAST if bound.time is None else watermark - bound.time
            low = self._low(f"child{number}", constraints.ordered_children.get(number))
            limits.append(Patience(rows, time, low, watermark if watermark > horizons[edge.parent] else LEAST))
        return limits

    def _endings(self, moment: Moment, constraints: Constraints) -> dict[int, Ending]:
        endings = {}
        for number in constraints.clustered.keys() | constraints.ordered_parents.keys():
            parent = self.graph.edges[number].parent
            bound = constraints.clustered.get(number, _NONE)
            gap = NEVER if bound.rows is None else bound.rows
            time = LEAST if bound.time is None else moment.watermarks[parent] - bound.time
            low = self._low(f"parent{number}", constraints.ordered_parents.get(number))
            endings[number] = Ending(moment.counters[parent], gap, time, low)
        return endings

    def _collect(self, moment: Moment, constraints: Constraints, *, returned: bool) -> tuple[Ints, ...]:
        """Let go what need not be kept; the rows of what gets cold."""
        endings = self._endings(moment, constraints)
        marks = [expendable(self.graph, self.tables, s, endings) if endings else None for s in range(len(self.tables))]
        settled = [mark is None and not returned for mark in marks]
        for table, mark in zip(self.tables, marks, strict=True):
            if mark is not None:
                component = table["component"]
                leaves = np.array([COLD, COLD_YES, GONE] if self.exact else [GONE, GONE, GONE], np.uint8)
                component[mark] = leaves[component[mark]]
                table.changed = True
        horizons = self._horizons(moment.watermarks)
        self.clusters = forget_clusters(self.graph, self.clusters, endings, horizons)
        sweep(self.graph, self.tables, horizons, constraints.keeps_no, settled)
        none = tuple(np.empty((len(self.tables), 0), np.int64))
        chilled = tuple(map(_chill, self.tables, self.cold)) if self.exact else none
        for cold, horizon in zip(self.cold, horizons, strict=True):
            cold.expire(horizon)
        self._compact(always=False)
        return chilled

    def _horizons(self, watermarks: Sequence[int]) -> list[int]:
        """For each stream: whatever arrives later in any other one does not start before this."""
        others = [[w for t, w in enumerate(watermarks) if t != s] for s in range(len(watermarks))]
        return [min(each) if each else watermarks[s] for s, each in enumerate(others)]

    def _compact(self, *, always: bool) -> None:
        for stream, table in enumerate(self.tables):
            moved = table.compact(always=always)
            table.fresh = table.count
            if moved is not None:
                for edge in self.graph.above[stream]:
                    follow(self.tables[self.graph.edges[edge].parent][f"child{edge}"], moved)


def _chill(table: Table, cold: Cold) -> Ints:
    """Move cold elements out of a table; their rows."""
    component = table["component"]
    rows = np.flatnonzero((component == COLD) | (component == COLD_YES))
    if len(rows):
        columns = {n: table[n][rows] for n in table.columns if not n.startswith("child")}
        columns["component"] = np.where(component[rows] == COLD_YES, YES, UNKNOWN).astype(np.uint8)
        cold.put(columns)
        component[rows] = GONE
    return columns["row"] if len(rows) else np.empty(0, np.int64)

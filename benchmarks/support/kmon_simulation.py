"""The paper's k-Mon, element by element with dictionaries and heaps: how many elements it keeps, on the same data.

For graphs in which a stream has children or parents, not both, as those of the figures are. What constraints allow is
collected at the end of each batch, since only then it is counted. Nothing here is shared with our join.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from benchmarks.support.kmon_setups import Feed
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.model import Constraints


@dataclass(slots=True, eq=False)
class Element:
    """One that is kept: `missing` are edges whose child has not been there, `over` those from which no parent comes."""

    stream: int
    keys: dict[int, int]
    end: int
    passes: bool
    missing: set[int] = field(default_factory=set)
    over: set[int] = field(default_factory=set)
    kept: bool = False


class Greatest:
    """The greatest of all values but for the last k: none that is less comes any more."""

    def __init__(self, k: int) -> None:
        self.k, self.recent, self.greatest = k, deque[int](), -1

    def add(self, value: int) -> None:
        self.recent.append(value)
        if len(self.recent) > self.k:
            self.greatest = max(self.greatest, self.recent.popleft())


class Simulation:
    """Elements that wait for children (Unknown), that have them all (Yes), and children that do not pass (No)."""

    def __init__(self, graph: Graph, constraints: Constraints) -> None:
        self.graph, self.constraints = graph, constraints
        edges = range(len(graph.edges))
        self.kept, self.ties = 0, 0
        self.counts, self.windows = [0] * len(graph), [deque[Element]() for _ in range(len(graph))]
        self.children: list[dict[int, Element]] = [{} for _ in edges]
        self.parents: list[dict[int, dict[int, Element]]] = [defaultdict(dict) for _ in edges]
        self.waiting = {edge: deque[tuple[int, Element]]() for edge in constraints.arriving}
        self.clusters: dict[int, dict[int, int]] = {edge: {} for edge in constraints.clustered}
        self.orders = {
            (kind, edge): Greatest(bound.rows or 0)
            for kind, bounds in (("parent", constraints.ordered_parents), ("child", constraints.ordered_children))
            for edge, bound in bounds.items()
        }
        self.heaps: dict[int, list[tuple[int, int, Element | int]]] = {edge: [] for edge in edges}

    def arrive(self, new: Element, now: int) -> None:
        self.counts[new.stream] += 1
        window = self.windows[new.stream]
        while window and window[0].end <= now:
            self._drop(window.popleft())
        for edge in self.graph.below[new.stream]:
            self._note_parent(edge, new.keys[edge])
        for edge in self.graph.above[new.stream]:
            if ("child", edge) in self.orders:
                self.orders["child", edge].add(new.keys[edge])
        if self.graph.below[new.stream]:
            self._parent(new)
        else:
            self._child(new)

    def _note_parent(self, edge: int, key: int) -> None:
        if ("parent", edge) in self.orders:
            self.orders["parent", edge].add(key)
        if edge not in self.clusters:
            return
        known = self.clusters[edge]
        if key in known:
            known[key] += 1
        else:
            known[key] = self.counts[self.graph.edges[edge].parent]
            self._push(edge, known[key], key)

    def _parent(self, new: Element) -> None:
        for edge in self.graph.below[new.stream]:
            child = self.children[edge].get(new.keys[edge])
            if child is None:
                new.missing.add(edge)
            elif not child.passes:
                return
        if not new.missing and new.stream in self.graph.single_covers:
            return
        self._keep(new)
        for edge in new.missing:
            if edge in self.waiting:
                self.waiting[edge].append((self.counts[self.graph.edges[edge].child], new))
            if edge in self.constraints.ordered_children:
                self._push(edge, new.keys[edge], new)

    def _child(self, new: Element) -> None:
        for edge in self.graph.above[new.stream]:
            for parent in list(self.parents[edge].get(new.keys[edge], {}).values()):
                if parent.missing:
                    parent.missing.discard(edge)
                    if not new.passes or (not parent.missing and not self._stays(parent, new)):
                        self._drop(parent)
        if new.passes or new.stream in self.constraints.keeps_no:
            self._keep(new)
            for edge in self.graph.above[new.stream]:
                if edge in self.constraints.ordered_parents:
                    self._push(edge, new.keys[edge], new)

    def _stays(self, parent: Element, last: Element) -> bool:
        """Whether a parent is kept whose last child is here: not if another one has gone, or nothing needs it."""
        others = (e for e in self.graph.below[parent.stream] if self.graph.edges[e].child != last.stream)
        return parent.stream not in self.graph.single_covers and all(parent.keys[e] in self.children[e] for e in others)

    def collect(self) -> None:
        for edge, waiting in self.waiting.items():
            reach, count = self.constraints.arriving[edge].rows or 0, self.counts[self.graph.edges[edge].child]
            while waiting and waiting[0][0] + reach <= count:
                self._stop_waiting(edge, waiting.popleft()[1])
        for edge in self.constraints.ordered_children:
            for _, parent in self._below(edge, self.orders["child", edge].greatest):
                assert isinstance(parent, Element)
                self._stop_waiting(edge, parent)
        for edge in self.constraints.ordered_parents:
            for key, child in self._below(edge, self.orders["parent", edge].greatest):
                assert isinstance(child, Element)
                if self._is_awaited(edge, child.keys[edge]):
                    self._push(edge, key, child)
                else:
                    self._end(edge, child)
        for edge, bound in self.constraints.clustered.items():
            self._end_clusters(edge, self.counts[self.graph.edges[edge].parent] - (bound.rows or 0))

    def _stop_waiting(self, edge: int, parent: Element) -> None:
        if edge in parent.missing:
            self._drop(parent)

    def _end_clusters(self, edge: int, limit: int) -> None:
        known = self.clusters[edge]
        for _, key in self._below(edge, limit):
            assert isinstance(key, int)
            if known[key] >= limit or self._is_awaited(edge, key):
                self._push(edge, known[key], key)
            else:
                del known[key]
                if key in self.children[edge]:
                    self._end(edge, self.children[edge][key])

    def _is_awaited(self, edge: int, key: int) -> bool:
        """Whether a parent waits with this key: it may be part of a result yet, and needs its child."""
        return any(parent.missing for parent in self.parents[edge].get(key, {}).values())

    def _end(self, edge: int, child: Element) -> None:
        """No parent comes any more by an edge; if none comes by any, the child goes, and what has it."""
        child.over.add(edge)
        above = self.graph.above[child.stream]
        if child.kept and all(each in child.over for each in above):
            self._drop(child)
            for each in above:
                for parent in list(self.parents[each].get(child.keys[each], {}).values()):
                    self._drop(parent)

    def _below(self, edge: int, limit: int) -> Iterator[tuple[int, Element | int]]:
        """Take out what is less than a limit, before anything is put in again."""
        heap, found = self.heaps[edge], []
        while heap and heap[0][0] < limit:
            least, _, what = heapq.heappop(heap)
            found.append((least, what))
        return iter(found)

    def _push(self, edge: int, least: int, what: Element | int) -> None:
        self.ties += 1
        heapq.heappush(self.heaps[edge], (least, self.ties, what))

    def _keep(self, new: Element) -> None:
        self.kept, new.kept = self.kept + 1, True
        self.windows[new.stream].append(new)
        for edge in self.graph.above[new.stream]:
            self.children[edge][new.keys[edge]] = new
        for edge in self.graph.below[new.stream]:
            self.parents[edge][new.keys[edge]][id(new)] = new

    def _drop(self, gone: Element) -> None:
        if not gone.kept:
            return
        self.kept, gone.kept = self.kept - 1, False
        for edge in self.graph.above[gone.stream]:
            del self.children[edge][gone.keys[edge]]
        for edge in self.graph.below[gone.stream]:
            known = self.parents[edge][gone.keys[edge]]
            del known[id(gone)]
            if not known:
                del self.parents[edge][gone.keys[edge]]


def simulated(given: Feed, constraints: Constraints, size: int) -> list[int]:
    """How many elements are kept after each batch of so many."""
    simulation, kept = Simulation(given.graph, constraints), []
    for now, element in enumerate(_elements(given), 1):
        simulation.arrive(element, now - 1)
        if now % size == 0 or now == given.count:
            simulation.collect()
            kept.append(simulation.kept)
    return kept


def _elements(given: Feed) -> Iterator[Element]:
    """All arrivals that are processed, in their order."""
    order = np.concatenate([np.full(len(each.start), stream) for stream, each in enumerate(given.streams)])
    start = np.concatenate([each.start for each in given.streams])
    several = [_of_stream(given, stream) for stream in range(len(given.graph))]
    for stream in order[np.argsort(start, kind="stable")][: given.count].tolist():
        yield next(several[stream])


def _of_stream(given: Feed, stream: int) -> Iterator[Element]:
    arrivals = given.streams[stream]
    passes = [True] * len(arrivals.start) if arrivals.passes is None else arrivals.passes.tolist()
    columns = [column.tolist() for column in arrivals.keys.values()]
    for end, passing, *keys in zip(arrivals.end.tolist(), passes, *columns, strict=True):
        yield Element(stream, dict(zip(arrivals.keys, keys, strict=True)), end, passing)

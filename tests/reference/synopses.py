"""Keyed joins of streams by definition, how far arrivals deviate, and synopses tuple by tuple."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product


@dataclass(frozen=True)
class Tuple:
    """An element: its stream, its keys by edge, its validity, and its number among the arrivals of its stream."""

    stream: int
    keys: Mapping[int, int]
    start: int
    end: int
    number: int
    passes: bool = True
    row: int = 0


Edges = Sequence[tuple[int, int]]
"""Parent and child."""


def window_join(edges: Edges, streams: int, tuples: Sequence[Tuple]) -> Iterator[tuple[tuple[Tuple, ...], int, int]]:
    """All combinations that join in all edges, pass all filters, and are valid together."""
    candidates = [[t for t in tuples if t.stream == s and t.passes] for s in range(streams)]
    for combination in product(*candidates):
        start, end = max(t.start for t in combination), min(t.end for t in combination)
        if start < end and all(combination[p].keys[i] == combination[c].keys[i] for i, (p, c) in enumerate(edges)):
            yield combination, start, end


def join_distance(edge: int, parent: int, child: int, arrivals: Sequence[Tuple]) -> int:
    """How many children arrive after a parent until its own, at most."""
    worst, count = 0, 0
    since: dict[int, list[int]] = {}
    for each in arrivals:
        if each.stream == child:
            count += 1
            worst = max([worst, *(count - before for before in since.get(each.keys[edge], []))])
        if each.stream == parent:
            since.setdefault(each.keys[edge], []).append(count)
    return worst


def join_delay(edge: int, parent: int, child: int, arrivals: Sequence[Tuple]) -> int:
    """How much later than its parent a child starts, at most."""
    parents, children = ([t for t in arrivals if t.stream == s] for s in (parent, child))
    return max([0, *(c.start - p.start for p in parents for c in children if p.keys[edge] == c.keys[edge])])


def clustering_distance(values: Sequence[int]) -> int:
    """How many other values are between two equal ones, at most."""
    return max([0, *(sum(values[m] != values[i] for m in range(i, j)) for i, j in _equal(values))])


def clustering_delay(values: Sequence[int], starts: Sequence[int]) -> int:
    """How long after each other equal values start, at most."""
    return max([0, *(abs(starts[j] - starts[i]) for i, j in _equal(values))])


def _equal(values: Sequence[int]) -> Iterator[tuple[int, int]]:
    return ((i, j) for j in range(len(values)) for i in range(j) if values[i] == values[j])


def scrambling_distances(values: Sequence[int]) -> list[int]:
    """For each value, how many values ago the first larger one was."""
    return [max([0, *(j - i for i in range(j) if values[i] > values[j])]) for j in range(len(values))]


def scrambling_delay(values: Sequence[int], starts: Sequence[int]) -> int:
    """How long after a larger value another one starts, at most."""
    pairs = list(zip(values, starts, strict=True))
    return max([0, *(t2 - t1 for v1, t1 in pairs for v2, t2 in pairs if v1 > v2)])


@dataclass(eq=False)
class Kept:
    """A tuple of a synopsis; `seen` has the number of arrivals in the child's stream, for missing children."""

    stream: int
    values: tuple[int, ...]
    component: str = "Unknown"
    seen: dict[int, int] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Engine:
    """Yes, No and Unknown, one tuple at a time with a collection after each; windows are unbounded.

    An edge is (parent, child, position in the parent's values, position in the child's values). `covers` says for a
    stream which edges from parents, all members of one cover, are clustered or ordered, and how far.
    """

    streams: int
    edges: Sequence[tuple[int, int, int, int]]
    cover: Sequence[int]
    filters: Mapping[int, Callable[[tuple[int, ...]], bool]] = field(default_factory=dict)
    arriving: Mapping[int, int] = field(default_factory=dict)
    ordered_children: Mapping[int, int] = field(default_factory=dict)
    covers: Mapping[int, Mapping[int, tuple[str, int]]] = field(default_factory=dict)
    keeps_no: Sequence[int] = ()
    single: bool = True
    """Whether what is complete in a stream that is a cover by itself is forgotten."""
    kept: list[Kept] = field(default_factory=list)
    history: list[Kept] = field(default_factory=list)
    results: list[tuple[tuple[int, ...], ...]] = field(default_factory=list)

    def component(self, stream: int, name: str) -> list[tuple[int, ...]]:
        return [k.values for k in self.kept if k.stream == stream and k.component == name]

    def arrive(self, stream: int, values: tuple[int, ...]) -> None:
        new = Kept(stream, values)
        self.history.append(new)
        self.kept.append(new)
        new.seen = {i: self._count(c) for i, (p, c, _, _) in enumerate(self.edges) if p == stream}
        if stream in self.filters and not self.filters[stream](values):
            new.component = "No"
        changed = True
        while changed:
            changed = self._classify_all()
        self._collect()

    def _count(self, stream: int) -> int:
        return sum(k.stream == stream for k in self.history)

    def _joins(self, edge: int, parent: Kept, child: Kept) -> bool:
        _, _, here, there = self.edges[edge]
        return parent.values[here] == child.values[there]

    def _child(self, edge: int, parent: Kept) -> Kept | None:
        children = [k for k in self.kept if k.stream == self.edges[edge][1] and self._joins(edge, parent, k)]
        return children[0] if children else None

    def _classify_all(self) -> bool:
        before = [k.component for k in self.kept]
        for each in [k for k in self.kept if k.component == "Unknown"]:
            verdict, reached = self._classify(each)
            if verdict == "No":
                each.component = "No"
            elif verdict == "Yes":
                old = {id(k) for k in self.kept if k.component == "Yes"}
                for k in reached.values():
                    k.component = "Yes"
                self._emit(old)
        return before != [k.component for k in self.kept]

    def _classify(self, each: Kept) -> tuple[str, dict[int, Kept]]:
        reached, todo, missing = {each.stream: each}, [each], False
        while todo:
            k = todo.pop()
            for edge, (parent, child, _, _) in enumerate(self.edges):
                if parent != k.stream:
                    continue
                if child in reached:
                    if not self._joins(edge, k, reached[child]):
                        return "No", {}
                    continue
                found = self._child(edge, k)
                if found is None:
                    missing = True
                elif found.component == "No":
                    return "No", {}
                else:
                    reached[child] = found
                    todo.append(found)
        return ("Unknown", {}) if missing else ("Yes", reached)

    def _emit(self, old: set[int]) -> None:
        """Combinations of complete tuples of which not all were complete before."""
        complete = [[k for k in self.kept if k.stream == s and k.component == "Yes"] for s in range(self.streams)]
        for combination in product(*complete):
            joined = all(self._joins(i, combination[e[0]], combination[e[1]]) for i, e in enumerate(self.edges))
            if joined and not all(id(k) in old for k in combination):
                self.results.append(tuple(k.values for k in combination))

    def _collect(self) -> None:
        changed = True
        while changed:
            changed = any([self._stop_waiting(), self._classify_all()])
        for stream, members in self.covers.items():
            for each in [k for k in self.kept if k.stream == stream]:
                each.ended |= {edge for edge, (kind, k) in members.items() if self._ended(edge, each, kind, k)}
                if each.ended == set(members):
                    self._remove(each)
        self.kept = [
            k
            for k in self.kept
            if not (k.component == "No" and k.stream not in self.keeps_no)
            and not (k.component == "Yes" and self.single and [k.stream] == list(self.cover))
        ]

    def _stop_waiting(self) -> bool:
        stopped = False
        for each in [k for k in self.kept if k.component == "Unknown"]:
            for edge in each.seen:
                _, child, here, there = self.edges[edge]
                if self._child(edge, each) is not None:
                    continue
                arrived = [k.values[there] for k in self.history if k.stream == child]
                late = edge in self.arriving and each.seen[edge] + self.arriving[edge] <= len(arrived)
                bound = low_water(arrived, self.ordered_children.get(edge, len(arrived)))
                if late or (bound is not None and each.values[here] < bound):
                    each.component = "No"
                    stopped = True
        return stopped

    def _ended(self, edge: int, each: Kept, kind: str, k: int) -> bool:
        parent, _, here, there = self.edges[edge]
        value = each.values[there]
        waiting = any(p.values[here] == value for p in self.kept if p.stream == parent and p.component == "Unknown")
        values = [p.values[here] for p in self.history if p.stream == parent]
        if waiting:
            return False
        if kind == "OAP":
            bound = low_water(values, k)
            return bound is not None and value < bound
        counts = clustering_counters(values)
        return value in counts and counts[value] < len(values) - k

    def _remove(self, each: Kept) -> None:
        for edge, (parent, child, _, _) in enumerate(self.edges):
            if child == each.stream:
                for p in [p for p in self.kept if p.stream == parent and self._joins(edge, p, each)]:
                    self._remove(p)
        self.kept = [k for k in self.kept if k is not each]


def clustering_counters(values: Sequence[int]) -> dict[int, int]:
    """For each value: arrivals so far without those of other values since its first one."""
    counters: dict[int, int] = {}
    for number, value in enumerate(values, 1):
        counters[value] = counters[value] + 1 if value in counters else number
    return counters


def low_water(values: Sequence[int], k: int) -> int | None:
    """The least value that may still arrive, if any has been seen that is old enough."""
    return max(values[: max(len(values) - k, 0)], default=None)

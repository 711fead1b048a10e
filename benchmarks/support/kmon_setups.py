"""Streams of the experiments as arrivals of a join, cut into batches.

Time is the number of the arrival among those of all streams. A window of so many rows of its stream makes an
element valid until the arrival that pushes it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.support.kmon_data import Interleaved, Ints
from tidegate.physical.keyed_join.kernels.graph import Edge, Graph
from tidegate.physical.keyed_join.kernels.model import NEVER, Moment, StreamArrivals

WINDOW = 50_000
"""Rows of each stream."""

CHILDREN = Graph(("S1", "S2", "S3"), (Edge(0, 1), Edge(0, 2)))
PARENTS = Graph(("S1", "S2", "S3"), (Edge(0, 2), Edge(1, 2)))
ONE_EDGE = Graph(("S1", "S2"), (Edge(0, 1),))

COLUMNS = {CHILDREN: "ab", PARENTS: "aa", ONE_EDGE: "a"}
"""For each graph, the column by which each edge joins."""


@dataclass(frozen=True, slots=True, eq=False)
class Feed:
    """All arrivals of each stream, in the order of time."""

    graph: Graph
    streams: tuple[StreamArrivals, ...]
    count: int
    """The time up to which arrivals are processed; windows may end behind it."""

    def batches(self, size: int) -> Iterator[tuple[dict[int, StreamArrivals], Moment]]:
        """Batches of so much time, and what is known after each."""
        for begin in range(0, self.count, size):
            end = min(begin + size, self.count)
            cuts = [np.searchsorted(each.start, [begin, end]).tolist() for each in self.streams]
            batch = {s: _cut(self.streams[s], *cut) for s, cut in enumerate(cuts)}
            yield batch, Moment([end] * len(cuts), [cut[1] for cut in cuts])


def feed(graph: Graph, data: Interleaved, count: int, window: int = WINDOW) -> Feed:
    """The first arrivals of more data."""
    found = []
    for stream in range(len(graph)):
        at = np.flatnonzero(data.stream == stream + 1)
        end = np.full(len(at), NEVER)
        end[: max(len(at) - window, 0)] = at[window:]
        keys = {e: _column(data, COLUMNS[graph][e])[at] for e in graph.below[stream] + graph.above[stream]}
        passes = data.passing[at]
        number = np.arange(1, len(at) + 1)
        found.append(StreamArrivals(keys, at, end, number, at, None if passes.all() else passes))
    return Feed(graph, tuple(found), count)


def _column(data: Interleaved, name: str) -> Ints:
    return data.a if name == "a" else data.b


def _cut(arrivals: StreamArrivals, begin: int, end: int) -> StreamArrivals:
    rows = slice(begin, end)
    keys: Mapping[int, Ints] = {edge: column[rows] for edge, column in arrivals.keys.items()}
    passes = None if arrivals.passes is None else arrivals.passes[rows]
    return StreamArrivals(
        keys, arrivals.start[rows], arrivals.end[rows], arrivals.number[rows], arrivals.row[rows], passes
    )

"""Tuples that arrive one by one, at the reference and at the kernel, and what is then in the synopses."""

from __future__ import annotations

import numpy as np
from reference.synopses import Engine

from tidegate.physical.keyed_join.kernels.graph import Edge, Graph
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import NO, UNKNOWN, YES, Bound, Constraints, Moment, StreamArrivals
from tidegate.time import FOREVER

STAR = [(0, 1, 0, 0), (0, 2, 1, 0)]
"""S1(A, B) → S2(A, C), S1 → S3(B, D)."""

CHAIN = [(0, 1, 1, 0), (1, 2, 1, 0)]
"""S1(A, B) → S2(B, C) → S3(C, D)."""


def engine_after(arrivals, edges=STAR, streams=3, cover=(0,), filters=None, **given):
    settings = {"keeps_no": [1, 2], "filters": filters or {2: lambda values: values[1] < 8}} | given
    engine = Engine(streams, edges, cover, **settings)
    for stream, values in arrivals:
        engine.arrive(stream, values)
    return engine


class Kernel:
    """The join with batches of one tuple, and the values of its tuples."""

    def __init__(self, edges=STAR, streams=3, filters=None, covers=None, exact=False, **given):
        self.edges, self.filters = edges, filters or {2: lambda values: values[1] < 8}
        graph = Graph(tuple(f"S{i + 1}" for i in range(streams)), tuple(Edge(p, c) for p, c, _, _ in edges))
        cover = [(kind, edge, k) for members in (covers or {}).values() for edge, (kind, k) in members.items()]
        kinds = ("arriving", "ordered_children")
        bounds = {name: {e: Bound(k) for e, k in given.get(name, {}).items()} for name in kinds}
        self.constraints = Constraints(
            clustered={edge: Bound(k) for kind, edge, k in cover if kind == "CA"},
            ordered_parents={edge: Bound(k) for kind, edge, k in cover if kind == "OAP"},
            keeps_no=frozenset(given.get("keeps_no", range(1, streams))),
            **bounds,
        )
        self.join = SynopsisJoin.empty(graph, exact=exact, watched=frozenset(self.constraints.clustered))
        self.arrived, self.counts, self.results, self.answers = [], [0] * streams, [], []

    def arrive(self, stream, values):
        now = np.array([len(self.arrived)])
        self.arrived.append(values)
        self.counts[stream] += 1
        keys = {i: np.array([values[a]]) for i, (p, _, a, _) in enumerate(self.edges) if p == stream}
        keys |= {i: np.array([values[b]]) for i, (_, c, _, b) in enumerate(self.edges) if c == stream}
        passes = np.array([stream not in self.filters or self.filters[stream](values)])
        new = StreamArrivals(keys, now, np.array([FOREVER]), np.array([self.counts[stream]]), now, passes)
        self.step({stream: new}, len(self.arrived))

    def step(self, batch, watermark):
        streams = len(self.counts)
        answer = self.join.step(batch, Moment([watermark] * streams, self.counts), self.constraints)
        self.answers.append(answer)
        self.results += [tuple(self.arrived[r] for r in rows) for rows in zip(*answer.combinations.rows, strict=True)]

    def component(self, stream, name):
        table = self.join.tables[stream]
        wanted = {"Yes": YES, "No": NO, "Unknown": UNKNOWN}[name]
        return [self.arrived[row] for row in table["row"][table["component"] == wanted]]


def kernel_after(arrivals, **given):
    kernel = Kernel(**given)
    for stream, values in arrivals:
        kernel.arrive(stream, values)
    return kernel


def check(after, expected):
    assert sorted(after.results) == sorted(expected.get("results", []))
    for place, values in expected.items():
        if place != "results":
            name = {"Y": "Yes", "N": "No", "U": "Unknown"}[place[1]]
            assert sorted(after.component(int(place[0]), name)) == sorted(values), place

"""Tuples that arrive one by one, at the reference and at the kernel, and what is then in the synopses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from reference.synopses import Engine

from tidegate.physical.keyed_join.kernels.graph import Edge, Graph
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import (
    NO,
    UNKNOWN,
    YES,
    Bound,
    Constraints,
    Moment,
    StreamArrivals,
    SynopsisJoinResult,
)
from tidegate.time import FOREVER

STAR = [(0, 1, 0, 0), (0, 2, 1, 0)]
"""S1(A, B) → S2(A, C), S1 → S3(B, D)."""

CHAIN = [(0, 1, 1, 0), (1, 2, 1, 0)]
"""S1(A, B) → S2(B, C) → S3(C, D)."""

Values = tuple[int, ...]
Edges = Sequence[tuple[int, int, int, int]]
Filters = Mapping[int, Any]
"""What the values of a stream must satisfy. A stream that is not there can have None, for no filter at all."""
Covers = Mapping[int, Mapping[int, tuple[str, int]]]


def engine_after(
    arrivals: Sequence[tuple[int, Values]],
    edges: Edges = STAR,
    streams: int = 3,
    cover: Sequence[int] = (0,),
    filters: Filters | None = None,
    **given: Any,
) -> Engine:
    settings: dict[str, Any] = {"keeps_no": [1, 2], "filters": filters or {2: lambda values: values[1] < 8}} | given
    engine = Engine(streams, edges, cover, **settings)
    for stream, values in arrivals:
        engine.arrive(stream, values)
    return engine


class Kernel:
    """The join with batches of one tuple, and the values of its tuples."""

    def __init__(
        self,
        edges: Edges = STAR,
        streams: int = 3,
        filters: Filters | None = None,
        covers: Covers | None = None,
        exact: bool = False,
        **given: Any,
    ) -> None:
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
        self.counts = [0] * streams
        self.arrived: list[Values] = []
        self.results: list[tuple[Values, ...]] = []
        self.answers: list[SynopsisJoinResult] = []

    def arrive(self, stream: int, values: Values) -> None:
        now = np.array([len(self.arrived)])
        self.arrived.append(values)
        self.counts[stream] += 1
        keys = {i: np.array([values[a]]) for i, (p, _, a, _) in enumerate(self.edges) if p == stream}
        keys |= {i: np.array([values[b]]) for i, (_, c, _, b) in enumerate(self.edges) if c == stream}
        passes = np.array([stream not in self.filters or self.filters[stream](values)])
        new = StreamArrivals(keys, now, np.array([FOREVER]), np.array([self.counts[stream]]), now, passes)
        self.step({stream: new}, len(self.arrived))

    def step(self, batch: Mapping[int, StreamArrivals], watermark: int) -> None:
        streams = len(self.counts)
        answer = self.join.step(batch, Moment([watermark] * streams, self.counts), self.constraints)
        self.answers.append(answer)
        self.results += [tuple(self.arrived[r] for r in rows) for rows in zip(*answer.combinations.rows, strict=True)]

    def component(self, stream: int, name: str) -> list[Values]:
        table = self.join.tables[stream]
        wanted = {"Yes": YES, "No": NO, "Unknown": UNKNOWN}[name]
        return [self.arrived[row] for row in table["row"][table["component"] == wanted]]


def kernel_after(arrivals: Sequence[tuple[int, Values]], **given: Any) -> Kernel:
    kernel = Kernel(**given)
    for stream, values in arrivals:
        kernel.arrive(stream, values)
    return kernel


def check(after: Engine | Kernel, expected: Mapping[str, Any]) -> None:
    assert sorted(after.results) == sorted(expected.get("results", []))
    for place, values in expected.items():
        if place != "results":
            name = {"Y": "Yes", "N": "No", "U": "Unknown"}[place[1]]
            assert sorted(after.component(int(place[0]), name)) == sorted(values), place

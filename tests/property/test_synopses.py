"""Joins with synopses against the join by definition: any graph, constraints that hold or not, any cuts and buckets."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.synopses import (
    Tuple,
    clustering_delay,
    clustering_distance,
    join_delay,
    join_distance,
    scrambling_delay,
    scrambling_distances,
    window_join,
)
from support.examples import examples

from tidegate.physical.keyed_join.kernels import cold
from tidegate.physical.keyed_join.kernels.graph import Edge, Graph
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import NO, YES, Bound, Constraints, Moment, StreamArrivals
from tidegate.time import FOREVER

SHAPES = ["tree", "acyclic", "cyclic"]
KINDS = ["arriving", "clustered", "ordered_parents", "ordered_children"]
seeds = st.integers(0, 10**9)


@dataclass(frozen=True)
class World:
    graph: Graph
    tuples: list[Tuple]
    one_key: bool

    def of(self, stream):
        return [t for t in self.tuples if t.stream == stream]

    def expected(self):
        graph = self.graph
        found = window_join(graph.edges, len(graph), self.tuples)
        return Counter((*(t.row for t in combination), start, end) for combination, start, end in found)


def graph_of(random, shape):
    count = random.randint(2, 4)
    edges = {random.choice([(i, j), (j, i)]) for i in range(1, count) for j in [random.randrange(i)]}
    names = tuple("ABCD"[:count])
    for _ in range(0 if shape == "tree" else random.randint(1, 2)):
        parent, child = random.sample(range(count), 2)
        reached = Graph(names, tuple(Edge(*edge) for edge in edges)).reachable
        if shape == "acyclic" and parent in reached[child]:
            parent, child = child, parent
        edges.add((parent, child))
    edges = random.sample(sorted(edges), len(edges))
    return Graph(names, tuple(Edge(*edge) for edge in edges))


def world_of(random, shape, one_key=False, disorders=(0, 0, 3)):
    """Few keys and short times: children have each key once, parents any."""
    count: Counter[int] = Counter()
    graph, keys = graph_of(random, shape), random.randint(2, 4)
    order = []
    for stream in range(len(graph)):
        some = (keys - 1, keys) if graph.above[stream] else (keys, 4 * keys)
        order += [stream] * random.randint(*some)
    random.shuffle(order)
    own = {edge: random.sample(range(keys), keys) for edge in range(len(graph.edges))}
    shared = {stream: random.sample(range(keys), keys) for stream in range(len(graph))}
    windows = [random.choice([4, 10, 100, 100]) for _ in graph.streams]
    failing = [random.choice([0, 0, 0.3]) for _ in graph.streams]
    now, disorder, tuples = 0, random.choice(disorders), []
    for row, stream in enumerate(order):
        above, below = graph.above[stream], graph.below[stream]
        if one_key:
            key = shared[stream][count[stream]] if above else random.randrange(keys)
            mine = dict.fromkeys(above + below, key)
        else:
            mine = {e: own[e][count[stream]] for e in above} | {e: random.randrange(keys) for e in below}
        now, count[stream] = now + random.randint(0, 2), count[stream] + 1
        start, passes = now + random.randint(0, disorder), random.random() >= failing[stream]
        tuples.append(Tuple(stream, mine, start, start + windows[stream], count[stream], passes, row))
    return World(graph, tuples, one_key)


def distances(world, kind, edge):
    """How far arrivals deviate, in rows and in time."""
    parent, child = world.graph.edges[edge]
    if kind == "arriving":
        return join_distance(edge, parent, child, world.tuples), join_delay(edge, parent, child, world.tuples)
    arrivals = world.of(child if kind == "ordered_children" else parent)
    values, starts = [t.keys[edge] for t in arrivals], [t.start for t in arrivals]
    if kind == "clustered":
        return clustering_distance(values), clustering_delay(values, starts)
    return max(scrambling_distances(values), default=0), scrambling_delay(values, starts)


def constraints_of(random, world, kinds=KINDS, share=0.5, more=0):
    """Some constraints, with as much slack as there must be and some more."""
    chosen: dict[str, Any] = {}
    for kind in kinds:
        chosen[kind] = {}
        for edge in range(len(world.graph.edges)):
            if random.random() < share:
                rows, time = (max(k + more, 0) for k in distances(world, kind, edge))
                chosen[kind][edge] = random.choice([Bound(rows), Bound(None, time), Bound(rows, time)])
    streams = range(len(world.graph))
    return Constraints(**chosen, keeps_no=frozenset(s for s in streams if random.random() < 0.6))


def arrivals_of(graph, tuples, stream):
    keys = {e: np.array([t.keys[e] for t in tuples]) for e in graph.above[stream] + graph.below[stream]}
    names = ("start", "end", "number", "row", "passes")
    return StreamArrivals(keys, *(np.array([getattr(t, name) for t in tuples]) for name in names))


def joined(random, world, constraints, exact, cuts=(1, 1, 2, 3, 8, 50)):
    """The results of a join in some buckets, with any cuts, any order inside a batch, saved and loaded at times."""
    graph, buckets = world.graph, random.randint(1, 3) if world.one_key else 1
    kind = {"exact": exact, "watched": frozenset(constraints.clustered)}
    joins = [SynopsisJoin.empty(graph, **kind) for _ in range(buckets)]
    found: Counter[tuple[int, ...]] = Counter()
    begin = 0
    while begin < len(world.tuples):
        end = begin + random.choice(cuts)
        batch, begin = random.sample(world.tuples[begin:end], len(world.tuples[begin:end])), end
        later = [[t.start for t in world.tuples[end:] if t.stream == s] for s in range(len(graph))]
        watermarks = [min(starts, default=FOREVER) - random.choice([0, 0, 2]) for starts in later]
        moment = Moment(watermarks, [len(world.of(s)) - len(later[s]) for s in range(len(graph))])
        for bucket in range(buckets):
            mine = [t for t in batch if not world.one_key or next(iter(t.keys.values())) % buckets == bucket]
            streams = {t.stream for t in mine}
            parts = {s: arrivals_of(graph, [t for t in mine if t.stream == s], s) for s in streams}
            if random.random() < 0.2:
                joins[bucket] = SynopsisJoin.from_columns(joins[bucket].to_columns(), graph, **kind)
            answer = joins[bucket].step(parts, moment, constraints)
            assert not any(len(rows) for rows in answer.repeated)
            results = answer.combinations
            found.update(zip(*(r.tolist() for r in (*results.rows, results.start, results.end)), strict=True))
    return found


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=examples(50), deadline=None)
@given(seed=seeds, more=st.sampled_from([0, 0, 1]), one_key=st.booleans(), exact=st.booleans())
def test_constraints_that_hold_change_no_result(shape, seed, more, one_key, exact):
    random = Random(seed)
    world = world_of(random, shape, one_key)
    assert joined(random, world, constraints_of(random, world, more=more), exact) == world.expected()


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=examples(50), deadline=None)
@given(seed=seeds, more=st.sampled_from([-1, -2, -100]), one_key=st.booleans(), size=st.sampled_from([1, 2, 3, 100]))
def test_an_exact_join_misses_nothing_though_constraints_do_not_hold(shape, seed, more, one_key, size):
    random = Random(seed)
    world = world_of(random, shape, one_key)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cold, "FULL_SLICE", size)
        found = joined(random, world, constraints_of(random, world, share=0.8, more=more), True)
    assert found == world.expected()


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=examples(50), deadline=None)
@given(seed=seeds, more=st.sampled_from([-1, -2, -100]), one_key=st.booleans())
def test_a_lean_join_has_no_results_too_many_though_constraints_do_not_hold(shape, seed, more, one_key):
    random = Random(seed)
    world = world_of(random, shape, one_key)
    found = joined(random, world, constraints_of(random, world, more=more), False)
    assert not found - world.expected()


@pytest.mark.parametrize("kind", KINDS)
def test_with_a_smaller_k_results_are_lost_so_k_is_made_use_of(kind):
    lost, runs = 0, 0
    for seed in range(120):
        random = Random(seed)
        world = world_of(random, "tree")
        expected = world.expected()
        if expected and len(world.graph) < 4:
            runs += 1
            lost += joined(random, world, constraints_of(random, world, [kind], 1, -1), False, [1]) != expected
    assert lost >= runs / 10


def complete(world: World, tuples):
    """Rows of tuples that have, with one tuple of each stream that is reached from theirs, all they need."""
    found = set()
    for stream, reached in enumerate(world.graph.reachable):
        members = [stream, *sorted(reached - {stream})]
        edges = [(e, *edge) for e, edge in enumerate(world.graph.edges) if edge.parent in reached]
        candidates = [[t for t in tuples if t.stream == s and t.passes] for s in members]
        for combination in product(*candidates):
            of = dict(zip(members, combination, strict=True))
            if all(of[parent].keys[e] == of[child].keys[e] for e, parent, child in edges):
                found.add(combination[0].row)
    return found


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=examples(50), deadline=None)
@given(seed=seeds)
def test_what_is_complete_is_known_and_what_is_said_never_to_join_never_does(shape, seed):
    random = Random(seed)
    world = world_of(random, shape)
    forever = [replace(t, end=FOREVER) for t in world.tuples]
    some = forever[: random.randint(1, len(forever))]
    graph, streams = world.graph, range(len(world.graph))
    join = SynopsisJoin.empty(graph, exact=False)
    batch = {s: arrivals_of(graph, mine, s) for s in streams if (mine := [t for t in some if t.stream == s])}
    counts = [sum(t.stream == s for t in some) for s in streams]
    join.step(batch, Moment([0] * len(graph), counts), Constraints(keeps_no=frozenset(streams)))
    now, ever = complete(world, some), complete(world, forever)
    for stream in set(streams) - graph.single_covers:
        table = join.tables[stream]
        rows = {name: set(table["row"][table["component"] == name].tolist()) for name in (YES, NO)}
        assert rows[YES] == {row for row in now if forever[row].stream == stream}
        assert not rows[NO] & ever

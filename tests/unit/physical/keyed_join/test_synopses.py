"""Synopses of keyed joins: worked examples, tuple by tuple and as batches of one, and what is said of state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference.synopses import (
    Tuple,
    clustering_counters,
    clustering_distance,
    join_distance,
    low_water,
    scrambling_distances,
)
from support.synopses import CHAIN, check, engine_after, kernel_after

from tidegate.physical.keyed_join.kernels.graph import Edge, Graph
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import Bound, Constraints, Moment, StreamArrivals
from tidegate.time import FOREVER

BEGIN = [(1, (6, 20)), (1, (4, 15)), (2, (5, 3)), (2, (7, 9)), (2, (10, 12))]
CLUSTERED = {1: {0: ("CA", 0)}}
LATER = [(0, (4, 5)), (0, (6, 8)), (0, (3, 13))]
MISSED = [(0, (6, 10)), (0, (4, 10)), (0, (8, 8))]
BOTH = {"covers": {2: {1: ("CA", 0)}}, "arriving": {1: 3}, "keeps_no": [1]}

EXAMPLES: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "3.1": ([*BEGIN, (0, (6, 5)), (0, (8, 10))], {}, {
        "results": [((6, 5), (6, 20), (5, 3))], "0U": [], "1Y": [(6, 20), (4, 15)], "2Y": [(5, 3)],
        "2N": [(7, 9), (10, 12)]}),
    "4.1 waiting": ([*BEGIN, (0, (4, 10))], {"arriving": {1: 1}, "keeps_no": [1]}, {
        "results": [], "0U": [(4, 10)], "2Y": [(5, 3)], "2N": []}),
    "4.1 given up": ([*BEGIN, (0, (4, 10)), (2, (99, 1))], {"arriving": {1: 1}, "keeps_no": [1]}, {
        "results": [], "0U": [], "2Y": [(5, 3), (99, 1)], "2N": []}),
    "5.1 before": ([*BEGIN, (0, (6, 5)), (0, (8, 8)), (0, (4, 5))], {"covers": {2: {1: ("CA", 1)}}}, {
        "results": [((4, 5), (4, 15), (5, 3)), ((6, 5), (6, 20), (5, 3))], "2Y": [(5, 3)],
        "2N": [(7, 9), (10, 12)]}),
    "5.1": ([*BEGIN, (0, (6, 5)), (0, (8, 8)), (0, (4, 5)), (0, (11, 10))], {"covers": {2: {1: ("CA", 1)}}}, {
        "results": [((4, 5), (4, 15), (5, 3)), ((6, 5), (6, 20), (5, 3))],
        "0U": [(8, 8)], "1Y": [(6, 20), (4, 15)], "2Y": [], "2N": [(7, 9), (10, 12)]}),
    "8.1 i": (BEGIN + LATER, {"covers": CLUSTERED}, {
        "results": [((4, 5), (4, 15), (5, 3))], "0U": [(6, 8), (3, 13)], "1Y": [(6, 20)], "2N": [(7, 9), (10, 12)]}),
    "8.1 ii": (BEGIN + LATER, {"ordered_children": {1: 0}, "keeps_no": [1]}, {
        "results": [((4, 5), (4, 15), (5, 3))], "0U": [(3, 13)], "1Y": [(6, 20), (4, 15)], "2Y": [(5, 3)],
        "2N": []}),
    "8.1 iii": (BEGIN + LATER, {"ordered_children": {1: 0}, "keeps_no": [1], "covers": CLUSTERED}, {
        "results": [((4, 5), (4, 15), (5, 3))], "0U": [(3, 13)], "1Y": [], "2Y": [(5, 3)], "2N": []}),
    "8.2 i": (BEGIN + MISSED, {"covers": {2: {1: ("CA", 0)}}}, {
        "results": [], "0U": [(8, 8)], "2Y": [(5, 3)], "2N": [(7, 9)]}),
    "8.2 ii": (BEGIN + MISSED, BOTH, {
        "results": [], "0U": [(6, 10), (4, 10), (8, 8)], "2Y": [(5, 3)], "2N": []}),
    "8.2 ii, two later": (BEGIN + MISSED + [(2, (91, 1)), (2, (92, 1))], BOTH, {
        "results": [], "0U": [(6, 10), (4, 10), (8, 8)]}),
    "8.2 ii, three later": (BEGIN + MISSED + [(2, (91, 1)), (2, (92, 1)), (2, (93, 1))], BOTH, {
        "results": [], "0U": [], "2Y": [(5, 3), (91, 1), (92, 1), (93, 1)], "2N": []}),
    "F.1": ([(1, (6, 20)), (1, (4, 15)), (2, (7, 9)), (2, (5, 3)), (2, (10, 12)), (0, (6, 4))], {
        "ordered_children": {1: 2}, "keeps_no": [1]}, {"results": [], "0U": [], "2Y": [(5, 3)], "2N": []}),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("method", [engine_after, kernel_after])
def test_worked_examples_have_the_components_they_say(method, name):
    arrivals, given, expected = EXAMPLES[name]
    check(method(arrivals, **given), expected)


@pytest.mark.parametrize("method", [engine_after, kernel_after])
def test_a_chain_waits_for_its_last_child_example_3_2(method):
    filters = {2: lambda values: values[1] > 10}
    check(method([(1, (2, 4)), (0, (1, 2))], edges=CHAIN, filters=filters), {"0U": [(1, 2)], "1U": [(2, 4)]})
    after = method([(1, (2, 4)), (0, (1, 2)), (2, (4, 12))], edges=CHAIN, filters=filters)
    check(after, {"results": [((1, 2), (2, 4), (4, 12))], "0U": [], "1U": [], "1Y": [(2, 4)], "2Y": [(4, 12)]})


def test_distances_of_the_vectors_are_measured_exactly():
    def parents_and_children(sequence):
        numbers = {"P": 0, "C": 0}
        for name, key in sequence:
            numbers[name] += 1
            yield Tuple("PC".index(name), {0: key}, 0, 1, numbers[name])

    late = list(parents_and_children([("P", 7), ("C", 1), ("C", 2), ("C", 7)]))
    assert join_distance(0, 0, 1, late) == 3
    assert join_distance(0, 0, 1, list(parents_and_children([("C", 7), ("P", 7)]))) == 0
    assert clustering_distance([5, 8, 5, 10]) == 1
    assert [clustering_counters([5, 8, 5, 10][:n]) for n in range(1, 5)] == [
        {5: 1}, {5: 1, 8: 2}, {5: 2, 8: 2}, {5: 2, 8: 2, 10: 4},
    ]  # fmt: skip
    assert [v for v, c in clustering_counters([5, 8, 5, 10]).items() if c < 4 - 1] == [5, 8]
    assert scrambling_distances([7, 5, 10]) == [0, 1, 0]
    assert scrambling_distances([3, 9, 4, 5, 9, 8]) == [0, 0, 1, 2, 0, 4]
    assert [low_water([7, 5, 10], k) for k in (2, 1, 0)] == [7, 7, 10]


def test_covers_have_one_stream_of_every_group_of_sources():
    names = ("A", "B", "C", "D")
    assert Graph(names, (Edge(0, 1), Edge(2, 1), Edge(2, 3))).covers == ((0, 2),)
    cyclic = Graph(names, (Edge(0, 1), Edge(1, 0), Edge(1, 2), Edge(3, 2)))
    assert cyclic.shape == "cyclic"
    assert cyclic.covers == ((0, 3), (1, 3))
    assert Graph(names[:3], (Edge(0, 1), Edge(1, 2), Edge(0, 2))).shape == "acyclic"
    assert Graph(names[:3], (Edge(0, 1), Edge(1, 2), Edge(2, 0))).single_covers == {0, 1, 2}


def test_a_graph_in_two_parts_is_refused():
    with pytest.raises(ValueError, match="connected"):
        Graph(("A", "B", "C"), (Edge(0, 1),))


def test_a_second_child_with_a_live_key_is_reported_and_not_joined():
    kernel = kernel_after([(1, (6, 20)), (1, (6, 21)), (2, (5, 3)), (0, (6, 5))])
    assert [answer.repeated[1].tolist() for answer in kernel.answers] == [[], [1], [], []]
    assert kernel.results == [((6, 5), (6, 20), (5, 3))]


def test_parts_that_do_not_change_are_the_same_objects():
    kernel = kernel_after([*BEGIN, (0, (4, 10))])
    before = kernel.join.to_columns()
    kernel.step({}, len(kernel.arrived))
    assert all(part is before[name] for name, part in kernel.join.to_columns().items())
    kernel.arrive(2, (99, 1))
    later = kernel.join.to_columns()
    assert all(later[name] is part for name, part in before.items())
    assert {name: len(part["row"]) for name, part in later.items() if name not in before} == {"rows2 3": 1}


def test_an_empty_batch_never_makes_state_grow():
    kernel = kernel_after([*BEGIN, *LATER], covers=CLUSTERED)
    sizes = kernel.join.sizes()
    kernel.step({}, len(kernel.arrived))
    assert kernel.join.sizes() == sizes


def test_nothing_is_left_when_all_streams_are_finished():
    kernel = kernel_after([*BEGIN, *LATER], exact=True, covers={2: {1: ("CA", 0)}}, arriving={1: 0})
    assert sum(size.cold for size in kernel.join.sizes())
    kernel.step({}, FOREVER)
    assert not any(size.yes + size.unknown + size.no + size.cold for size in kernel.join.sizes())


def test_cold_elements_come_back_when_a_partner_arrives():
    kernel = kernel_after([(1, (4, 15)), (0, (4, 10))], exact=True, arriving={1: 0})
    assert (kernel.join.cold_rows(0).tolist(), kernel.join.live_rows(0).tolist()) == ([1], [])
    kernel.arrive(2, (10, 2))
    assert kernel.answers[-1].returned[0].tolist() == [1]
    assert kernel.results == [((4, 10), (4, 15), (10, 2))]


def test_parents_of_a_cold_child_are_cold_and_come_back_with_it():
    kernel = kernel_after([(0, (1, 2)), (1, (2, 4))], edges=CHAIN, filters={9: None}, exact=True, arriving={1: 0})
    assert [kernel.join.cold_rows(stream).tolist() for stream in range(3)] == [[0], [1], []]
    kernel.arrive(2, (4, 12))
    assert kernel.results == [((1, 2), (2, 4), (4, 12))]


GROUPS, WINDOW = 60_000, 50_000
"""A group is 5 parents and a child of each kind, in any order; after so many groups all windows are full."""

LEVELS = {0: 50_000, 1000: 52_500, 5000: 62_500, 10_000: 75_000, 20_000: 87_500}


def level_of(k, batch):
    """Elements kept at the end where children arrive up to k children after their parents, half of them failing."""
    random = np.random.default_rng(1)
    order = np.concatenate([random.permutation([0] * 5 + [1, 2]) for _ in range(GROUPS)])
    at = [np.flatnonzero(order == stream) for stream in range(3)]
    keys = []
    for stream in (1, 2):
        count = np.cumsum(order == stream)[at[0]]
        distance = random.integers(0, k + 1, len(count))
        earlier = np.maximum(count - random.integers(0, 50, len(count)), 1)
        keys.append(np.where(distance == 0, earlier, count + distance))
    passes: list[Any] = [None, *(random.random(GROUPS) < 0.5 for _ in range(2))]
    lengths = [WINDOW * 7 // 5, WINDOW * 7, WINDOW * 7]
    join = SynopsisJoin.empty(Graph(("S1", "S2", "S3"), (Edge(0, 1), Edge(0, 2))), exact=False)
    constraints = Constraints(arriving={0: Bound(k), 1: Bound(k)})
    for begin in range(0, len(order), batch):
        end, arrivals, counters = min(begin + batch, len(order)), {}, []
        for stream in range(3):
            first, last = np.searchsorted(at[stream], [begin, end])
            some, start = slice(first, last), at[stream][first:last]
            mine = {0: keys[0][some], 1: keys[1][some]} if stream == 0 else {stream - 1: np.arange(first, last) + 1}
            flags = None if passes[stream] is None else passes[stream][some]
            numbers = np.arange(first, last)
            arrivals[stream] = StreamArrivals(mine, start, start + lengths[stream], numbers + 1, numbers, flags)
            counters.append(int(last))
        join.step(arrivals, Moment([end] * 3, counters), constraints)
    return sum(size.yes + size.unknown + size.no for size in join.sizes())


@pytest.mark.slow
@pytest.mark.parametrize(("k", "level"), LEVELS.items())
def test_state_is_at_the_levels_that_follow_from_k(k, level):
    assert level_of(k, 10_000) == pytest.approx(level, rel=0.03)

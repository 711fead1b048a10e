"""Synopses of joins in which streams are reached in several ways, or from themselves.

A stream that is a cover by itself keeps neither what is complete nor what never joins. With a parent R above it,
it is seen which of the two its elements are.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.synopses import check, engine_after, kernel_after

from tidegate.physical.keyed_join.kernels.graph import Edge, Graph

DIAMOND = [(0, 1, 0, 0), (0, 2, 1, 0), (1, 3, 1, 0), (2, 3, 1, 0)]
"""S1(A, B) → S2(A, C) → S4(C), S1 → S3(B, C) → S4."""

CYCLE = [(0, 1, 1, 0), (1, 2, 1, 0), (2, 0, 1, 0)]
"""S1(A, B) → S2(B, C) → S3(C, A) → S1."""


@pytest.mark.parametrize("method", [engine_after, kernel_after])
def test_two_ways_to_different_elements_never_join_example_c_1(method):
    arrivals = [(3, (5,)), (3, (6,)), (1, (3, 5)), (2, (4, 6)), (0, (3, 4))]
    after = method(arrivals, edges=DIAMOND, streams=4, filters={9: None}, keeps_no=[0, 1, 2, 3])
    check(after, {"results": [], "0U": [], "0Y": [], "1Y": [(3, 5)], "2Y": [(4, 6)]})


def test_a_cycle_is_complete_at_once_example_d_1():
    arrivals = [(2, (3, 1)), (1, (2, 3)), (0, (1, 2)), (0, (4, 2))]
    expected = {"results": [((1, 2), (2, 3), (3, 1))], "0Y": [(1, 2)], "1Y": [(2, 3)], "2Y": [(3, 1)], "0N": [(4, 2)]}
    check(engine_after(arrivals, edges=CYCLE, filters={9: None}, single=False, keeps_no=[0]), expected)
    # A stream that is a cover by itself does not keep what is complete: the later parent waits for nothing.
    kept = {"results": expected["results"], "0Y": [], "1Y": [], "2Y": [], "0U": [(4, 2)]}
    check(kernel_after(arrivals, edges=CYCLE, filters={9: None}, keeps_no=[0]), kept)


@pytest.mark.parametrize("method", [engine_after, kernel_after])
def test_a_direct_edge_and_a_detour_are_compared(method):
    """S → X on one key of X, S → A → X on another one."""
    edges = [(0, 1, 0, 0), (0, 2, 1, 0), (2, 1, 1, 1)]
    arrivals = [(1, (1, 1)), (1, (2, 2)), (2, (1, 2)), (0, (1, 1))]
    check(method(arrivals, edges=edges, filters={9: None}), {"results": [], "0U": [], "0Y": [], "2Y": [(1, 2)]})


@pytest.mark.parametrize("method", [engine_after, kernel_after])
def test_a_member_of_a_closed_cycle_waits_for_its_other_child(method):
    edges = [(0, 1, 0, 0), (1, 0, 0, 0), (0, 2, 0, 0), (2, 0, 0, 0)]
    after = method([(0, (1,)), (1, (1,)), (2, (1,))], edges=edges, filters={9: None}, keeps_no=[])
    check(after, {"results": [((1,), (1,), (1,))]})
    # Two of them are complete with each other, and must not be taken to be complete.
    waiting = method([(0, (1,)), (1, (1,))], edges=edges, filters={9: None}, keeps_no=[])
    check(waiting, {"results": [], "0U": [(1,)], "1U": [(1,)], "0Y": [], "1Y": []})
    assert Graph(("S0", "S1", "S2"), tuple(Edge(p, c) for p, c, _, _ in edges)).covers == ((0,), (1,), (2,))


BELOW_R = {
    "C.1": (
        [(0, 1, 0, 0), (1, 2, 1, 0), (1, 3, 2, 0), (2, 4, 1, 0), (3, 4, 1, 0)],
        [(4, (5,)), (4, (6,)), (2, (3, 5)), (3, (4, 6)), (1, (1, 3, 4)), (0, (1,))],
        {"results": [], "1N": [(1, 3, 4)], "1Y": [], "0U": []},
    ),
    "a detour": (
        [(0, 1, 0, 0), (1, 2, 1, 0), (1, 3, 2, 0), (3, 2, 1, 1)],
        [(2, (1, 1)), (2, (2, 2)), (3, (1, 2)), (1, (7, 1, 1)), (0, (7,))],
        {"results": [], "1N": [(7, 1, 1)], "1Y": [], "0U": []},
    ),
}


@pytest.mark.parametrize("name", BELOW_R)
@pytest.mark.parametrize("method", [engine_after, kernel_after])
def test_what_never_joins_is_known_not_to(method, name):
    edges, arrivals, expected = BELOW_R[name]
    streams = 1 + max(child for _, child, _, _ in edges)
    check(method(arrivals, edges=edges, streams=streams, filters={9: None}, keeps_no=range(1, streams)), expected)


CYCLE_BELOW_R = [(0, 1, 0, 0), (1, 2, 1, 0), (2, 3, 1, 0), (3, 1, 1, 0)]
COURSE: list[tuple[list[tuple[int, tuple[int, ...]]], dict[str, Any]]] = [
    ([(3, (3, 1)), (2, (2, 3))], {"2U": [(2, 3)], "3U": [(3, 1)]}),
    ([(1, (1, 2))], {"1Y": [(1, 2)], "2Y": [(2, 3)], "3Y": [(3, 1)]}),
    ([(1, (4, 2))], {"1Y": [(1, 2)], "1N": [(4, 2)]}),
    ([(0, (1,)), (0, (4,))], {"results": [((1,), (1, 2), (2, 3), (3, 1))], "0U": []}),
]


@pytest.mark.parametrize("steps", range(1, len(COURSE) + 1))
@pytest.mark.parametrize("method", [engine_after, kernel_after])
def test_a_cycle_below_a_parent_is_complete_when_it_is_closed_example_d_1(method, steps):
    arrivals = [arrival for some, _ in COURSE[:steps] for arrival in some]
    given = {"edges": CYCLE_BELOW_R, "streams": 4, "filters": {9: None}, "keeps_no": [1, 2, 3]}
    check(method(arrivals, **given), COURSE[steps - 1][1])


@pytest.mark.parametrize("streams", [2, 3])
def test_a_key_that_comes_again_is_noticed_though_its_element_was_complete(streams):
    edges = [edge for s in range(1, streams) for edge in ((0, s, 0, 0), (s, 0, 0, 0))]
    arrivals = [*((s, (1,)) for s in range(streams)), (1, (1,)), (0, (1,)), (1, (2,))]
    kernel = kernel_after(arrivals, edges=edges, streams=streams, filters={9: None}, exact=True)
    repeated = [[stream for stream in range(streams) if len(answer.repeated[stream])] for answer in kernel.answers]
    assert repeated == [[]] * streams + [[1], [0], []]
    assert kernel.results == [((1,),) * streams]

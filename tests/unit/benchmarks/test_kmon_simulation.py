"""What a keyed joins keeps is never more than what the paper's method does, element by element."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.support import kmon_data as made
from benchmarks.support.kmon_figures import EXPERIMENTS
from benchmarks.support.kmon_runs import lived
from benchmarks.support.kmon_setups import CHILDREN, Feed, feed
from benchmarks.support.kmon_simulation import simulated
from tidegate.physical.keyed_join.kernels.model import Bound, Constraints

COUNT, WINDOW, SIZE = 6_000, 500, 100
MORE = SIZE // 7 + 2
"""So many children a batch may have: parents are taken to have come behind all that came with them."""


def assert_no_more_is_kept(given: Feed, constraints: Constraints) -> None:
    course = lived(given, constraints, SIZE)
    assert course.equal
    assert course.results
    arriving = {edge: Bound((bound.rows or 0) + MORE) for edge, bound in constraints.arriving.items()}
    others = simulated(given, replace(constraints, arriving=arriving), SIZE)
    assert all(ours <= theirs for ours, theirs in zip(course.kept, others, strict=True))
    assert sum(course.kept) > 0.75 * sum(others), "it is not the simulation that keeps too much"


@pytest.mark.parametrize("k", [0, 3, 50, 400])
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.figure)
def test_with_one_constraint(experiment, k):
    data = experiment.make(COUNT * 6 // 5, k)
    assert_no_more_is_kept(feed(experiment.graph, data, COUNT, WINDOW), experiment.constraints(data))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
def test_with_combined_constraints(ordered, clustered):
    data = made.combined(COUNT * 6 // 5, 5, orders=50)
    constraints = Constraints(
        clustered={0: Bound(made.clusters_k(data, 1))} if clustered else {},
        ordered_children={1: Bound(made.orders_k(data, 3, "b"))} if ordered else {},
        keeps_no=frozenset({1} if ordered else {1, 2}),
    )
    assert_no_more_is_kept(feed(CHILDREN, data, COUNT, WINDOW), constraints)

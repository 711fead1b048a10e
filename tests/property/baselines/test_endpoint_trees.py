"""Distributed tracking, stabbing, R-trees and scanning against brute force: the same queries, elements and totals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference.ranges import Query
from strategies.ranges import THRESHOLDS, World, dense, histories, ranges_of, through, worlds

from benchmarks.baselines import rtree, tracking_level
from benchmarks.baselines.rtree import RTreeTracker
from benchmarks.baselines.scan import ScanTracker
from benchmarks.baselines.stabbing import StabbingTracker
from benchmarks.baselines.tracking import DistributedTracker
from benchmarks.baselines.tracking_cuts import cells_of, in_cells
from benchmarks.baselines.tracking_heaps import DUE, NEVER, heaps_of
from benchmarks.baselines.tracking_trees import Members, canonical, planted
from tidegate.physical.subscriptions.kernels.boxes import places

LEVELS = {"tracking": DistributedTracker, "stabbing": StabbingTracker, "rtree": RTreeTracker}
METHODS = [*LEVELS, "scan"]

smallest = st.sampled_from([1, 2, 5, 64])


def compare(method, world, steps, smallest):
    """What a method answers on the way, and the definition."""
    if method == "scan":
        assume(not world.repeats)
        steps = [step for step in steps if step[0] not in ("save", "reload")]
        through(ScanTracker(), world, steps, ScanTracker, ScanTracker.from_columns)
        return

    def new():
        return LEVELS[method](smallest=smallest, repeats=world.repeats)

    def load(parts):
        return LEVELS[method].from_columns(parts, repeats=world.repeats, smallest=smallest)

    through(new(), world, steps, new, load)


@pytest.mark.parametrize("often", [True, False])
@pytest.mark.parametrize("method", METHODS)
@given(history=histories, smallest=smallest)
def test_queries_mature_as_defined_whatever_happens_between(method, often, history, smallest):
    with pytest.MonkeyPatch.context() as patch:
        if not often:
            patch.setattr(tracking_level, "_REPLAYED", 0)
            patch.setattr(tracking_level, "_ROOM", 2)
            patch.setattr(rtree, "FAN", 2)
        world, steps = history
        compare(method, world, steps, smallest)


@pytest.mark.parametrize("often", [True, False])
@pytest.mark.parametrize("method", METHODS)
@given(world=worlds, seed=st.integers(0, 10**6), smallest=smallest)
def test_queries_mature_as_defined_when_much_happens(method, often, world, seed, smallest):
    with pytest.MonkeyPatch.context() as patch:
        if not often:
            patch.setattr(tracking_level, "_REPLAYED", 0)
            patch.setattr(tracking_level, "_ROOM", 2)
            patch.setattr(rtree, "FAN", 2)
        compare(method, world, dense(world, seed), smallest)


@pytest.mark.parametrize("method", METHODS)
@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11), THRESHOLDS), min_size=1, max_size=20),
    st.randoms(use_true_random=False),
    smallest,
)
def test_cuts_of_the_elements_do_not_matter(method, dimensions, ends, random, smallest):
    """Many ends in each dimension, so that ranges have many canonical nodes and go through several rounds."""
    queries = []
    for number, (one, other, threshold) in enumerate(ends):
        side = (float(min(one, other)), False, float(max(one, other)), random.random() < 0.5)
        queries.append(
            Query(number, tuple(random.choice([side, (0.0, True, 11.0, False)]) for _ in range(dimensions)), threshold)
        )
    # Weights of about the slack: what a node has not signalled yet must not be forgotten.
    heaviest = random.choice([3, 20, 60])
    rows = [
        (
            tuple(random.choice([1.0, 2.0, 4.0, 5.5, 7.0, 9.0, 11.0]) for _ in range(dimensions)),
            random.randint(1, heaviest),
        )
        for _ in range(random.randrange(120))
    ]
    steps = [("register", [(query.sides, query.threshold) for query in queries])]
    while rows:
        length = random.choice([1, 2, 7, 50, 1000])
        steps.append(("absorb", rows[:length]))
        rows = rows[length:]
    compare(method, World(dimensions), steps, smallest)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12)), min_size=1, max_size=12))
def test_canonical_nodes_cover_every_leaf_of_a_range_once_and_no_other(spans):
    ends = np.array([(low, low + length) for low, length in spans], np.int32)
    members = Members(np.zeros(len(ends), np.int64), np.arange(len(ends)))
    grove = planted(members, ends[:, 0].copy(), ends[:, 1].copy())
    found, leaves = canonical(grove), int(grove.leaves[0])
    for query in range(len(ends)):
        nodes = found.node[found.query == query].tolist()
        under = [u for u in range(leaves, 2 * leaves) for node in nodes if is_ancestor(node, u)]
        assert sorted(under) == list(range(leaves + grove.low_leaf[query], leaves + grove.high_leaf[query]))
        assert all(sum(n.bit_length() == level for n in nodes) <= 2 for level in range(10))


def is_ancestor(node, other):
    return other.bit_length() >= node.bit_length() and other >> (other.bit_length() - node.bit_length()) == node


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=20),
    st.lists(st.tuples(st.integers(0, 19), st.integers(0, 5) | st.none()), max_size=40),
)
def test_the_least_key_of_every_heap_is_known_whatever_changes(entries, changes):
    from benchmarks.baselines.tracking_heaps import change_key, take_out

    node, key = (np.array(column) for column in zip(*entries, strict=True))
    heaps = heaps_of(node.astype(np.int32), key, 3)
    held = dict(enumerate(key.tolist()))
    for entry, to in changes:
        if entry in held and to is None:
            take_out(heaps, entry)
            del held[entry]
        elif entry in held:
            change_key(heaps, entry, to)
            held[entry] = to
        for each in range(3):
            keys = [k for e, k in held.items() if node[e] == each]
            assert heaps.nodes[each, DUE] == min(keys, default=NEVER)


PLANE = World(2)


@given(
    st.lists(st.tuples(PLANE.sides(), st.just(1)), min_size=1, max_size=8),
    st.lists(st.tuples(PLANE.values(), PLANE.values()), max_size=8),
)
def test_a_point_is_in_the_cells_of_the_ranges_it_is_in(wanted, points):
    queries = [Query(number, *each) for number, each in enumerate(wanted)]
    boxes = in_cells(ranges_of(queries, PLANE))
    cells = cells_of(boxes.cuts, places(np.array(points, np.float64).reshape(-1, 2))).T
    for number, query in enumerate(queries):
        inside = (boxes.low[:, [number]] <= cells) & (cells < boxes.high[:, [number]])
        assert inside.all(axis=0).tolist() == [query.holds(point) for point in points]

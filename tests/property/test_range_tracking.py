"""Distributed tracking, stabbing and scanning against brute force: the same queries, elements and totals."""

from __future__ import annotations

import math
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.ranges import BruteForce, Query

from tidegate.physical.kernels.ranges.model import Elements, Ranges
from tidegate.physical.kernels.ranges.scan import ScanTracker
from tidegate.physical.kernels.ranges.stabbing import StabbingTracker
from tidegate.physical.kernels.ranges.tracking import DistributedTracker
from tidegate.physical.kernels.ranges.tracking_cuts import cells_of, in_cells
from tidegate.physical.kernels.ranges.tracking_heaps import DUE, NEVER, heaps_of
from tidegate.physical.kernels.ranges.tracking_trees import Members, canonical, planted

METHODS = {"tracking": DistributedTracker, "stabbing": StabbingTracker, "scan": lambda smallest: ScanTracker()}

numbers = st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0])
values = numbers | numbers | numbers | st.sampled_from([0.5, -0.0, 5.0, -1.0, math.inf, -math.inf, math.nan])
thresholds = st.integers(1, 8) | st.integers(50, 300)
weights = st.integers(1, 3) | st.integers(1, 3) | st.integers(1, 3) | st.just(20)
smallest = st.sampled_from([1, 2, 5, 64])


def sides(dimensions):
    """Mostly ranges that points can be in; now and then one that is empty."""
    lows, highs = numbers | st.just(-math.inf), numbers | st.just(math.inf)
    some = st.tuples(lows, st.booleans(), highs, st.booleans())
    ordered = some.map(lambda s: (min(s[0], s[2]), s[1], max(s[0], s[2]), s[3]))
    return st.tuples(*[ordered | ordered | ordered | some] * dimensions)


def operations(dimensions):
    """Registrations, terminations of ids that may be known, elements, and ways through columns and copies."""
    wanted = st.lists(st.tuples(sides(dimensions), thresholds), max_size=8)
    arrivals = st.lists(st.tuples(st.tuples(*[values] * dimensions), weights), max_size=30)
    return st.lists(
        st.tuples(st.just("register"), wanted)
        | st.tuples(st.just("terminate"), st.lists(st.integers(0, 12), max_size=6))
        | st.tuples(st.just("absorb"), arrivals)
        | st.tuples(st.just("absorb"), arrivals)
        | st.tuples(st.sampled_from(["reload", "copy"]), st.none()),
        max_size=14,
    )


histories = st.integers(1, 3).flatmap(lambda d: st.tuples(st.just(d), operations(d)))


def ranges_of(queries, dimensions):
    ends = np.array([q.sides for q in queries], np.float64).reshape(len(queries), dimensions, 4)
    ids, required = [q.id for q in queries], [q.threshold for q in queries]
    opens = ends[:, :, 1] > 0, ends[:, :, 3] > 0
    return Ranges(np.array(ids, np.int64), ends[:, :, 0], ends[:, :, 2], *opens, np.array(required, np.int64))


def elements_of(rows, dimensions):
    """As they come from a file: in arrays that cannot be written to."""
    value = np.array([v for v, _ in rows], np.float64).reshape(len(rows), dimensions)
    weight = np.array([w for _, w in rows], np.int64)
    value.flags.writeable = weight.flags.writeable = False
    return Elements(value, weight)


def rows_of(matured):
    return list(zip(matured.id.tolist(), matured.element.tolist(), matured.total.tolist(), strict=True))


def stored(parts):
    """The parts as they come back from a file."""
    copies = {name: {key: column.copy() for key, column in columns.items()} for name, columns in parts.items()}
    for columns in copies.values():
        assert len({column.shape for column in columns.values()}) == 1
        for column in columns.values():
            assert column.ndim == 1
            column.flags.writeable = False
    return copies


def through(tracker, dimensions, steps):
    """What is answered on the way, by a tracker and by brute force."""
    expected, ids = BruteForce(), count()
    for kind, what in steps:
        match kind:
            case "register":
                queries = [Query(next(ids), *each) for each in what]
                expected.register(queries)
                tracker = tracker.register(ranges_of(queries[::-1], dimensions))
            case "terminate":
                assert tracker.known(np.array(what, np.int64)).tolist() == [i in expected.live for i in what]
                tracker, known = tracker.terminate(np.array(what, np.int64))
                assert known.tolist() == expected.terminate(what)
            case "absorb":
                tracker, matured = tracker.absorb(elements_of(what, dimensions))
                assert rows_of(matured) == expected.absorb(what)
            case "reload":
                tracker = type(tracker).from_columns(stored(tracker.to_columns()))
            case "copy":
                left, tracker = tracker, tracker.copy()
                left.absorb(elements_of([((1.0,) * dimensions, 300)], dimensions))
        assert len(tracker) == len(expected.live)


@pytest.mark.parametrize("method", METHODS)
@given(histories, smallest)
def test_queries_mature_as_defined_whatever_happens_between(method, history, smallest):
    through(METHODS[method](smallest=smallest), *history)


@pytest.mark.parametrize("method", METHODS)
@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11), thresholds), min_size=1, max_size=20),
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
    through(METHODS[method](smallest=smallest), dimensions, steps)


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
    from tidegate.physical.kernels.ranges.tracking_heaps import change_key, take_out

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


@given(
    st.lists(st.tuples(sides(2), st.just(1)), min_size=1, max_size=8), st.lists(st.tuples(values, values), max_size=8)
)
def test_a_point_is_in_the_cells_of_the_ranges_it_is_in(wanted, points):
    queries = [Query(number, *each) for number, each in enumerate(wanted)]
    boxes = in_cells(ranges_of(queries, 2))
    cells = cells_of(boxes.cuts, np.array(points, np.float64).reshape(-1, 2)).T
    for number, query in enumerate(queries):
        inside = (boxes.low[:, [number]] <= cells) & (cells < boxes.high[:, [number]])
        assert inside.all(axis=0).tolist() == [query.holds(point) for point in points]

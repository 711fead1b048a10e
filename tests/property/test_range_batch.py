"""Tracking ranges by batches against its definition: the same queries, elements and totals, whatever the cuts."""

from __future__ import annotations

import math
from itertools import count
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.ranges import BruteForce, Query

from tidegate.physical.kernels.ranges import batch_cells, batch_sweep
from tidegate.physical.kernels.ranges.batch import BatchTracker
from tidegate.physical.kernels.ranges.batch_model import Settings
from tidegate.physical.kernels.ranges.model import Elements, Ranges

numbers = st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, 4.0])
lows = numbers | st.just(-math.inf)
highs = numbers | st.just(math.inf)
values = numbers | numbers | numbers | st.sampled_from([math.nan, math.inf, -math.inf, 5e-324, 0.5])
sizes = st.builds(
    Settings,
    cut=st.sampled_from([1, 2, 3, 7, 100]),
    fresh=st.sampled_from([0, 1, 2, 5]),
    share=st.sampled_from([0, 1, 2, 4]),
    block=st.sampled_from([1, 2, 3, 100]),
    patience=st.sampled_from([0.0, 1.0, 10.0]),
)


def sides(dimensions):
    return st.tuples(*[st.tuples(lows, st.booleans(), highs, st.booleans())] * dimensions)


def wanted(dimensions):
    return st.lists(st.tuples(sides(dimensions), st.integers(1, 8)), max_size=6)


def arrivals(dimensions):
    return st.lists(st.tuples(st.tuples(*[values] * dimensions), st.integers(1, 3)), max_size=12)


def operations(dimensions):
    """Registrations, terminations of ids that may be known, elements, and ways through columns, copies and others."""
    return st.lists(
        st.tuples(st.just("register"), wanted(dimensions))
        | st.tuples(st.just("terminate"), st.lists(st.integers(0, 12), max_size=4))
        | st.tuples(st.just("absorb"), arrivals(dimensions))
        | st.tuples(st.just("absorb"), arrivals(dimensions))
        | st.tuples(st.sampled_from(["reload", "copy", "resume"]), st.none()),
        max_size=14,
    )


histories = st.integers(1, 3).flatmap(lambda d: st.tuples(st.just(d), operations(d)))
mixtures = st.integers(1, 3).flatmap(
    lambda d: st.tuples(
        st.just(d), st.lists(st.tuples(arrivals(d), wanted(d), st.lists(st.integers(0, 12))), max_size=5)
    )
)


def ranges_of(queries, dimensions):
    ends = np.array([q.sides for q in queries], np.float64).reshape(len(queries), dimensions, 4)
    ids, thresholds = [q.id for q in queries], [q.threshold for q in queries]
    opens = ends[:, :, 1] > 0, ends[:, :, 3] > 0
    return Ranges(np.array(ids, np.int64), ends[:, :, 0], ends[:, :, 2], *opens, np.array(thresholds, np.int64))


def elements_of(rows, dimensions):
    value = np.array([v for v, _ in rows], np.float64).reshape(len(rows), dimensions)
    return Elements(value, np.array([w for _, w in rows], np.int64))


def rows_of(matured):
    return list(zip(matured.id.tolist(), matured.element.tolist(), matured.total.tolist(), strict=True))


def stored(parts):
    """The parts as they come back from a file: other arrays, which cannot be written."""
    copies = {name: {key: column.copy() for key, column in columns.items()} for name, columns in parts.items()}
    for columns in copies.values():
        assert len({len(column) for column in columns.values()}) == 1
        assert all(column.ndim == 1 for column in columns.values())
        for column in columns.values():
            column.flags.writeable = False
    return copies


@pytest.mark.parametrize("swept", [True, False])
@settings(max_examples=80, deadline=None)
@given(history=histories, sizes=sizes)
def test_queries_mature_as_defined_whatever_happens_between(swept, history, sizes):
    with pytest.MonkeyPatch.context() as patch:
        if swept:
            nothing_is_few(patch)
        check(*history, sizes)


def nothing_is_few(patch):
    """Sort, sweep and halve even where looking directly would be faster."""
    patch.setattr(batch_cells, "_FEW", 0)
    for name in ("_FEW", "_SHORT", "_LEAF", "_HALF"):
        patch.setattr(batch_sweep, name, int(name in ("_LEAF", "_HALF")))


def check(dimensions, steps, sizes):
    tracker, expected, ids = BatchTracker.empty(dimensions, sizes), BruteForce(), count()
    for kind, what in steps:
        match kind:
            case "register":
                queries = [Query(next(ids), *each) for each in what]
                expected.register(queries)
                tracker = tracker.register(ranges_of(queries, dimensions))
            case "terminate":
                assert tracker.known(np.array(what, np.int64)).tolist() == [i in expected.live for i in what]
                tracker, known = tracker.terminate(np.array(what, np.int64))
                assert known.tolist() == expected.terminate(what)
            case "absorb":
                tracker, matured = tracker.absorb(elements_of(what, dimensions))
                assert rows_of(matured) == expected.absorb(what)
            case "reload":
                tracker = BatchTracker.from_columns(stored(tracker.to_columns()), sizes)
            case "resume":
                tracker = BatchTracker.empty(dimensions, sizes).resume(*tracker.rest())
            case "copy":
                left, tracker = tracker, tracker.copy()
                left.absorb(elements_of([((number,) * dimensions, 3) for number in (0.0, 1.0, 2.0, 3.0)], dimensions))
        assert len(tracker) == len(expected.live)


@settings(max_examples=50, deadline=None)
@given(mixtures, sizes)
def test_registering_among_the_elements_is_cutting_the_batch(mixture, sizes):
    dimensions, steps = mixture
    tracker, expected, ids = BatchTracker.empty(dimensions, sizes), BruteForce(), count()
    for rows, new, places in steps:
        queries = [Query(next(ids), *each) for each in new]
        position = sorted(min(place, len(rows)) for place in [*places, *[0] * len(new)][: len(new)])
        found = []
        for here in range(len(rows) + 1):
            expected.register([q for q, place in zip(queries, position, strict=True) if place == here])
            found += [(i, here, total) for i, _, total in expected.absorb(rows[here : here + 1])]
        columns = (elements_of(rows, dimensions), ranges_of(queries, dimensions), np.array(position, np.int64))
        tracker, matured = tracker.absorb_with(*columns)
        assert rows_of(matured) == found
        assert len(tracker) == len(expected.live)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10**6), sizes)
def test_many_queries_of_few_kinds_mature_together(dimensions, seed, sizes):
    """Enough of them to be searched for all at once, and enough elements for several levels of the search."""
    random = Random(seed)

    def side():
        low, high = sorted([random.randint(0, 6), random.randint(0, 6)])
        return (float(low), random.random() < 0.3, float(high), random.random() < 0.3)

    queries = [
        Query(i, tuple(side() for _ in range(dimensions)), random.choice([5, 20, 40, 10**18])) for i in range(200)
    ]
    sizes = Settings(random.choice([20, 50]), random.choice([0, 20]), 1, random.choice([4, 64]), sizes.patience)
    tracker, expected = BatchTracker.empty(dimensions, sizes), BruteForce()
    for begin in range(0, 200, 50):
        some = queries[begin : begin + 50]
        expected.register(some)
        tracker = tracker.register(ranges_of(some, dimensions))
        rows = [
            (tuple(float(random.randint(0, 6)) for _ in range(dimensions)), random.randint(1, 3)) for _ in range(60)
        ]
        tracker, matured = tracker.absorb(elements_of(rows, dimensions))
        assert rows_of(matured) == expected.absorb(rows)
        ids = [random.randrange(200) for _ in range(20)]
        tracker, known = tracker.terminate(np.array(ids, np.int64))
        assert known.tolist() == expected.terminate(ids)
        assert len(tracker) == len(expected.live)

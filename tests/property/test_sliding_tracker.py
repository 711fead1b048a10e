"""Totals within the last time against their definition: the same queries, elements and totals, whatever the cuts."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import count
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.range_sliding import SlidingBruteForce
from reference.ranges import Query
from support.examples import examples

from tidegate.physical.subscriptions.kernels import batch_sweep, sliding_search, sliding_weights
from tidegate.physical.subscriptions.kernels.model import Subscriptions, WeightedElements
from tidegate.physical.subscriptions.kernels.sliding import SlidingTracker
from tidegate.physical.subscriptions.kernels.sliding_model import SlidingSettings

LEAST, MOST = -(2**63), 2**63 - 1

numbers = st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0])
doubles = (
    numbers | st.just(-math.inf),
    numbers | st.just(math.inf),
    numbers | numbers | numbers | st.sampled_from([math.nan, math.inf, -math.inf, 5e-324, 0.5]),
)
whole = st.integers(0, 3)
integers = (whole | st.just(LEAST), whole | st.just(MOST), whole | whole | whole | st.sampled_from([LEAST, MOST]))
sizes = st.builds(
    SlidingSettings,
    cut=st.sampled_from([1, 2, 3, 7, 100]),
    leaf=st.sampled_from([1, 2, 100]),
    share=st.sampled_from([0, 1, 4]),
    most=st.sampled_from([1, 4, 100]),
    patience=st.sampled_from([0.0, 0.25, 1.0, 3.0]),
)


@st.composite
def histories(draw):
    """What is registered, terminated and absorbed, and ways through columns and copies."""
    dimensions, keyed = draw(st.integers(1, 3)), draw(st.booleans())
    lows, highs, values = draw(st.sampled_from([doubles, integers]))
    sides = [st.tuples(lows, st.booleans(), highs, st.booleans())] * dimensions
    axes = [values] * dimensions
    if keyed:
        key = st.integers(0, 2)
        sides, axes = [key.map(lambda g: (g, False, g, False)), *sides], [key, *axes]
    wanted = st.lists(st.tuples(st.tuples(*sides), st.integers(1, 8)), max_size=5)
    gaps = st.sampled_from([0, 0, 1, 1, 2, 5])
    arrivals = st.lists(st.tuples(gaps, st.tuples(*axes), st.integers(1, 3)), max_size=12)
    absorb = st.tuples(st.just("absorb"), st.tuples(arrivals, wanted, st.lists(st.integers(0, 12), max_size=5)))
    steps = st.lists(
        absorb
        | absorb
        | st.tuples(st.just("register"), wanted)
        | st.tuples(st.just("terminate"), st.lists(st.integers(0, 12), max_size=4))
        | st.tuples(st.sampled_from(["reload", "copy"]), st.none()),
        max_size=12,
    )
    number = np.int64 if lows is integers[0] else np.float64
    return number, dimensions + keyed, keyed, draw(steps)


def ranges_of(queries, axes, number):
    ends = [[[side[part] for side in query.sides] for query in queries] for part in range(4)]
    shaped = [np.array(end, kind).reshape(-1, axes) for end, kind in zip(ends, (number, bool) * 2, strict=True)]
    ids, thresholds = ([getattr(query, name) for query in queries] for name in ("id", "threshold"))
    low, low_open, high, high_open = shaped
    return Subscriptions(np.array(ids, np.int64), low, high, low_open, high_open, np.array(thresholds, np.int64))


def elements_of(rows, axes, number):
    value = np.array([value for _, value, _ in rows], number).reshape(len(rows), axes)
    weight, time = (np.array([row[part] for row in rows], np.int64) for part in (2, 0))
    return WeightedElements(value, weight), time


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


def equal(parts, others):
    return parts.keys() == others.keys() and all(
        (column == others[name][key]).all() for name, columns in parts.items() for key, column in columns.items()
    )


@pytest.mark.parametrize("swept", [True, False])
@settings(max_examples=examples(60), deadline=None)
@given(history=histories(), length=st.integers(1, 6), repeats=st.booleans(), sizes=sizes)
def test_queries_mature_as_defined_whatever_happens_between(swept, history, length, repeats, sizes):
    with pytest.MonkeyPatch.context() as patch:
        if swept:
            nothing_is_few(patch)
        number, axes, keyed, steps = history
        check(number, axes, keyed, steps, length, repeats, sizes)


def nothing_is_few(patch):
    """Sort, sweep and cut even where looking directly would be faster."""
    patch.setattr(sliding_search, "_FEW", 0)
    patch.setattr(sliding_search, "_PARTS", 2)
    patch.setattr(sliding_weights, "_FEW", 1)
    for name in ("_FEW", "_SHORT", "_LEAF", "_HALF"):
        patch.setattr(batch_sweep, name, int(name in ("_LEAF", "_HALF")))


def check(number, axes, keyed, steps, length, repeats, sizes):
    tracker = SlidingTracker.empty(axes, length, keyed=keyed, repeats=repeats, settings=sizes)
    expected, ids, now = SlidingBruteForce(length, repeats), count(), 0
    for kind, what in steps:
        before = tracker.to_columns()
        kept = stored(before)
        match kind:
            case "register":
                queries = [Query(next(ids), *each) for each in what]
                expected.register(queries)
                tracker = tracker.register(ranges_of(queries, axes, number))
            case "terminate":
                assert tracker.are_live(np.array(what, np.int64)).tolist() == [i in expected.live for i in what]
                tracker, known = tracker.terminate(np.array(what, np.int64))
                assert known.tolist() == expected.terminate(what)
            case "absorb":
                arrivals, new, places = what
                rows = []
                for gap, value, weight in arrivals:
                    now += gap
                    rows.append((now, value, weight))
                queries = [Query(next(ids), *each) for each in new]
                position = sorted(min(place, len(rows)) for place in [*places, *[0] * len(new)][: len(new)])
                found = by_definition(expected, rows, queries, position)
                elements, time = elements_of(rows, axes, number)
                ranges = ranges_of(queries, axes, number)
                tracker, matured = tracker.absorb_with(elements, time, ranges, np.array(position, np.int64))
                assert rows_of(matured) == found
            case "reload":
                tracker = SlidingTracker.from_columns(stored(before), sizes)
            case "copy":
                left, tracker = tracker, tracker.copy()
                rows = [(now + each, (each,) * axes, 3) for each in range(4)]
                none = ranges_of([], axes, number)
                elements, time = elements_of(rows, axes, number)
                left.absorb_with(elements, time, none, np.empty(0, np.int64))
        assert len(tracker) == len(expected.live)
        assert equal(before, kept)
        after = tracker.to_columns()
        again = tracker.to_columns()
        assert after.keys() == again.keys()
        assert all(after[name] is again[name] for name in after)
    check_rest(tracker, expected)


def by_definition(expected, rows, queries, position):
    found = []
    for here in range(len(rows) + 1):
        expected.register([query for query, place in zip(queries, position, strict=True) if place == here])
        found += [(i, here, total) for i, _, total in expected.absorb(rows[here : here + 1])]
    return found


def check_rest(tracker, expected):
    ranges, lacking = tracker.live_subscriptions()
    totals = {i: expected.total(*each) if expected.seen else 0 for i, each in expected.live.items()}
    lacked = {i: expected.live[i][0].threshold - total for i, total in totals.items()}
    assert dict(zip(ranges.id.tolist(), lacking.tolist(), strict=True)) == lacked


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(1, 3), st.booleans(), st.booleans(), st.integers(0, 10**6))
def test_many_queries_of_few_kinds_mature_together(dimensions, keyed, repeats, seed):
    """Enough of them to be counted for all at once, and enough elements for several cuts of a stretch."""
    random = Random(seed)

    def side():
        low, high = sorted([random.randint(0, 6), random.randint(0, 6)])
        return (low, random.random() < 0.3, high, random.random() < 0.3)

    def sides():
        key = random.randint(0, 2)
        return (*[(key, False, key, False)] * keyed, *(side() for _ in range(dimensions)))

    axes, length = dimensions + keyed, random.choice([5, 20, 60])
    queries = [Query(i, sides(), random.choice([5, 20, 40, 10**18])) for i in range(120)]
    sizes = SlidingSettings(random.choice([5, 20, 50]), random.choice([2, 8]), 1, 30, random.choice([0.25, 2.0]))
    tracker = SlidingTracker.empty(axes, length, keyed=keyed, repeats=repeats, settings=sizes)
    expected, now = SlidingBruteForce(length, repeats), 0
    for begin in range(0, 120, 30):
        rows = []
        for _ in range(50):
            now += random.choice([0, 1, 1, 1, 30 if random.random() < 0.05 else 0])
            value = (*[random.randint(0, 2)] * keyed, *(random.randint(0, 6) for _ in range(dimensions)))
            rows.append((now, value, random.randint(1, 3)))
        some, position = queries[begin : begin + 30], sorted(random.randint(0, 50) for _ in range(30))
        found = by_definition(expected, rows, some, position)
        batch = (*elements_of(rows, axes, np.int64), ranges_of(some, axes, np.int64), np.array(position))
        tracker, matured = tracker.absorb_with(*batch)
        assert rows_of(matured) == found
        ids = [random.randrange(120) for _ in range(15)]
        tracker, known = tracker.terminate(np.array(ids, np.int64))
        assert known.tolist() == expected.terminate(ids)
        assert len(tracker) == len(expected.live)


HEAVY = 2**60
"""The greatest weight and the greatest threshold."""


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 0, 0, 1, 3]), st.sampled_from([0, 0, 0, 1]), st.sampled_from([HEAVY, HEAVY, HEAVY, 1])
        ),
        min_size=16,
        max_size=32,
    ),
    st.lists(st.sampled_from([1, HEAVY // 2, HEAVY - 1, HEAVY]), min_size=1, max_size=3),
    st.integers(1, 2),
    st.booleans(),
    sizes,
)
@settings(max_examples=examples(60), deadline=None)
def test_weights_that_exceed_64_bits_together_are_counted_exactly(rows, thresholds, dimensions, repeats, settings_):
    time = np.cumsum([gap for gap, _, _ in rows])
    value = np.repeat(np.array([[place] for _, place, _ in rows], np.int64), dimensions, axis=1)
    weight = np.array([w for _, _, w in rows], np.int64)
    low = np.array([[n % 3] * dimensions for n in range(len(thresholds))], np.int64)
    closed = np.zeros(low.shape, np.bool_)
    queries = Subscriptions(np.arange(len(low)), low, low, closed, closed, np.array(thresholds, np.int64))
    at_once = replace(settings_, cut=100)
    tracker = SlidingTracker.empty(dimensions, 3, repeats=repeats, settings=at_once).register(queries)
    half, found = len(rows) // 2, list[tuple[int, int, int]]()
    none = queries.take(slice(0, 0)), np.empty(0, np.int64)
    for begin, end in ((0, half), (half, len(rows))):
        part = WeightedElements(value[begin:end], weight[begin:end])
        tracker, done = tracker.absorb_with(part, time[begin:end], *none)
        found += zip(done.id.tolist(), (done.element + begin).tolist(), done.total.tolist(), strict=True)
    assert sorted(found) == sorted(completions_by_definition(rows, time.tolist(), thresholds, repeats))


def completions_by_definition(rows, time, thresholds, repeats):
    for query, threshold in enumerate(thresholds):
        counted = []
        for element, (_, place, weight) in enumerate(rows):
            if place != query % 3:
                continue
            counted.append((time[element], weight))
            total = sum(w for t, w in counted if t > time[element] - 3)
            if total >= threshold:
                yield query, element, total
                counted = []
                if not repeats:
                    break

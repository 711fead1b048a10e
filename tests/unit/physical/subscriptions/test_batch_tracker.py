"""Tracking ranges by batches: ends, sizes, large numbers, and what is rewritten when."""

from __future__ import annotations

import math

import numpy as np
import pytest
from strategies.ranges import by_definition

from tidegate.physical.subscriptions.kernels.batch import BatchTracker
from tidegate.physical.subscriptions.kernels.batch_model import BatchSettings
from tidegate.physical.subscriptions.kernels.boxes import order_for_blocks, places
from tidegate.physical.subscriptions.kernels.model import Subscriptions, WeightedElements, sort_completions

CLOSED, OPEN = False, True


def one_range(low, low_open, high, high_open, threshold=1, number=7):
    ends = (np.array([[low]]), np.array([[high]]), np.array([[low_open]]), np.array([[high_open]]))
    return Subscriptions(np.array([number]), *ends, np.array([threshold]))


def some_ranges(rng, number, dimensions, thresholds, first=0):
    """Ranges between numbers of a wide domain, of which each dimension has about two thirds."""
    ends = np.sort(rng.integers(0, 1000, (2, number, dimensions)) / 8.0, axis=0)
    low_open, high_open = rng.random((2, number, dimensions)) < 0.5
    spread = np.array([-20.0, 20.0])
    low, high = ends + spread[:, None, None]
    ids, required = np.arange(first, first + number), rng.integers(*thresholds, number)
    return Subscriptions(ids, low, high, low_open, high_open, required)


def some_elements(rng, number, dimensions):
    return WeightedElements(rng.integers(0, 1000, (number, dimensions)) / 8.0, rng.integers(1, 20, number))


def rows_of(matured):
    return list(zip(matured.id.tolist(), matured.element.tolist(), matured.total.tolist(), strict=True))


@pytest.mark.parametrize("fresh", [0, 10])
@pytest.mark.parametrize(
    ("ends", "inside"),
    [
        ((1.0, CLOSED, 2.0, CLOSED), [1.0, 1.5, 2.0]),
        ((1.0, OPEN, 2.0, CLOSED), [1.5, 2.0]),
        ((1.0, CLOSED, 2.0, OPEN), [1.0, 1.5]),
        ((1.0, OPEN, 2.0, OPEN), [1.5]),
        ((0.0, CLOSED, -0.0, CLOSED), [0.0, -0.0]),
        ((-0.0, OPEN, 1.0, OPEN), [5e-324]),
        ((-math.inf, OPEN, 0.0, OPEN), [-1.0, -5e-324]),
        ((-math.inf, CLOSED, 0.0, OPEN), [-math.inf, -1.0, -5e-324]),
        ((1.5, OPEN, math.inf, OPEN), [2.0]),
        ((1.5, OPEN, math.inf, CLOSED), [2.0, math.inf]),
        ((2.0, CLOSED, 1.0, CLOSED), []),
        ((1.0, OPEN, 1.0, OPEN), []),
        ((1.0, OPEN, 1.0, CLOSED), []),
    ],
)
def test_ends_are_exact(ends, inside, fresh):
    for value in [-math.inf, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1.5, 2.0, math.inf, math.nan]:
        tracker = BatchTracker.empty(1, BatchSettings(fresh=fresh)).register(one_range(*ends))
        tracker, matured = tracker.absorb(WeightedElements(np.array([[value]]), np.array([3])))
        expected = [(7, 0, 3)] if value in inside else []
        assert rows_of(matured) == expected


def test_places_are_in_the_order_of_values():
    value = np.array([-math.inf, -1e300, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1e300, math.inf, math.nan])
    assert (np.diff(places(value).astype(object)) > 0).all()


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_many_queries_and_elements_are_complete_as_defined(dimensions):
    rng = np.random.default_rng(dimensions)
    ranges, elements = some_ranges(rng, 1500, dimensions, (1, 9000)), some_elements(rng, 3000, dimensions)
    tracker = BatchTracker.empty(dimensions, BatchSettings(cut=1100)).register(ranges)
    expected = by_definition(ranges, elements)
    assert len(expected) > 500
    found = []
    for begin in range(0, 3000, 1500):
        tracker, matured = tracker.absorb(elements.take(slice(begin, begin + 1500)))
        found += [(number, element + begin, total) for number, element, total in rows_of(matured)]
    assert found == rows_of(expected)
    assert len(tracker) == 1500 - len(expected)


@pytest.mark.parametrize("dimensions", [1, 2])
def test_large_thresholds_and_totals_do_not_overflow(dimensions):
    far = one_range(-math.inf, CLOSED, math.inf, CLOSED, 2**62, number=1)
    near = one_range(-math.inf, CLOSED, math.inf, CLOSED, 2**61, number=2)
    tracker = BatchTracker.empty(dimensions, BatchSettings(fresh=0, patience=100.0))
    for each in (far, near):
        low, high, low_open, high_open = (
            np.repeat(column, dimensions, axis=1) for column in (each.low, each.high, each.low_open, each.high_open)
        )
        tracker = tracker.register(Subscriptions(each.id, low, high, low_open, high_open, each.threshold))
    elements = WeightedElements(np.zeros((3, dimensions)), np.full(3, 2**60))
    tracker, matured = tracker.absorb(elements)
    assert rows_of(matured) == [(2, 1, 2**61)]
    tracker, matured = tracker.absorb(elements)
    assert rows_of(matured) == [(1, 0, 2**62)]


def test_an_id_can_be_registered_again_after_it_is_gone():
    tracker = BatchTracker.empty(1, BatchSettings(fresh=0, share=0)).register(one_range(0.0, CLOSED, 1.0, CLOSED, 5))
    tracker = tracker.register(one_range(3.0, CLOSED, 4.0, CLOSED, 5, number=8))
    tracker, known = tracker.terminate(np.array([7, 7, 9]))
    assert known.tolist() == [True, False, False]
    tracker = tracker.register(one_range(0.0, CLOSED, 1.0, CLOSED, 2))
    tracker, matured = tracker.absorb(WeightedElements(np.array([[1.0], [1.0], [1.0]]), np.ones(3, np.int64)))
    assert rows_of(matured) == [(7, 1, 2)]
    assert tracker.are_live(np.array([7, 8])).tolist() == [False, True]


@pytest.mark.parametrize("dimensions", [1, 2])
def test_registering_a_few_leaves_what_is_stored_of_many(dimensions):
    rng = np.random.default_rng(5)
    many = some_ranges(rng, 5000, dimensions, (10**6, 10**7))
    tracker = BatchTracker.empty(dimensions, BatchSettings(fresh=100)).register(many)
    before = tracker.to_columns()
    tracker = tracker.copy().register(some_ranges(rng, 300, dimensions, (10**6, 10**7), first=5000))
    tracker, _ = tracker.absorb(some_elements(rng, 10, dimensions))
    after = tracker.to_columns()
    same = "piece 1 queries", "piece 1 boundaries" if dimensions == 1 else "piece 1 aims"
    for name in same:
        assert all(after[name][key] is column for key, column in before[name].items())
    assert sum(len(columns["id"]) for name, columns in after.items() if name.endswith("queries")) == 5300


def test_pieces_stay_few_however_queries_come_and_go():
    rng = np.random.default_rng(6)
    tracker = BatchTracker.empty(1, BatchSettings(fresh=4, share=2))
    for step in range(300):
        tracker = tracker.register(some_ranges(rng, 5, 1, (1, 500), first=5 * step))
        tracker, _ = tracker.terminate(rng.integers(0, 5 * step + 5, 3))
        tracker, _ = tracker.absorb(some_elements(rng, 2, 1))
        assert len(tracker.pieces) <= 2 + math.log2(len(tracker) + 1)
        assert sum(len(piece.ids) for piece in tracker.pieces) <= 2 * len(tracker)


def test_a_query_takes_less_than_200_bytes():
    rng = np.random.default_rng(7)
    number = 20_000
    low = rng.random((number, 1))
    no = np.zeros((number, 1), np.bool_)
    ranges = Subscriptions(np.arange(number), low, low + 0.1, no, no, np.full(number, 1000))
    tracker = BatchTracker.empty(1).register(ranges)
    state = sum(column.nbytes for columns in tracker.to_columns().values() for column in columns.values())
    assert state < 80 * number
    piece = tracker.pieces[0]
    columns: list[np.ndarray] = [*piece.subscriptions, *piece.cells, *piece.dues]
    assert sum(column.nbytes for column in columns) < 100 * number


@pytest.mark.parametrize("fresh", [10, 1000])
@pytest.mark.parametrize("dimensions", [1, 2])
def test_a_copy_is_not_changed_with_the_original(dimensions, fresh):
    rng = np.random.default_rng(8)
    ranges, elements = some_ranges(rng, 400, dimensions, (1, 600)), some_elements(rng, 200, dimensions)
    original = BatchTracker.empty(dimensions, BatchSettings(fresh=fresh)).register(ranges)
    left = original.copy()
    original, first = original.absorb(elements)
    original.terminate(ranges.id[:100])
    left, second = left.absorb(elements)
    assert len(first) > 0
    assert rows_of(first) == rows_of(second)


def test_neighbours_in_packed_order_are_alike_in_all_keys():
    rng = np.random.default_rng(9)
    keys = rng.integers(0, 1000, (2, 1600))
    order = order_for_blocks(keys, 16)
    assert sorted(order.tolist()) == list(range(1600))
    spread = np.ptp(keys[:, order].reshape(2, 100, 16), axis=2).mean(axis=1)
    assert (spread < 150).all()


def test_results_are_in_order_of_element_and_id_for_any_ids():
    ids = np.array([2**62, -(2**62), 5, 4])
    ordered = sort_completions(ids, np.array([1, 1, 0, 0]), np.array([1, 2, 3, 4]))
    assert rows_of(ordered) == [(4, 0, 4), (5, 0, 3), (-(2**62), 1, 2), (2**62, 1, 1)]

"""Tracking ranges by batches: keys, integers as places, and queries that repeat."""

from __future__ import annotations

import numpy as np
import pytest
from strategies.ranges import by_definition, elements_by_key, ranges_by_key, rows_of

from tidegate.physical.subscriptions.kernels.batch import BatchTracker
from tidegate.physical.subscriptions.kernels.batch_model import BatchSettings
from tidegate.physical.subscriptions.kernels.model import Subscriptions, WeightedElements


@pytest.mark.parametrize("keys", [1, 7, 1000])
def test_many_queries_of_several_keys_are_complete_as_defined(keys):
    rng = np.random.default_rng(keys)
    ranges, elements = ranges_by_key(rng, 1500, keys, (1, 3000 // keys + 2)), elements_by_key(rng, 3000, keys)
    tracker = BatchTracker.empty(2, BatchSettings(cut=1100), keyed=True).register(ranges)
    expected = by_definition(ranges, elements)
    assert len(expected) > 200
    tracker, matured = tracker.absorb(elements)
    assert rows_of(matured) == rows_of(expected)


def test_a_key_alone_is_a_range():
    key = np.array([[3], [5]])
    closed = np.zeros((2, 1), np.bool_)
    tracker = BatchTracker.empty(1, BatchSettings(fresh=0), keyed=True)
    tracker = tracker.register(Subscriptions(np.array([1, 2]), key, key, closed, closed, np.array([2, 2])))
    _, matured = tracker.absorb(WeightedElements(np.array([[3], [4], [5], [3]]), np.ones(4, np.int64)))
    assert rows_of(matured) == [(1, 3, 2)]


@pytest.mark.parametrize("fresh", [0, 10])
@pytest.mark.parametrize("dimensions", [1, 2])
def test_the_first_and_the_last_integer_can_be_in_a_range(dimensions, fresh):
    least, greatest = -(2**63) + 1, 2**63 - 2
    ends = np.full((2, dimensions), least), np.full((2, dimensions), greatest)
    opens = np.array([[False] * dimensions, [True] * dimensions])
    ranges = Subscriptions(np.array([1, 2]), *ends, opens, opens, np.array([2, 2]))
    tracker = BatchTracker.empty(dimensions, BatchSettings(fresh=fresh)).register(ranges)
    value = np.repeat(np.array([[least], [greatest], [0], [least + 1]]), dimensions, axis=1)
    _, matured = tracker.absorb(WeightedElements(value, np.ones(4, np.int64)))
    assert rows_of(matured) == [(1, 1, 2), (2, 3, 2)]


@pytest.mark.parametrize("fresh", [0, 10])
@pytest.mark.parametrize("dimensions", [1, 2])
def test_a_query_that_repeats_counts_anew_behind_the_element_that_completed_it(dimensions, fresh):
    low, closed = np.zeros((1, dimensions)), np.zeros((1, dimensions), np.bool_)
    tracker = BatchTracker.empty(dimensions, BatchSettings(fresh=fresh, cut=4), repeats=True)
    tracker = tracker.register(Subscriptions(np.array([7]), low, low + 9.0, closed, closed, np.array([5])))
    elements = WeightedElements(np.full((9, dimensions), 3.0), np.array([4, 4, 12, 1, 1, 1, 1, 1, 1]))
    tracker, matured = tracker.absorb(elements)
    assert rows_of(matured) == [(7, 1, 8), (7, 2, 12), (7, 7, 5)]
    assert tracker.live_subscriptions()[1].tolist() == [4]
    assert len(tracker) == 1


@pytest.mark.parametrize("dimensions", [1, 2])
def test_repeating_at_every_element_costs_as_much_as_there_are_answers(dimensions):
    closed = np.zeros((300, dimensions), np.bool_)
    low, ids = np.zeros((300, dimensions), np.int64), np.arange(300)
    ranges = Subscriptions(ids, low, low + 9, closed, closed, np.ones(300, np.int64))
    tracker = BatchTracker.empty(dimensions, repeats=True).register(ranges)
    rows = 20_000
    _, matured = tracker.absorb(WeightedElements(np.full((rows, dimensions), 5), np.full(rows, 3)))
    assert np.array_equal(matured.id, np.tile(ids, rows))
    assert np.array_equal(matured.element, np.repeat(np.arange(rows), 300))
    assert (matured.total == 3).all()

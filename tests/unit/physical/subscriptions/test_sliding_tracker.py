"""Totals within the last time: edges of time and ranges, large batches, and what is rewritten when."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tidegate.physical.subscriptions.kernels.model import Subscriptions, WeightedElements
from tidegate.physical.subscriptions.kernels.sliding import SlidingTracker
from tidegate.physical.subscriptions.kernels.sliding_model import SlidingSettings

CLOSED, OPEN = False, True
LEAST, MOST = -(2**63), 2**63 - 1


def some_ranges(ids, low, high, threshold, *, low_open=CLOSED, high_open=CLOSED):
    """Ranges of one dimension; ends and thresholds may be one for all."""
    ids = np.atleast_1d(ids)
    columns = (np.broadcast_to(np.atleast_1d(each), ids.shape) for each in (low, high, low_open, high_open, threshold))
    low, high, low_open, high_open, threshold = columns
    return Subscriptions(ids, low[:, None], high[:, None], low_open[:, None], high_open[:, None], threshold)


def absorbed(tracker, time, value, weight=1, new=None, position=()):
    time, value, weight = (each.copy() for each in np.broadcast_arrays(np.atleast_1d(time), value, weight))
    new = some_ranges(np.empty(0, np.int64), 0.0, 0.0, 1) if new is None else new
    elements = WeightedElements(value[:, None], weight)
    tracker, matured = tracker.absorb_with(elements, time, new, np.array(position, np.int64))
    return tracker, list(zip(matured.id.tolist(), matured.element.tolist(), matured.total.tolist(), strict=True))


WINDOW = {"window window", "window 1"}


def rewritten(before, after):
    return {name.split(" ")[0] + " " + name.split(" ")[-1] for name in after if after[name] is not before.get(name)}


@pytest.mark.parametrize(
    ("ends", "inside"),
    [
        ((1.0, CLOSED, 2.0, CLOSED), [1.0, 1.5, 2.0]),
        ((1.0, OPEN, 2.0, CLOSED), [1.5, 2.0]),
        ((1.0, CLOSED, 2.0, OPEN), [1.0, 1.5]),
        ((0.0, CLOSED, -0.0, CLOSED), [0.0, -0.0]),
        ((-0.0, OPEN, 1.0, OPEN), [5e-324]),
        ((-math.inf, OPEN, 0.0, OPEN), [-1.0, -5e-324]),
        ((-math.inf, CLOSED, math.inf, CLOSED), [-math.inf, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1.5, 2.0, math.inf]),
        ((2.0, CLOSED, 1.0, CLOSED), []),
        ((1.0, OPEN, 1.0, OPEN), []),
    ],
)
def test_ends_of_doubles_are_exact(ends, inside):
    low, low_open, high, high_open = ends
    for value in [-math.inf, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1.5, 2.0, math.inf, math.nan]:
        query = some_ranges(7, low, high, 1, low_open=low_open, high_open=high_open)
        _, found = absorbed(SlidingTracker.empty(1, 10).register(query), 0, value, 3)
        assert found == ([(7, 0, 3)] if value in inside else [])


@pytest.mark.parametrize(
    ("ends", "inside"),
    [
        ((LEAST, CLOSED, MOST, CLOSED), [LEAST, LEAST + 1, 0, 2**53, 2**53 + 1, MOST - 1, MOST]),
        ((LEAST, OPEN, MOST, OPEN), [LEAST + 1, 0, 2**53, 2**53 + 1, MOST - 1]),
        ((MOST, OPEN, MOST, CLOSED), []),
        ((LEAST, CLOSED, LEAST, OPEN), []),
        ((2**53, OPEN, 2**53 + 1, CLOSED), [2**53 + 1]),
    ],
)
def test_ends_of_integers_are_exact(ends, inside):
    low, low_open, high, high_open = ends
    for value in [LEAST, LEAST + 1, 0, 2**53, 2**53 + 1, MOST - 1, MOST]:
        query = some_ranges(7, low, high, 1, low_open=low_open, high_open=high_open)
        _, found = absorbed(SlidingTracker.empty(1, 10).register(query), 0, value, 3)
        assert found == ([(7, 0, 3)] if value in inside else [])


def test_an_element_counts_until_the_length_has_passed():
    tracker = SlidingTracker.empty(1, 10).register(some_ranges([1, 2], 0.0, 5.0, [2, 3]))
    tracker, found = absorbed(tracker, [0, 10, 19, 19], [1.0, 1.0, 1.0, 9.0])
    assert found == [(1, 2, 2)]
    _, found = absorbed(tracker, [19], [5.0])
    assert found == [(2, 0, 3)]


def test_a_query_that_repeats_counts_from_zero_behind_the_element_that_completed_it():
    tracker = SlidingTracker.empty(1, 10, repeats=True).register(some_ranges(1, 0.0, 5.0, 3))
    tracker, found = absorbed(tracker, [0, 1, 2, 3], 1.0, [2, 5, 1, 1])
    assert found == [(1, 1, 7)]
    _, found = absorbed(tracker, [11, 12], 1.0, 1)
    assert found == [(1, 0, 3)]


def test_an_id_may_be_registered_again_in_the_batch_that_completed_it():
    tracker = SlidingTracker.empty(1, 10).register(some_ranges(1, 0.0, 5.0, 2))
    again = some_ranges(1, 0.0, 5.0, 9)
    tracker, found = absorbed(tracker, [0, 1, 2], 1.0, 1, again, [2])
    assert found == [(1, 1, 2)]
    assert tracker.are_live(np.array([1, 2])).tolist() == [True, False]
    tracker, known = tracker.terminate(np.array([1, 1]))
    assert known.tolist() == [True, False]
    assert len(tracker) == 0


def test_keys_part_what_is_counted():
    ends = np.array([[1, 0], [2, 0]]), np.array([[1, 5], [2, 5]])
    closed = np.zeros((2, 2), np.bool_)
    queries = Subscriptions(np.array([1, 2]), *ends, closed, closed, np.array([2, 2]))
    tracker = SlidingTracker.empty(2, 10, keyed=True).register(queries)
    elements = WeightedElements(np.array([[1, 3], [2, 3], [3, 3], [2, 9], [2, 5]]), np.ones(5, np.int64))
    _, matured = tracker.absorb_with(elements, np.arange(5), queries.take(slice(0)), np.empty(0, np.int64))
    assert (matured.id.tolist(), matured.element.tolist()) == ([2], [4])


@pytest.mark.parametrize("repeats", [False, True])
def test_cuts_of_a_large_batch_change_nothing(repeats):
    rng = np.random.default_rng(3)
    low = rng.integers(0, 900, 500)
    queries = some_ranges(np.arange(500), low, low + rng.integers(0, 100, 500), rng.integers(20, 300, 500))
    time, value, weight = np.sort(rng.integers(0, 3000, 3000)), rng.integers(0, 1000, 3000), rng.integers(1, 9, 3000)
    answers = []
    for sizes in (SlidingSettings(), SlidingSettings(cut=400, leaf=16), SlidingSettings(cut=7)):
        tracker = SlidingTracker.empty(1, 500, repeats=repeats, settings=sizes).register(queries)
        answers.append(absorbed(tracker, time, value, weight)[1])
    assert len(answers[0]) > 100
    assert answers[0] == answers[1] == answers[2]


def test_registering_few_rewrites_no_others():
    tracker = SlidingTracker.empty(1, 100).register(some_ranges(np.arange(20_000), 0.0, 1.0, 10))
    before = tracker.to_columns()
    after = tracker.register(some_ranges(np.arange(20_000, 21_000), 0.0, 1.0, 10)).to_columns()
    assert all(after[name] is before[name] for name in before if name.startswith("chunk "))
    assert sum(len(columns["id"]) for name, columns in after.items() if name.endswith("queries")) == 21_000


def test_elements_rewrite_no_queries_and_totals_only_if_one_may_be_complete():
    tracker = SlidingTracker.empty(1, 100).register(some_ranges([1, 2], [0.0, 5.0], [1.0, 6.0], 10))
    tracker, _ = absorbed(tracker, [0, 1], 0.5)
    before = tracker.to_columns()
    tracker, _ = absorbed(SlidingTracker.from_columns(before), 2, 0.5)
    after = tracker.to_columns()
    assert rewritten(before, after) == {"tracker tracker", "remembered remembered", "chunks chunks"} | WINDOW
    tracker, _ = absorbed(tracker, 3, 0.5, 8)
    assert rewritten(after, tracker.to_columns()) >= {"chunk totals"}
    assert not rewritten(after, tracker.to_columns()) & {"chunk queries", "chunk since"}


def test_what_has_not_changed_since_it_was_loaded_is_the_same_object():
    tracker = SlidingTracker.empty(1, 100).register(some_ranges([1, 2], [0.0, 5.0], [1.0, 6.0], 10))
    tracker, _ = absorbed(tracker, [0, 1], 0.5)
    before = tracker.to_columns()
    assert rewritten(before, SlidingTracker.from_columns(before).to_columns()) == set()


def test_elements_that_nobody_asks_for_are_not_remembered():
    tracker = SlidingTracker.empty(1, 100).register(some_ranges([1, 2], [0.0, 5.0], [1.0, 6.0], 10))
    tracker, _ = absorbed(tracker, [0, 1, 2, 3], [0.5, 3.0, 7.0, math.nan])
    remembered = [columns for name, columns in tracker.to_columns().items() if name.startswith("window ")]
    assert [columns["number"].tolist() for columns in remembered] == [[0]]
    tracker, _ = absorbed(tracker, 200, 3.0)
    assert not [name for name in tracker.to_columns() if name.startswith("window ")]

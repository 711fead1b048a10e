"""Tracking ranges by batches: what is written of the state when little happens."""

from __future__ import annotations

import numpy as np
import pytest
from strategies.ranges import elements_by_key, ranges_by_key

from tidegate.physical.subscriptions.kernels.batch import BatchTracker
from tidegate.physical.subscriptions.kernels.model import Subscriptions, WeightedElements


def written_anew(before, after):
    return sum(
        column.nbytes
        for name, columns in after.items()
        if before.get(name) is not columns
        for column in columns.values()
    )


@pytest.mark.parametrize("keyed", [True, False])
def test_little_is_written_when_little_happens_to_many(keyed):
    rng = np.random.default_rng(10)
    some, arrive = (ranges_by_key, elements_by_key) if keyed else (some_ranges, some_elements)
    many, keys = 200_000, 100 if keyed else 1
    tracker = BatchTracker.empty(1 + keyed, keyed=keyed).register(some(rng, many, keys, (10**6, 10**7)))
    before = tracker.to_columns()
    whole = written_anew({}, before)
    tracker = tracker.register(some(rng, 1000, keys, (10**6, 10**7), first=many))
    after = tracker.to_columns()
    assert written_anew(before, after) < whole / 50
    for _ in range(5):
        tracker, _ = tracker.absorb(arrive(rng, 500, keys))
        tracker, _ = tracker.terminate(rng.integers(0, many, 100))
        before, after = after, tracker.to_columns()
        assert 0 < written_anew(before, after) < whole / 50
    assert written_anew({}, after) < 1.1 * whole


def some_elements(rng, number, _):
    return WeightedElements(rng.random((number, 1)) * 120, rng.integers(1, 20, number))


def some_ranges(rng, number, _, thresholds, first=0):
    low = rng.random((number, 1)) * 100
    closed = np.zeros((number, 1), np.bool_)
    return Subscriptions(
        np.arange(first, first + number), low, low + 20, closed, closed, rng.integers(*thresholds, number)
    )


@pytest.mark.parametrize("keyed", [True, False])
def test_what_is_written_of_elements_stays_a_share_of_the_totals(keyed):
    rng = np.random.default_rng(11)
    some, arrive = (ranges_by_key, elements_by_key) if keyed else (some_ranges, some_elements)
    tracker = BatchTracker.empty(1 + keyed, keyed=keyed).register(some(rng, 20_000, 10, (10**8, 10**9)))
    whole = written_anew({}, tracker.to_columns())
    begun = 0
    for _ in range(60):
        totals = tracker.to_columns()["piece 1 totals"]
        tracker, _ = tracker.absorb(arrive(rng, 700, 10))
        after = tracker.to_columns()
        assert written_anew({}, after) < 1.5 * whole
        begun += after["piece 1 totals"] is not totals
    assert 0 < begun < 12

"""Tracking ranges by batches against its definition: the same queries, elements and totals, whatever the cuts."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.ranges import BruteForce, Query
from strategies.ranges import World, dense, elements_of, histories, ranges_of, rows_of, through, worlds
from support.examples import examples

from tidegate.physical.common.kernels import journal
from tidegate.physical.subscriptions.kernels import batch_cells, batch_sweep
from tidegate.physical.subscriptions.kernels.batch import BatchTracker
from tidegate.physical.subscriptions.kernels.batch_model import BatchSettings

sizes = st.builds(
    BatchSettings,
    cut=st.sampled_from([1, 2, 3, 7, 100]),
    fresh=st.sampled_from([0, 1, 2, 5]),
    share=st.sampled_from([0, 1, 2, 4]),
    block=st.sampled_from([1, 2, 3, 100]),
    patience=st.sampled_from([0.0, 1.0, 10.0]),
    pairs=st.sampled_from([1, 6, 50_000_000]),
)


@pytest.mark.parametrize("swept", [True, False])
@settings(max_examples=examples(60), deadline=None)
@given(history=histories, sizes=sizes)
def test_queries_mature_as_defined_whatever_happens_between(swept, history, sizes):
    with pytest.MonkeyPatch.context() as patch:
        if swept:
            nothing_is_few(patch)
        patch.setattr(journal, "_MOST_CHUNKS", 2)
        world, steps = history
        check(world, steps, sizes)


@pytest.mark.parametrize("swept", [True, False])
@settings(max_examples=examples(60), deadline=None)
@given(world=worlds, seed=st.integers(0, 10**6), sizes=sizes)
def test_queries_mature_as_defined_when_much_happens(swept, world, seed, sizes):
    with pytest.MonkeyPatch.context() as patch:
        if swept:
            nothing_is_few(patch)
        check(world, dense(world, seed), sizes)


def nothing_is_few(patch):
    """Sort, sweep and halve even where looking directly would be faster."""
    patch.setattr(batch_cells, "_FEW", 0)
    for name in ("_FEW", "_SHORT", "_LEAF", "_HALF"):
        patch.setattr(batch_sweep, name, int(name in ("_LEAF", "_HALF")))


def check(world, steps, sizes):
    def new():
        return BatchTracker.empty(world.dimensions, sizes, keyed=world.keyed, repeats=world.repeats)

    through(new(), world, steps, new, lambda parts: BatchTracker.from_columns(parts, sizes))


@settings(max_examples=examples(25), deadline=None)
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
    sizes = BatchSettings(random.choice([20, 50]), random.choice([0, 20]), 1, random.choice([4, 64]), sizes.patience)
    tracker, expected = BatchTracker.empty(dimensions, sizes), BruteForce()
    for begin in range(0, 200, 50):
        some = queries[begin : begin + 50]
        expected.register(some)
        tracker = tracker.register(ranges_of(some, World(dimensions)))
        rows = [
            (tuple(float(random.randint(0, 6)) for _ in range(dimensions)), random.randint(1, 3)) for _ in range(60)
        ]
        tracker, matured = tracker.absorb(elements_of(rows, World(dimensions)))
        assert rows_of(matured) == expected.absorb(rows)
        ids = [random.randrange(200) for _ in range(20)]
        tracker, known = tracker.terminate(np.array(ids, np.int64))
        assert known.tolist() == expected.terminate(ids)
        assert len(tracker) == len(expected.live)

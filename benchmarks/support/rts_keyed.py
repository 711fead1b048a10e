"""Ranges in a plane for each of many keys: what an element costs by our method, which sweeps key by key."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.support.report import say
from benchmarks.support.rts_runs import Clock
from benchmarks.support.rts_setups import BATCH, Setup, elements, queries
from tidegate.physical.common.arrays import Ints
from tidegate.physical.subscriptions.kernels.batch import BatchTracker
from tidegate.physical.subscriptions.kernels.model import (
    CompletedSubscriptions,
    Subscriptions,
    Values,
    WeightedElements,
)

KEYS = 100


def measure_keyed(*, quick: bool) -> tuple[dict[str, float], bool]:
    """Return the costs, and whether a tracker to which keys are values like others gives the same answers."""
    count, batches = (20_000, 20) if quick else (200_000, 50)
    random = np.random.default_rng(22)
    # Half of the queries should be complete at the end: of a key, one element in ten is in a range, and weighs 100.
    setup = Setup(2, count, batches * BATCH // KEYS * 10)
    keys, ranges = random.integers(0, KEYS, count), queries(setup, count, random)
    stream = elements(batches * BATCH, 2, random)
    stream = replace(stream, value=_columns(random.integers(0, KEYS, len(stream)), stream.value))
    asked = _with_keys(ranges, keys)
    _count(BatchTracker.empty(3, keyed=True), asked, stream.take(slice(0, 4 * BATCH)))  # compiles the kernels
    seconds, found = _count(BatchTracker.empty(3, keyed=True), asked, stream)
    few = slice(0, 2_000)
    _, expected = _count(BatchTracker.empty(3), asked.take(few), stream)
    mine = found.id < few.stop
    same = all(
        np.array_equal(one[mine], other)
        for one, other in (
            (found.id, expected.id),
            (found.element, expected.element),
            (found.total, expected.total),
        )
    )
    microseconds = seconds / len(stream) * 1e6
    say(f"2D with {KEYS} keys, m {count:,}: {microseconds:.3f} µs an element, {len(found):,} complete")
    return {"keyed_2d_us_per_element": microseconds}, same and len(expected) > 0


def _columns(key: Ints, values: Values) -> Ints:
    return np.column_stack([key, values.astype(np.int64)])


def _with_keys(ranges: Subscriptions, keys: Ints) -> Subscriptions:
    """Return the ranges with a key in front."""
    low, high = _columns(keys, ranges.low), _columns(keys, ranges.high)
    closed = np.zeros(low.shape, np.bool_)
    return Subscriptions(ranges.id, low, high, closed, closed, ranges.threshold)


def _count(
    tracker: BatchTracker, ranges: Subscriptions, stream: WeightedElements
) -> tuple[float, CompletedSubscriptions]:
    """Return the seconds for all elements, and the answers with positions among them."""
    tracker, clock, found = tracker.register(ranges), Clock(), []
    for begin in range(0, len(stream), BATCH):
        with clock:
            tracker, matured = tracker.absorb(stream.take(slice(begin, begin + BATCH)))
        found.append(replace(matured, element=matured.element + begin))
    columns = zip(*((part.id, part.element, part.total) for part in found), strict=True)
    return clock.seconds, CompletedSubscriptions(*(np.concatenate(column) for column in columns))

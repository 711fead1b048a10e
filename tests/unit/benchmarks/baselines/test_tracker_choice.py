"""Which method follows totals, and going over from one to the other."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.baselines.choice import Method, better_method, cost, moved
from benchmarks.baselines.tracking import DistributedTracker
from tidegate.language.bind.program import bind
from tidegate.physical.subscriptions.kernels.batch import BatchTracker
from tidegate.physical.subscriptions.kernels.batch_model import BatchSettings
from tidegate.physical.subscriptions.kernels.model import Subscriptions, WeightedElements
from tidegate.runtime.commands import explain_program

STREAMS = """CREATE STREAM trade (price DOUBLE, shares INT, at TIMESTAMP) FROM 'trade.csv' TIMESTAMP BY at;
CREATE STREAM sub (id INT, low DOUBLE, high DOUBLE, n BIGINT, active BOOLEAN, at TIMESTAMP)
  FROM 'sub.csv' TIMESTAMP BY at;"""
LIVE, BATCH = (0, 100, 10_000, 1_000_000), (0, 1, 100, 10_000, 250_000)


def empty(method, repeats):
    if method is Method.BATCH:
        return BatchTracker.empty(2, BatchSettings(fresh=20), keyed=True, repeats=repeats)
    return DistributedTracker(repeats=repeats)


def rows_of(matured):
    return list(zip(matured.id.tolist(), matured.element.tolist(), matured.total.tolist(), strict=True))


@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize("first", Method)
def test_queries_go_on_where_they_were_when_they_move(first, repeats):
    rng = np.random.default_rng(1)
    key, low = rng.integers(0, 4, (100, 1)), rng.integers(0, 50, (100, 1))
    closed = np.zeros((100, 2), np.bool_)
    ends = np.hstack([key, low]), np.hstack([key, low + 30])
    ranges = Subscriptions(np.arange(100), *ends, closed, closed, rng.integers(1, 400, 100))
    value = np.column_stack([rng.integers(0, 4, 300), rng.integers(0, 80, 300)])
    parts = [WeightedElements(value[begin : begin + 100], np.full(100, 5)) for begin in (0, 100, 200)]
    stays, moves = empty(Method.BATCH, repeats).register(ranges), empty(first, repeats).register(ranges)
    for number, part in enumerate(parts):
        stays, expected = stays.absorb(part)
        moves, found = moves.absorb(part)
        assert rows_of(found) == rows_of(expected)
        assert len(found) > 0
        moves = moved(moves, empty(Method(1 - first.value) if number % 2 == 0 else first, repeats))
        assert len(moves) == len(stays)


@pytest.mark.parametrize("live", LIVE)
@pytest.mark.parametrize("batch", BATCH)
def test_a_method_is_left_only_if_the_other_is_twice_as_good(live, batch):
    for now, other in (tuple(Method), tuple(Method)[::-1]):
        chosen = better_method(live, batch, now)
        assert (chosen is other) == (2 * cost(other, live, batch) <= cost(now, live, batch))
        assert better_method(live, batch, chosen) is chosen


def test_large_batches_are_for_the_batch_method():
    assert better_method(1000, 10_000, Method.TRACKING) is Method.BATCH
    assert better_method(1000, 1, Method.TRACKING) is Method.TRACKING
    assert better_method(1_000_000, 1, Method.BATCH) is Method.BATCH


def test_a_run_never_leaves_the_method_it_begins_with():
    """What ARCHITECTURE and EXPLAIN say: the trees are for comparison, and no run uses them."""
    for live in [0, *(10**power for power in range(13))]:
        for batch in [0, *(10**power for power in range(13))]:
            assert better_method(live, batch, Method.BATCH) is Method.BATCH
            assert cost(Method.BATCH, live, batch) < 1.3 * cost(Method.TRACKING, live, batch)


def test_explain_names_the_method_that_is_used():
    where = "FROM trade t, sub r WHERE t.price BETWEEN r.low AND r.high WHEN TOTAL(t.shares) >= r.n"
    shown = explain_program(bind(f"{STREAMS} CREATE ALERTS traded {where}"))
    (line,) = {line.strip() for line in shown.splitlines() if line.strip().startswith("subscriptions of")}
    assert line == "subscriptions of traded, by adding up batches"

"""The benchmark of live queries: its queries differ, its gap is that between steps, and all keys are there."""

from __future__ import annotations

import pytest

from benchmarks.live import report
from benchmarks.support.live_queries import SHAPES, create_stream, live_queries
from benchmarks.support.live_runs import Changes, without_figures
from tidegate.language.bind.program import bind
from tidegate.runtime.job import StepTime

STEPS = [StepTime(1, 10.0, 5, 2.0), StepTime(2, 12.5, 5, 1.0), StepTime(3, 16.5, 5, 2.0)]


def changes(*, right: bool = True) -> Changes:
    return Changes([1.0, 3.0], [2.0], STEPS, 50_000.0, right)


def test_a_thousand_queries_are_different_and_of_ten_shapes(tmp_path):
    found = dict(live_queries(1_000))
    assert len(set(found.values())) == 1_000
    assert len(SHAPES) == 10
    catalog = bind(create_stream(tmp_path)).catalog
    for text in list(found.values())[:20]:
        (query,) = bind(text, catalog).queries
        assert query.plan.schema.names


def test_the_longest_gap_is_in_steps_of_median_length():
    assert changes().longest_gap == pytest.approx(3.0 / 2.0)


def test_all_keys_are_there():
    cost, metadata = {10: 2e-6, 1_000: 5e-6}, {"off": 1.0, "on": 1.01, "subscribed": 1.04}
    found = report(cost, metadata, {"embedded": changes(), "spark": changes(right=False)})
    assert found.ratios == {
        "cost_1000_vs_10": pytest.approx(2.5),
        "metadata_overhead": 1.01,
        "metadata_overhead_subscribed": 1.04,
    }
    assert {"register_p50_ms", "register_p99_ms", "longest_gap_steps"} <= set(found.figures)
    assert found.figures["register_p50_ms_embedded"] == 2.0
    assert not found.equal


def test_what_counts_can_be_left_out():
    from tidegate.runtime.figures import PhaseClock

    clock = PhaseClock()
    with without_figures(), clock.measure("run"):
        pass
    assert clock.seconds == {}

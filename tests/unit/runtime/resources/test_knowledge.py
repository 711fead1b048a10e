"""What a manager concludes from the rows of a short span."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tidegate.costs.characteristics import Characteristics
from tidegate.costs.estimates import Flow
from tidegate.runtime.costs.knowledge import Knowledge
from tidegate.runtime.costs.learn import RunSpan
from tidegate.runtime.resources.knowledge import smooth_rates

SECOND = 1_000_000.0
SPAN = 10 * SECOND


def known_at(rate: float) -> Knowledge:
    """A stream with a rate a second, and a delay of two seconds."""
    distance = SECOND / rate
    return Knowledge({"s": Flow.of(Characteristics(distance, 1.0)).with_distance(distance, 2 * SECOND)})


def rate_after(known: Knowledge, rows: int) -> float:
    return SECOND / next_knowledge(known, rows).source("s").characteristics.distance


def next_knowledge(known: Knowledge, rows: int) -> Knowledge:
    span = RunSpan(SPAN, 5, {}, {}, {"s": rows})
    return smooth_rates(known, known, span, {"s"})


def test_a_steady_rate_varies_less_than_the_rows_of_a_span():
    random, known, found = np.random.default_rng(1), known_at(2.0), []
    for rows in random.poisson(20, 300):
        known = next_knowledge(known, int(rows))
        found.append(SECOND / known.source("s").characteristics.distance)
    assert np.mean(found[50:]) == pytest.approx(2.0, rel=0.05)
    assert np.std(found[50:]) < 0.6 * np.std(random.poisson(20, 300) / 10)


def test_a_rate_that_has_clearly_changed_counts_at_once():
    assert rate_after(known_at(2.0), 60) == pytest.approx(6.0)
    assert rate_after(known_at(6.0), 20) == pytest.approx(2.0)


def test_the_rate_of_a_slow_stream_follows_its_rows_both_up_and_down():
    """A span has too few rows to say anything by itself, and all of them together say it."""
    known = known_at(0.2)
    for _ in range(40):
        known = next_knowledge(known, 6)
    assert SECOND / known.source("s").characteristics.distance == pytest.approx(0.6, rel=0.1)
    for _ in range(60):
        known = next_knowledge(known, 2)
    assert SECOND / known.source("s").characteristics.distance == pytest.approx(0.2, rel=0.15)


def test_the_delay_of_a_stream_stays():
    flow = next_knowledge(known_at(2.0), 60).source("s")
    assert flow.mark - flow.head - flow.characteristics.distance == pytest.approx(2 * SECOND)


def test_streams_that_were_not_measured_before_have_the_rate_of_the_span():
    known, learnt = known_at(2.0), known_at(9.0)
    assert smooth_rates(learnt, known, RunSpan(SPAN, 5, {}, {}, {"s": 90}), ()) == learnt


def test_a_stream_without_rows_becomes_slower():
    known = known_at(2.0)
    slower = next_knowledge(known, 0)
    assert slower.source("s").characteristics.distance > known.source("s").characteristics.distance
    assert replace(slower, sources={}) == replace(known, sources={})

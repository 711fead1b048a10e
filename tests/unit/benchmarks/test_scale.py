"""The benchmark of scale: rates follow from few samples as well as from many."""

from __future__ import annotations

import pytest

from benchmarks.contestants.growth import Sample
from benchmarks.scale import rate_between


@pytest.mark.parametrize("rows", [[1_000], [400, 1_000], [100, 200, 200, 300, 700, 1_000]])
def test_a_steady_rate_is_found_between_any_samples(rows):
    samples = [Sample(each, each / 50, 0, 0) for each in rows]
    assert rate_between(samples, 0.1, 0.2) == pytest.approx(50)
    assert rate_between(samples, 0.9, 1.0) == pytest.approx(50)


def test_a_rate_that_falls_is_seen():
    samples = [Sample(500, 10.0, 0, 0), Sample(1_000, 30.0, 0, 0)]
    assert rate_between(samples, 0.9, 1.0) == pytest.approx(rate_between(samples, 0.1, 0.2) / 2)

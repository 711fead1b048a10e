"""Decisions on sizes, in a simulated run whose state follows its windows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidegate.catalog.limits import ResourceLimits
from tidegate.optimizer.quality import SizeBounds
from tidegate.runtime.resources.choose_sizes import Sizes
from tidegate.runtime.resources.decide import (
    Corrections,
    Situation,
    SizeDecision,
    Steadiness,
    Usage,
    decide_sizes_within,
    quality_of,
)

BOUNDS = {"w": SizeBounds(60, 10, "range"), "v": SizeBounds(120, 20, "range")}
BEST = {"w": 60, "v": 120}
LIMITS = ResourceLimits(memory=1_000_000)
ROW = 1_000


def estimate_at(rate: float) -> Callable[[Sizes], Usage]:
    return lambda sizes: Usage(rate * ROW * sum(sizes.values()), 0.001 * rate * sum(sizes.values()))


def decide(used: float, sizes: Sizes, rate: float, *, settled: bool = True, limits: ResourceLimits = LIMITS):
    return decide_sizes_within(
        limits, Situation(Usage(used), sizes, BOUNDS, settled, settled), estimate_at(rate), Corrections()
    )


def test_sizes_stay_while_there_is_room():
    assert decide(500_000, BEST, rate=2.7).changes(BEST) == {}


def test_sizes_fall_before_the_limit_is_reached():
    decided = decide(500_000, BEST, rate=8)
    assert decided.reason.startswith("expected state")
    assert 760_000 < estimate_at(8)(decided.sizes).memory * decided.corrections.memory <= 800_000


def test_sizes_fall_by_what_is_used_where_the_estimate_is_wrong():
    decided = decide(950_000, BEST, rate=4)
    assert decided.reason.startswith("used state")
    assert decided.corrections.memory == pytest.approx(950 / 720)
    assert 760_000 < estimate_at(4)(decided.sizes).memory * 950 / 720 <= 800_000


def test_what_is_used_says_nothing_before_a_change_has_had_its_effect():
    assert decide(950_000, {"w": 20, "v": 40}, rate=5, settled=False).changes({"w": 20, "v": 40}) == {}


def test_sizes_rise_only_when_the_last_change_has_settled():
    small = {"w": 20, "v": 40}
    assert decide(180_000, small, rate=3, settled=False).sizes == small
    assert decide(180_000, small, rate=3).sizes == BEST


def test_a_danger_enlarges_no_window():
    uneven = {"w": 10, "v": 120}
    decided = decide(900_000, uneven, rate=7.5)
    assert decided.sizes["w"] == 10
    assert decided.sizes["v"] < 120


def test_a_limit_that_cannot_be_kept_is_said():
    decided = decide(9_000_000, BEST, rate=100)
    assert decided.sizes == {"w": 10, "v": 20}
    assert decided.shortfall is not None
    assert decided.shortfall.endswith("at most 1.0 MB")


def test_delay_follows_processor_time():
    limits = ResourceLimits(delay=1_000_000)
    seen = Situation(Usage(delay=2_000_000), BEST, BOUNDS, may_grow=True, is_settled=True)
    decided = decide_sizes_within(limits, seen, estimate_at(5), Corrections())
    share = estimate_at(5)(decided.sizes).cpu / estimate_at(5)(BEST).cpu
    assert 0.38 < share <= 0.4


@pytest.mark.parametrize("error", [0.5, 0.8, 1.0, 1.4])
def test_a_load_that_triples_and_falls_keeps_the_limit_and_gets_its_quality_back(error):
    """Elements stay as long as the window at their start; estimates are wrong by a constant factor."""
    limit, rates = 1_000_000, [2.0] * 300 + [6.0] * 600 + [2.0] * 900
    sizes, known, steady = dict(BEST), Corrections(), Steadiness()
    elements: list[tuple[float, float]] = []  # rows and ends
    used_by_time, changes = [], []
    for now, rate in enumerate(rates):
        elements = [(rows, end) for rows, end in elements if end > now]
        elements += [(rate, now + size) for size in sizes.values()]
        used = sum(rows for rows, _ in elements) * ROW
        used_by_time.append(used)

        def estimate(some: Sizes, rate: float = rate) -> Usage:
            return Usage(error * rate * ROW * sum(some.values()))

        steady = steady.after(estimate(sizes).memory, now)
        seen = Situation(
            Usage(max(used_by_time[-120:])),
            sizes,
            BOUNDS,
            now - steady.changed_at >= 120,
            now - steady.changed_at >= 240,
        )
        decided: SizeDecision = decide_sizes_within(ResourceLimits(memory=limit), seen, estimate, known)
        known = decided.corrections
        if decided.changes(sizes):
            sizes, steady = dict(decided.sizes), Steadiness(estimate(decided.sizes).memory, now)
            changes.append(now)
    assert sizes == BEST
    assert max(used_by_time[300 + 240 : 900]) <= 1.1 * limit
    assert quality_of(_sizes_that_fit(6.0, 0.8 * limit), BOUNDS) < 1
    late = [at for at in changes if 300 + 360 <= at < 900]
    assert len(late) <= 2


def _sizes_that_fit(rate: float, memory: float) -> Sizes:
    total = memory / ROW / rate
    share = (total - 30) / 150
    return {"w": round(10 + share * 50), "v": round(20 + share * 100)}

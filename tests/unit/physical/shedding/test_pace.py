"""What a join that sheds may compare in the next step, and what it knows by then."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from support.recorded import recorded

from tidegate.algebra.similarity_join import SECOND, Policy, Shedding
from tidegate.physical.shedding.kernels.evidence import Tally
from tidegate.physical.shedding.pace import LEAST, StepPace
from tidegate.physical.similarity_join import control
from tidegate.physical.similarity_join.kernels.conditions import Overlap
from tidegate.physical.similarity_join.kernels.matching import Method
from tidegate.physical.similarity_join.kernels.model import SimilarityJoinSettings
from tidegate.physical.similarity_join.operator import REACH

NOTHING = control.SimilarityJoinReport(
    control.TallyCounts.of(Tally.empty(REACH, 1)),
    **dict.fromkeys(("comparisons", "volume", "units", "found", "missed", "worth", "worth_missed", "dropped"), 0),
    rows=0,
    comparing=0.0,
    budget=0.0,
)


def choice_of(target=SECOND):
    return control.SheddingParameters(
        "a join", Shedding(Policy.ON, target), SimilarityJoinSettings(Overlap(2), SECOND, REACH, Method.FILTERED)
    )


@dataclass
class Machine:
    """A step takes a fixed time, some for each row, and some for each unit, of which as many are made as may be."""

    fixed: float = 0.15
    row: float = 1e-5
    unit: float = 2e-8
    noise: float = 0.0
    in_turn: bool = False
    """Buckets run one after another."""

    def __post_init__(self):
        self.random = np.random.default_rng(3)

    def run(self, choice, record, rows, wanted, buckets=1):
        """Seconds of a step, the share of the wanted units that were compared, and the next record."""
        budget = control.budget_of(choice, record and record.directive, rows, buckets)
        units = int(min(wanted / buckets, budget))
        off = 1.0 + self.noise * self.random.standard_normal(2)
        comparing = self.unit * units * off[0]
        seconds = (self.fixed + self.row * rows) * off[1] + comparing * (buckets if self.in_turn else 1)
        report = replace(NOTHING, units=units, comparing=comparing, rows=rows, budget=budget)
        return seconds, units * buckets / wanted, control.decide(choice, record, [report] * buckets, seconds)


def paced(machine, profile, *, buckets=1, target=SECOND):
    choice, record, told = choice_of(target), None, []
    for rows, wanted in profile:
        seconds, share, record = machine.run(choice, record, rows, wanted, buckets)
        told.append((seconds, share))
    return np.array(told).T


CALM, OVERLOAD, BURST = (10_000, 2e7), (10_000, 1e8), (50_000, 5e8)


def test_steps_take_as_long_as_they_may():
    seconds, share = paced(Machine(), [OVERLOAD] * 30)
    assert np.all((seconds[5:] > 0.85) & (seconds[5:] < 0.95))
    assert share[-1] < 0.5


def test_a_burst_is_followed_within_three_steps_and_forgotten_when_it_ends():
    seconds, share = paced(Machine(), [CALM] * 20 + [BURST] * 10 + [OVERLOAD] * 10 + [CALM] * 3)
    assert np.all(share[:20] == 1.0)
    assert np.all(seconds[23:30] < 1.0)
    assert np.all(seconds[23:30] > 0.8)
    assert np.all((seconds[33:40] > 0.8) & (seconds[33:40] < 1.0))
    assert np.all(share[40:] == 1.0)


def test_a_noisy_clock_does_no_harm():
    seconds, _ = paced(Machine(noise=0.1), [OVERLOAD] * 100)
    assert 0.8 < seconds[10:].mean() < 1.0
    assert np.mean(seconds[10:] > 1.1) < 0.05


def test_buckets_that_have_to_wait_for_each_other_compare_less():
    seconds, _ = paced(Machine(in_turn=True), [OVERLOAD] * 60, buckets=4)
    assert np.all((seconds[30:] > 0.8) & (seconds[30:] < 1.0))
    at_once, _ = paced(Machine(), [OVERLOAD] * 60, buckets=4)
    assert np.all(at_once[30:] < 0.95)


def test_a_slow_first_step_is_soon_forgotten():
    choice, machine = choice_of(SECOND), Machine()
    _, _, record = replace(machine, fixed=20.0).run(choice, None, *CALM)
    shares = []
    for _ in range(6):
        _, share, record = machine.run(choice, record, *CALM)
        shares.append(share)
    assert shares[-1] == 1.0


def test_something_is_compared_however_long_the_rest_takes():
    seconds, share = paced(Machine(fixed=3.0), [OVERLOAD] * 10)
    assert np.all(share > 0)
    assert StepPace(1e-8, steps=1.0, overhead=9.0).budget(1.0, 0) == pytest.approx(LEAST / 1e-8)
    assert np.all(seconds[5:] < 3.15)


def test_the_cost_changes_by_a_factor_of_two_at_most_and_hardly_by_little_work():
    pace = StepPace(1e-8)
    assert pace.after_step(1.0, 10, 10**6, 10.0, 10.0, 10.0).cost == pytest.approx(2e-8)
    assert pace.after_step(1.0, 10, 10**9, 0.1, 0.1, 0.1).cost == pytest.approx(0.5e-8)
    assert pace.after_step(1.0, 10, 10, 1e-5, 1e-5, 0.1).cost == pytest.approx(1e-8, rel=0.01)
    assert pace.after_step(1.0, 10, 0, 0.0, 0.0, 0.1).cost == 1e-8


def test_what_rows_take_is_told_from_what_is_fixed():
    pace = StepPace(1e-8)
    for rows in (1000, 5000, 2000, 9000) * 5:
        pace = pace.after_step(1.0, rows, 0, 0.0, 0.0, 0.1 + 5e-5 * rows)
    fixed, each = pace.overhead_line
    assert fixed == pytest.approx(0.1, abs=0.01)
    assert each == pytest.approx(5e-5, rel=0.03)
    assert recorded(pace) == pace


def density_of(record):
    tally = record.directive.tally
    return sum(tally.matches) / sum(tally.made)


def test_what_was_counted_of_late_goes_from_record_to_record():
    choice, record = choice_of(), None

    def step(record, matches):
        tally = Tally.empty(REACH, 1)
        tally.matches[:], tally.units[:], tally.made[:, 0, 0] = matches, 100.0, 100.0
        tally.utility[:, 0, 0] = matches
        counted = control.TallyCounts.of(tally)
        report = replace(NOTHING, tally=counted, units=1, comparing=0.1, rows=1, budget=1.0)
        return control.decide(choice, recorded(record), [report] * 2, 0.1)

    for _ in range(100):
        record = step(record, 0.01)
    steps = 0
    while (density := density_of(record)) < 0.004:
        record, steps = step(record, 0.8), steps + 1
    assert steps <= 5, "many batches would be needed to outweigh all that was counted before"
    assert density <= 0.008

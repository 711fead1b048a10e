"""Rates of samples: decided after each step, recorded, and told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tidegate.algebra.plan import EVERY_ROW
from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.language.bind.program import bind
from tidegate.physical.common.sizes import SizeHistory
from tidegate.physical.shedding.sample_pace import SamplePace
from tidegate.runtime.adaptation import Adaptation
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.runtime.resources.managed_job import manage_job
from tidegate.runtime.sampling import SampleManager, manage_samples, next_rate
from tidegate.runtime.shedding import SHEDDING
from tidegate.session import Session

TEXT = """
CREATE STREAM s (k INT, x DOUBLE, at BIGINT) FROM 's.csv' TIMESTAMP BY at;
SELECT k, COUNT(*) AS n, SUM(x) AS total FROM s WINDOW(RANGE 1000) GROUP BY k WITH (shedding = sample);
"""
STEP = 500
"""Rows in a step, at first."""


def rows(count: int) -> pa.Table:
    at = np.arange(count)
    return pa.table({"k": pa.array(at % 3, pa.int32()), "x": (at % 10).astype(float), "at": at})


class SlowSteps:
    """The hook of a job on a machine that needs some time for each step and for each row that a sample keeps."""

    def __init__(self, hook, cost: Mapping[range, float], fixed: float = 0.1) -> None:
        self.hook, self.cost, self.fixed = hook, cost, fixed
        self.seconds: list[float] = []
        self.rates: list[int] = []

    def __call__(self, seen: Adaptation) -> Mapping[str, SizeHistory]:
        kept = sum(sum(seen.rows.values()) * each.newest.size / EVERY_ROW for each in seen.sizes.values())
        history = min(seen.sizes.values(), key=lambda each: each.newest.size)
        cost = next(each for steps, each in self.cost.items() if seen.step in steps)
        self.seconds.append(self.fixed + cost * kept)
        self.rates.append(history.newest.size)
        return self.hook(replace(seen, seconds=self.seconds[-1]))


def run(cost: Mapping[range, float], steps: int, *, fixed: float = 0.1, text: str = TEXT):
    program = bind(text)
    [stream] = [each for each in program.catalog if isinstance(each, SourceStream)]
    job = compile_job(program, sinks={}, sources={"s": MemorySource(stream, rows(steps * STEP))})
    job = manage_job(job)
    assert isinstance(job.adapt, SampleManager)
    slow, found = SlowSteps(job.adapt, cost, fixed), dict[str, list[pa.RecordBatch]]()
    made = EmbeddedRun(
        replace(job, adapt=slow),
        on_rows=lambda name, batch: found.setdefault(name, []).append(batch),
        once=True,
        rows_per_step=STEP,
    )
    made.wait()
    return slow, made, found


def test_a_rate_falls_when_steps_take_too_long_and_rises_again():
    costs = {range(20): 0.001, range(20, 60): 0.01, range(60, 1000): 0.001}
    slow, _, _ = run(costs, 120)
    assert slow.rates[:20] == [EVERY_ROW] * 20
    assert all(seconds < 1.05 for seconds in slow.seconds[22:59]), "what was before the change is forgotten"
    assert all(seconds > 0.6 for seconds in slow.seconds[40:59]), "a sample no smaller than it must be"
    assert slow.rates[-1] == EVERY_ROW


def test_a_rate_does_not_flap():
    slow, _, _ = run({range(1000): 0.01}, 60)
    assert len(set(slow.rates[20:])) <= 2


def test_a_sample_that_would_save_nothing_keeps_all_rows():
    slow, _, _ = run({range(1000): 0.0}, 40, fixed=0.4)
    assert set(slow.rates) == {EVERY_ROW}


def test_a_sample_that_cannot_reach_the_target_keeps_most_rows():
    slow, _, _ = run({range(1000): 0.0}, 60, fixed=1.5)
    assert slow.rates[-1] > 500_000


@pytest.mark.parametrize("order", [(0.5, 2.0), (2.0, 0.5)])
def test_of_several_targets_the_shortest_counts(order: tuple[float, float]):
    """A step serves all queries: none of them may wait longer than it allows."""
    stream, query, _ = TEXT.split(";")
    queries = [query.replace("= sample", f"= sample, target_delay = '{round(1000 * each)} ms'") for each in order]
    slow, made, _ = run({range(1000): 0.004}, 60, fixed=0.05, text=";".join([stream, *queries]))
    assert len(made.job.adjusted) == 2
    assert all(seconds < 0.55 for seconds in slow.seconds[20:])
    assert all(seconds > 0.25 for seconds in slow.seconds[40:])


def test_results_are_scaled_by_the_rate_in_force():
    """Whatever the rate is, the estimate is right on average."""
    _, _, found = run({range(1000): 0.01}, 40)
    batch = pa.Table.from_batches(found["query_1"]).to_pandas()
    late = batch[batch.valid_from > batch.valid_from.quantile(0.6)]
    assert late.n.std() > 5
    assert abs(late.n.mean() - 1000 / 3) < 40
    assert abs((late.n_low <= 1000 / 3).mean() - 1) < 0.2
    assert abs((late.n_high >= 1000 / 3).mean() - 1) < 0.2


def test_each_step_tells_the_rate_it_began_with():
    slow, made, found = run({range(1000): 0.01}, 30)
    told = pa.Table.from_batches(found[SHEDDING])
    assert told.column("rate").to_pylist() == [rate / EVERY_ROW for rate in slow.rates]
    assert set(told.column("join").to_pylist()) == {"sample of s"}
    assert told.column("step").to_pylist() == sorted(set(told.column("step").to_pylist()))
    [sample] = made.progress.samples
    assert sample.rate < EVERY_ROW
    assert "%" in sample.history_text


def test_other_hooks_do_not_see_samples():
    seen: list[Adaptation] = []

    def others(adaptation: Adaptation) -> Mapping[str, SizeHistory]:
        seen.append(adaptation)
        return {}

    program = bind(TEXT.replace("RANGE 1000", "RANGE MIN 10, MAX 1000"))
    [stream] = [each for each in program.catalog if isinstance(each, SourceStream)]
    job = compile_job(program, sinks={}, sources={"s": MemorySource(stream, rows(2000))})
    hook = manage_samples(job.adjusted, others)
    EmbeddedRun(replace(job, adapt=hook), on_rows=lambda *_: None, once=True, rows_per_step=STEP).wait()
    assert len(job.adjusted) == 2
    assert all([each.bounds.kind for each in one.windows.values()] == ["range"] for one in seen)
    assert all(one.sizes.keys() == one.windows.keys() for one in seen)
    assert len(seen) > 2


def test_without_samples_whose_rate_may_change_nothing_is_decided():
    program = bind(TEXT.replace("shedding = sample", "shedding = sample, sample = 0.1"))
    [stream] = [each for each in program.catalog if isinstance(each, SourceStream)]
    job = compile_job(program, sinks={}, sources={"s": MemorySource(stream, rows(10))})
    assert (manage_job(job).adapt, dict(job.adjusted)) == (None, {})


@pytest.mark.parametrize(("rate", "expected"), [(EVERY_ROW, 500_000), (500_000, 500_000), (100_000, 200_000)])
def test_the_next_rate_fits_in_the_target(rate: int, expected: int):
    pace = SamplePace()
    for kept in (1, 100, 200, 400, 800):
        pace = pace.after_step(kept, 0.1 + 0.008 * kept)
    assert next_rate(pace, 1.0, 200, rate) == pytest.approx(expected, rel=0.1)


def test_nothing_is_known_before_the_second_step():
    pace = SamplePace().after_step(1000, 60.0)
    assert pace.rows_in(1.0) is None
    assert next_rate(pace, 1.0, 1000, EVERY_ROW) == EVERY_ROW


def test_show_shedding_tells_the_rate():
    table = rows(100)
    with Session(runtime="embedded") as session:
        session.stream("s", table, time="at")
        query = session.sql("SELECT COUNT(*) AS n FROM s WINDOW(RANGE 10) WITH (shedding = sample, sample = 0.25)")
        query.finish()
        shown = session.ask("SHOW SHEDDING")
        assert query.shedding().column("rate").to_pylist() == [0.25]
        assert "Sample 25 %" in session.explain("SELECT COUNT(*) AS n FROM s WITH (shedding = sample, sample = 0.25)")
    assert [line.split() for line in shown.splitlines()][1][:5] == ["query_1", "sample", "of", "s", "sample"]
    assert "25 %" in shown

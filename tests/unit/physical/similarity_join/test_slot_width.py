"""When the slots of a join that sheds become finer or coarser, and that a replay decides the same."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from support.recorded import recorded

from tidegate.algebra.similarity_join import SECOND, Policy, Shedding
from tidegate.errors import NOWHERE
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import Column, Literal
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import NO_STATE
from tidegate.physical.shedding.kernels.evidence import Tally
from tidegate.physical.similarity_join.control import SimilarityJoinRecord, SimilarityJoinReport
from tidegate.physical.similarity_join.operator import SimilarityJoinOperator
from tidegate.physical.similarity_join.slot_width import MOST_HALVINGS, change_lags, choose_halvings
from tidegate.schema import Field, Schema, Type

LEFT, RIGHT = (Schema((Field(f"{side}.x", Type.BIGINT),)) for side in "lr")
WINDOW, RATE, SECONDS = 20, 30, 60


def tally_of(matches: list[float], made: float = 1000.0) -> Tally:
    tally = Tally.empty((len(matches) - 1) // 2, 1)
    tally.matches[:], tally.made[:, 0, 0] = matches, made
    return tally


FLAT = tally_of([20, 22, 19, 20, 21, 20, 18])
NARROW = tally_of([1, 1, 1, 1, 90, 60, 1])
WIDE = tally_of([1, 1, *[60] * 11, 1, 1])


@pytest.mark.parametrize(
    ("tally", "halvings", "expected"),
    [
        (FLAT, 0, 0),
        (FLAT, 2, 1),
        (NARROW, 0, 1),
        (NARROW, MOST_HALVINGS, MOST_HALVINGS),
        (WIDE, 0, 0),
        (WIDE, 1, 0),
        (tally_of([0, 0, 0, 0, 9, 6, 0]), 0, 0),
    ],
)
def test_the_width_follows_the_peak(tally: Tally, halvings: int, expected: int) -> None:
    assert choose_halvings(tally, halvings, 64) == expected


def test_a_width_is_halved_only_on_the_grid() -> None:
    assert choose_halvings(NARROW, 0, 65) == 0


def test_counts_stay_when_lags_change() -> None:
    finer = change_lags(NARROW, 2)
    again = change_lags(finer, -2)
    for each in (finer, again):
        assert each.matches.sum() == pytest.approx(NARROW.matches.sum())
        assert each.comparisons_by_lag.sum() == pytest.approx(NARROW.comparisons_by_lag.sum())
    assert len(finer.matches) == 2 * (4 * (3 - 1) + 1) + 1
    assert len(again.matches) == len(NARROW.matches)


def batch(schema: Schema, seconds: np.ndarray, ids: np.ndarray) -> Batch:
    start = (seconds * SECOND).astype(np.int64)
    order = np.argsort(start, kind="stable")
    columns = pa.RecordBatch.from_arrays([pa.array(ids[order])], schema=schema.arrow)
    return Batch(start[order], start[order] + WINDOW * SECOND, columns)


def echoes(jitter: float) -> list[list[Batch]]:
    """Steps of a second: what comes on the left comes on the right 7.3 s later."""
    random = np.random.default_rng(1)
    left = np.sort(random.uniform(0, SECONDS, SECONDS * RATE))
    right = left + 7.3 + random.normal(0, jitter, len(left))
    ids = np.arange(len(left))
    steps = []
    for second in range(SECONDS):
        inside = [(each >= second) & (each < second + 1) for each in (left, right)]
        steps.append([batch(s, t[i], ids[i]) for s, t, i in zip((LEFT, RIGHT), (left, right), inside, strict=True)])
    return steps


def run(jitter: float, budget: int) -> tuple[int, list[int]]:
    """How many results are found in the second half, and how often slots were halved after each step."""
    one, other = Column("l.x", Type.BIGINT), Column("r.x", Type.BIGINT)
    near = resolve(
        "<", (resolve("abs", (resolve("-", (one, other), NOWHERE),), NOWHERE), Literal(1, Type.BIGINT)), NOWHERE
    )
    operator = SimilarityJoinOperator(LEFT, RIGHT, None, near, Shedding(Policy.ON, budget=budget), SECOND)
    state, found, halvings = NO_STATE, 0, list[int]()
    record: SimilarityJoinRecord | None = None
    for second, inputs in enumerate(echoes(jitter)):
        directive = None if record is None else record.directive
        step = operator.with_directive(directive, {}).step(state, inputs, [second * SECOND] * 2)
        assert isinstance(step.report, SimilarityJoinReport)
        state = step.state
        found += len(step.output) if second >= SECONDS // 2 else 0
        record = recorded(operator.decide(record, [step.report], 0.01))
        assert record is not None
        halvings.append(record.directive.halvings)
    return found, halvings


def test_slots_become_finer_where_matches_are_close_together() -> None:
    budget = RATE * RATE * WINDOW * 2 // 50
    found, halvings = run(0.02, budget)
    assert halvings[-1] == MOST_HALVINGS
    assert all(0 <= after - before <= 1 for before, after in pairwise(halvings))
    assert found > 0.8 * RATE * SECONDS // 2
    assert run(0.02, budget) == (found, halvings)


def test_slots_stay_where_matches_are_spread_or_nothing_is_shed() -> None:
    assert max(run(3.0, RATE * RATE * WINDOW * 2 // 20)[1]) == 0
    assert max(run(0.02, 10**9)[1]) == 0

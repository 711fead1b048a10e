"""A narrow peak of matches: what comes on the left comes on the right a while later, within a few milliseconds.

The join as queries run it, with slots of a twentieth of the window, and with slots whose width follows the evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.support.report import say
from tidegate.algebra.similarity_join import SECOND, Policy, Shedding
from tidegate.expressions.nodes import Call, Column
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import NO_STATE
from tidegate.physical.similarity_join import control
from tidegate.physical.similarity_join.control import SimilarityJoinRecord, SimilarityJoinReport
from tidegate.physical.similarity_join.operator import SimilarityJoinOperator
from tidegate.schema import Field, Schema, Type

LEFT, RIGHT = (Schema((Field(f"{side}.x", Type.BIGINT),)) for side in "lr")
SAME = Call("=", (Column("l.x", Type.BIGINT), Column("r.x", Type.BIGINT)), Type.BOOLEAN)
WINDOW, RATE, LATE = 20, 100, 15.3
"""Seconds of a window, rows a second of each stream, and seconds until an element comes on the right."""

SETTLED = 60


def measure_peak(seconds: int, budgets: Sequence[float], jitters: Sequence[float]) -> dict[str, float]:
    """Shares of the results after a minute, under budgets, with slots of a fixed and of an adapting width."""
    figures: dict[str, float] = {}
    for jitter in jitters:
        steps = list(_steps(seconds, jitter))
        whole, volumes = _run(steps, None)
        for budget in budgets:
            shares = {"adapting": _run(steps, budget * volumes)[0] / whole}
            with patch.object(control, "choose_halvings", lambda tally, halvings, width: halvings):  # noqa: ARG005
                shares["fixed"] = _run(steps, budget * volumes)[0] / whole
            say(f"peak within {jitter:g} s, budget {budget:g}: " + "  ".join(f"{n} {s:.3f}" for n, s in shares.items()))
            figures |= {f"peak_{1000 * jitter:g}ms_{name}_{100 * budget:g}": s for name, s in shares.items()}
    return figures


def _run(steps: Sequence[Sequence[Batch]], budgets: np.ndarray | None) -> tuple[float, np.ndarray]:
    """Results after a minute, and the comparisons that each step could make."""
    state, found, volumes = NO_STATE, 0, list[int]()
    record: SimilarityJoinRecord | None = None
    for second, inputs in enumerate(steps):
        budget = 10**12 if budgets is None else int(budgets[second])
        operator = SimilarityJoinOperator(LEFT, RIGHT, None, SAME, Shedding(Policy.ON, budget=budget), SECOND)
        directive = None if record is None else record.directive
        step = operator.with_directive(directive, {}).step(state, inputs, [second * SECOND] * 2)
        assert isinstance(step.report, SimilarityJoinReport)
        state, record = step.state, operator.decide(record, [step.report], 0.0)
        assert record is not None
        volumes.append(record.shed[0].in_step.volume)
        found += len(step.output) if second >= SETTLED else 0
    return float(found), np.array(volumes, float)


def _steps(seconds: int, jitter: float) -> Iterator[list[Batch]]:
    random = np.random.default_rng(1)
    left = np.sort(random.uniform(0, seconds, seconds * RATE))
    right = left + LATE + random.normal(0, jitter, len(left))
    ids = random.integers(0, 100_000, len(left))
    for second in range(seconds):
        sides = ((LEFT, left), (RIGHT, right))
        yield [_batch(schema, times, ids, (times >= second) & (times < second + 1)) for schema, times in sides]


def _batch(schema: Schema, times: np.ndarray, ids: np.ndarray, inside: np.ndarray) -> Batch:
    start = (times[inside] * SECOND).astype(np.int64)
    order = np.argsort(start, kind="stable")
    columns = pa.RecordBatch.from_arrays([pa.array(ids[inside][order])], schema=schema.arrow)
    return Batch(start[order], start[order] + WINDOW * SECOND, columns)

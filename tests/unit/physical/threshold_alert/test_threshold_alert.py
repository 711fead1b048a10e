"""What a threshold join remembers: elements until no later one can meet them, and not longer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidegate.algebra.threshold_alert import Alert, Link
from tidegate.expressions.nodes import Call, Cast, Column, Literal
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import NO_STATE
from tidegate.physical.threshold_alert.operator import ThresholdAlertOperator
from tidegate.schema import Schema, Type

LEFT, RIGHT = Schema.of(l=Type.INT), Schema.of(r=Type.INT)
SUM = Call("+", (Column("l", Type.INT), Column("r", Type.INT)), Type.INT)


def elements(schema: Schema, *times: int) -> Batch:
    start = np.array(times, np.int64)
    rows = pa.RecordBatch.from_arrays([pa.array([1] * len(times), pa.int32())], schema=schema.arrow)
    return Batch(start, start + 1, rows)


@pytest.mark.parametrize(("before", "after"), [(3, 3), (2, 5), (5, 2)])
def test_an_element_is_kept_while_a_later_one_can_meet_it(before, after):
    condition = Call(">", (SUM, Literal(0, Type.INT)), Type.BOOLEAN)
    alert = Alert("a", (0, 1), (Link(0, 1, before, after),), Cast(SUM, Type.DOUBLE), condition)
    join = ThresholdAlertOperator((LEFT, RIGHT), ((), ()), (alert,))
    first = join.step(NO_STATE, [elements(LEFT, 10), elements(RIGHT)], [11, 10 + before])
    met = join.step(first.state, [elements(LEFT), elements(RIGHT, 10 + before)], [11, 11 + before])
    assert len(met.output) == 1
    assert "side.0.1" not in join.step(first.state, [elements(LEFT), elements(RIGHT)], [11, 11 + before]).state
    first = join.step(NO_STATE, [elements(LEFT), elements(RIGHT, 10)], [10 + after, 11])
    met = join.step(first.state, [elements(LEFT, 10 + after), elements(RIGHT)], [11 + after, 11])
    assert len(met.output) == 1
    assert "side.1.1" not in join.step(first.state, [elements(LEFT), elements(RIGHT)], [11 + after, 11]).state

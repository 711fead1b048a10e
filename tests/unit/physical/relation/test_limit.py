"""The first rows in an order: what comes out when, and what is kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.algebra.plan import Limit, Order, Scan, Window
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.operator import NO_STATE, Operator, Step
from tidegate.physical.common.plan import Apply
from tidegate.physical.lower import lower
from tidegate.physical.relation.limit import LimitOperator
from tidegate.physical.relation.prune import PruneOperator
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

SOURCE = Schema.of(k=Type.STRING, v=Type.INT)
Printed = list[tuple[str, int, int, int]]


def top(count: int, *, offset: int = 0, keys: tuple[str, ...] = (), emit: Emit = Emit.SETTLED) -> LimitOperator:
    return LimitOperator(SOURCE, (Order("v", descending=True),), count, offset, keys, emit)


def run(operator: Operator, steps: list[tuple[Printed, int]]) -> list[Step]:
    state, done = NO_STATE, []
    for printed, watermark in steps:
        columns = [pa.array([p[0] for p in printed], pa.string()), pa.array([p[1] for p in printed], pa.int32())]
        rows = pa.RecordBatch.from_arrays(columns, schema=SOURCE.arrow)
        start, end = (np.array([p[at] for p in printed], np.int64) for at in (2, 3))
        done.append(operator.step(state, [Batch(start, end, rows)], [watermark]))
        state = done[-1].state
    return done


def pieces(step: Step) -> Printed:
    rows = step.output.columns.to_pylist()
    return sorted(
        (row["k"], row["v"], int(start), int(end))
        for row, start, end in zip(rows, step.output.start, step.output.end, strict=True)
    )


def test_a_greater_row_takes_the_place_of_a_smaller_one_while_it_is_valid() -> None:
    (step,) = run(top(1), [([("a", 1, 0, 10), ("b", 5, 3, 6)], FOREVER)])
    assert pieces(step) == [("a", 1, 0, 3), ("a", 1, 6, 10), ("b", 5, 3, 6)]


def test_the_offset_leaves_out_the_first_rows() -> None:
    (step,) = run(top(1, offset=1), [([("a", 1, 0, 10), ("b", 5, 3, 6), ("c", 3, 4, 5)], FOREVER)])
    assert pieces(step) == [("a", 1, 3, 4), ("a", 1, 5, 6), ("c", 3, 4, 5)]


def test_each_group_has_its_own_first_rows() -> None:
    (step,) = run(top(1, keys=("k",)), [([("a", 1, 0, 4), ("a", 2, 0, 4), ("b", 0, 0, 4)], FOREVER)])
    assert pieces(step) == [("a", 2, 0, 4), ("b", 0, 0, 4)]


def test_equal_rows_count_one_by_one() -> None:
    (step,) = run(top(2), [([("a", 1, 0, 4)] * 3, FOREVER)])
    assert pieces(step) == [("a", 1, 0, 4)] * 2


def test_rows_that_equal_the_last_one_are_with_it() -> None:
    operator = LimitOperator(SOURCE, (Order("v", descending=True),), 1, 0, (), Emit.SETTLED, ties=True)
    (step,) = run(operator, [([("a", 2, 0, 9), ("b", 2, 0, 5), ("c", 1, 0, 9), ("d", 3, 2, 3)], FOREVER)])
    assert pieces(step) == [("a", 2, 0, 2), ("a", 2, 3, 9), ("b", 2, 0, 2), ("b", 2, 3, 5), ("d", 3, 2, 3)]


def test_what_cannot_be_first_in_a_sliding_window_is_dropped_before_it_travels() -> None:
    physical = lower(Limit(Window(Scan("s", SOURCE), 10, 10), (Order("v", descending=True),), 1, 1, ("k",)))
    assert isinstance(physical, Apply)
    (below,) = physical.inputs
    assert isinstance(below, Apply)
    assert below.operator == PruneOperator(SOURCE, Order("v", descending=True), 2, ("k",))
    assert below.operator.describe() == "prune to the first 2 of each k in order of v descending"
    given = [("a", 1, 0, 9), ("a", 2, 0, 9), ("a", 2, 0, 9), ("a", 1, 1, 9), ("a", 1, 0, 8), ("b", 1, 0, 9)]
    (step,) = run(below.operator, [(given, 0)])
    assert pieces(step) == sorted(given[1:])


def test_below_a_stateful_operator_rows_are_cut_at_every_watermark() -> None:
    steps = run(top(1), [([("a", 1, 0, 10)], 2), ([], 4), ([], FOREVER)])
    assert [pieces(s) for s in steps] == [[("a", 1, 0, 2)], [("a", 1, 2, 4)], [("a", 1, 4, 10)]]
    assert [s.watermark for s in steps] == [2, 4, FOREVER]


def test_at_the_root_a_row_is_reported_once_when_it_leaves() -> None:
    steps = run(top(1, emit=Emit.ENDED), [([("a", 1, 0, 10)], 2), ([], 4), ([("b", 2, 5, 6)], 6), ([], FOREVER)])
    assert [pieces(s) for s in steps] == [[], [], [("a", 1, 0, 5)], [("a", 1, 6, 10), ("b", 2, 5, 6)]]
    assert [s.watermark for s in steps] == [0, 0, 5, FOREVER]


def test_reported_early_the_rest_of_a_row_waits_until_it_leaves() -> None:
    steps = run(top(1, emit=Emit.EARLY), [([("a", 1, 0, 10)], 2), ([], 4), ([("b", 2, 5, 6)], 6), ([], FOREVER)])
    assert [pieces(s) for s in steps] == [
        [("a", 1, 0, 2)],
        [],
        [("a", 1, 2, 5), ("b", 2, 5, 6)],
        [("a", 1, 6, 10)],
    ]
    assert [s.watermark for s in steps] == [2, 2, 6, FOREVER]


def test_chunks_that_do_not_change_are_the_same_objects() -> None:
    operator = top(1, keys=("k",), emit=Emit.EARLY)
    first, second = run(operator, [([("a", 1, 0, 90), ("b", 1, 0, 90)], 2), ([], 4)])
    assert {n for n in second.state if first.state.get(n) is second.state[n]} == {"groups", "live.0", "open"}


def test_rows_that_have_ended_are_forgotten() -> None:
    (*_, last) = run(top(1), [([("a", 1, 0, 3), ("b", 2, 0, 9)], 1), ([], 20)])
    assert set(last.state) == {"figures"}


def test_a_logical_limit_becomes_the_operator() -> None:
    plan = Limit(Scan("s", SOURCE), (Order("v"),), 3, 1, ("k",))
    physical = lower(plan)
    assert isinstance(physical, Apply)
    assert physical.operator == LimitOperator(SOURCE, (Order("v"),), 3, 1, ("k",), Emit.ENDED)
    assert physical.operator.partition_keys == (("k",),)
    assert physical.operator.describe() == "first 3 after 1 of each k in order of v, reporting ended"

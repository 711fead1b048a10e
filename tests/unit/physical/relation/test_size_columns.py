"""The operator that adds sizes in force to results."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import NO_STATE, adjust_operator
from tidegate.physical.common.sizes import SizeHistory
from tidegate.physical.relation.kernels.cut_at import cut_at
from tidegate.physical.relation.size_columns import SizeColumnsOperator, SizeSource
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

SOURCE = Schema.of(v=Type.INT)


def elements(*validities: tuple[int, int]) -> Batch:
    start, end = (np.array([each[at] for each in validities], np.int64) for at in (0, 1))
    columns = pa.RecordBatch.from_arrays([pa.array(range(len(validities)), pa.int32())], schema=SOURCE.arrow)
    return Batch(start, end, columns)


def rows(batch: Batch) -> list[tuple[int, ...]]:
    values = [each.to_pylist() for each in batch.columns.columns]
    return sorted(zip(batch.start.tolist(), batch.end.tolist(), *values, strict=True))


def one_column(*keys: str, lag: int = 0) -> SizeColumnsOperator:
    return SizeColumnsOperator(SOURCE, (SizeSource("w", keys, 9),), lag)


def test_elements_are_cut_where_the_size_changes():
    sizes = {"h": SizeHistory.of(9).changed(4, 3).changed(7, 5)}
    step = adjust_operator(one_column("h"), sizes).step(NO_STATE, [elements((0, 9), (7, 8))], [20])
    assert rows(step.output) == [(0, 4, 0, 9), (4, 7, 0, 3), (7, 8, 1, 5), (7, 9, 0, 5)]


def test_an_element_waits_until_all_of_its_sizes_are_settled():
    operator = one_column("h")
    first = operator.step(NO_STATE, [elements((0, 9), (2, 4))], [5])
    assert (rows(first.output), first.watermark) == ([(2, 4, 1, 9)], 0)
    changed = adjust_operator(operator, {"h": SizeHistory.of(9).changed(6, 3)})
    second = changed.step(first.state, [elements()], [9])
    assert (rows(second.output), second.watermark) == ([(0, 6, 0, 9), (6, 9, 0, 3)], 9)


def test_sizes_that_the_run_forgets_are_kept_as_long_as_an_element_needs_them():
    operator = one_column("h")
    history = SizeHistory.of(9).changed(3, 4)
    state = adjust_operator(operator, {"h": history}).step(NO_STATE, [elements((0, 20))], [5]).state
    trimmed = history.changed(12, 7).trimmed(12)
    state = adjust_operator(operator, {"h": trimmed}).step(state, [elements()], [15]).state
    last = operator.step(state, [elements()], [FOREVER])
    assert rows(last.output) == [(0, 3, 0, 9), (3, 12, 0, 4), (12, 20, 0, 7)]


def test_the_worst_of_several_windows_counts():
    sizes = {"h": SizeHistory.of(9).changed(4, 3), "i": SizeHistory.of(9).changed(2, 6).changed(5, 9)}
    step = adjust_operator(one_column("h", "i"), sizes).step(NO_STATE, [elements((0, 8))], [20])
    assert rows(step.output) == [(0, 2, 0, 9), (2, 4, 0, 6), (4, 8, 0, 3)]
    coarse = SizeColumnsOperator(SOURCE, (SizeSource("g", ("h",), 2, is_coarse=True),))
    step = adjust_operator(coarse, {"h": SizeHistory.of(2).changed(4, 8)}).step(NO_STATE, [elements((0, 8))], [20])
    assert rows(step.output) == [(0, 4, 0, 2), (4, 8, 0, 8)]


def test_watermarks_that_were_rounded_up_settle_nothing_before_the_streams():
    step = one_column("h", lag=10).step(NO_STATE, [elements((5, 9))], [15])
    assert (rows(step.output), step.watermark) == ([], 5)


def test_a_step_without_anything_new_keeps_its_state():
    first = one_column("h").step(NO_STATE, [elements((0, 9))], [5])
    assert one_column("h").step(first.state, [elements()], [5]).state is first.state


INSTANTS = st.integers(0, 12)


@given(
    st.lists(st.tuples(INSTANTS, st.integers(1, 6)), max_size=6),
    st.lists(INSTANTS, max_size=5, unique=True).map(sorted),
)
@settings(max_examples=examples(200))
def test_pieces_cover_what_was_cut_and_no_instant_is_inside_one(lengths, instants):
    start = np.array([begin for begin, _ in lengths], np.int64)
    end = start + np.array([length for _, length in lengths], np.int64)
    rows_, begin, until = (each.tolist() for each in cut_at(start, end, np.array(instants, np.int64)))
    assert not any(a < at < b for a, b in zip(begin, until, strict=True) for at in instants)
    covered = sorted((row, t) for row, a, b in zip(rows_, begin, until, strict=True) for t in range(a, b))
    assert covered == [(row, t) for row in range(len(start)) for t in range(start[row], end[row])]
    assert all(a < b for a, b in zip(begin, until, strict=True))

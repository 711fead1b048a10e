"""Filters that share an order of values select the same rows as filters that look at all of them."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from tidegate.expressions.nodes import Call, Column, Expression, Literal
from tidegate.physical.common.batch import Batch
from tidegate.physical.stateless import selections
from tidegate.physical.stateless.operators import FilterOperator
from tidegate.schema import Schema, Type

SCHEMA = Schema.of(n=Type.BIGINT, x=Type.DOUBLE)
NUMBERS = [-1.0, -0.0, 0.0, 1.0, math.nan, math.inf]
N, X = Column("n", Type.BIGINT), Column("x", Type.DOUBLE)


@st.composite
def comparisons(draw: st.DrawFn) -> Expression:
    function = draw(st.sampled_from(["<", "<=", ">", ">=", "="]))
    if draw(st.booleans()):
        sides: tuple[Expression, ...] = (N, Literal(draw(st.integers(-1, 2)), Type.BIGINT))
    else:
        divided = Call("/", (Literal(1.0, Type.DOUBLE), X), Type.DOUBLE)
        choices: list[Expression] = [X, divided]
        value = draw(st.sampled_from(choices))
        sides = (value, Literal(draw(st.sampled_from(NUMBERS)), Type.DOUBLE))
    return Call(function, sides if draw(st.booleans()) else sides[::-1], Type.BOOLEAN)


predicates = st.lists(comparisons(), min_size=1, max_size=3).map(
    lambda some: some[0] if len(some) == 1 else Call("and", (some[0], some[-1]), Type.BOOLEAN)
)
rows = st.lists(st.tuples(st.none() | st.integers(-1, 2), st.none() | st.sampled_from(NUMBERS)), max_size=8)


def batch_of(values: list[tuple[int | None, float | None]]) -> Batch:
    columns = [[n for n, _ in values], [x for _, x in values]]
    arrays = [pa.array(column, field.type.arrow) for column, field in zip(columns, SCHEMA, strict=True)]
    start = np.arange(len(values), dtype=np.int64)
    return Batch(start, start + 1, pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.arrow))


@settings(max_examples=examples(300))
@given(rows, st.lists(predicates, min_size=1, max_size=4), st.sampled_from([1, 2]), st.sampled_from([0.5, 1.0]))
def test_filters_that_share_an_order_select_the_same(values, asked, sort_from, largest_part):
    shared, before = batch_of(values), (selections.SORT_FROM, selections.LARGEST_PART)
    expected = [FilterOperator(SCHEMA, each).step({}, [batch_of(values)], [0]) for each in asked]
    try:
        selections.SORT_FROM, selections.LARGEST_PART = sort_from, largest_part
        found = [FilterOperator(SCHEMA, each).step({}, [shared], [0]) for each in asked]
    finally:
        selections.SORT_FROM, selections.LARGEST_PART = before
    for one, other in zip(found, expected, strict=True):
        assert one.output.start.tolist() == other.output.start.tolist()
        assert one.dead.equals(other.dead)


def test_many_filters_over_one_batch_sort_its_values_once():
    batch = batch_of([(n % 4, float(n)) for n in range(100)])
    for number in range(selections.SORT_FROM + 1):
        predicate = Call(">", (X, Literal(99.0 - number, Type.DOUBLE)), Type.BOOLEAN)
        step = FilterOperator(SCHEMA, predicate).step({}, [batch], [0])
        assert step.output.start.tolist() == list(range(100 - number, 100))
    assert batch.memo[X].rows is not None


def test_rows_keep_their_order_and_failures_are_found(monkeypatch):
    monkeypatch.setattr(selections, "SORT_FROM", 1)
    monkeypatch.setattr(selections, "LARGEST_PART", 1.0)
    batch = batch_of([(0, 2.0), (0, 0.0), (0, 1.0), (0, None), (0, math.nan)])
    least = Literal(0.5, Type.DOUBLE)
    step = FilterOperator(SCHEMA, Call(">", (X, least), Type.BOOLEAN)).step({}, [batch], [0])
    assert step.output.start.tolist() == [0, 2, 4]
    divided = Call("/", (Literal(1.0, Type.DOUBLE), X), Type.DOUBLE)
    step = FilterOperator(SCHEMA, Call(">", (divided, least), Type.BOOLEAN)).step({}, [batch], [0])
    assert step.output.start.tolist() == [2, 4]
    assert step.dead.num_rows == 1

"""Joins by any condition against all pairs of elements and the evaluation of the condition."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies.conditions import columns_of_member, conditions, tables
from support.examples import examples

from tidegate.expressions.evaluate import ERRORS, evaluate
from tidegate.expressions.nodes import Expression, conjuncts
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.conditions import compile_condition
from tidegate.physical.common.operator import NO_STATE, Chunks
from tidegate.physical.join.operator import JoinOperator
from tidegate.schema import Field, Schema

LEFT, RIGHT = columns_of_member("a"), columns_of_member("b")
NAMES = frozenset(c.name for c in LEFT), frozenset(c.name for c in RIGHT)
KEYS = ("a.int1",), ("b.int1",)
BEGINNING = -10


def schema_of(columns: Any) -> Schema:
    return Schema(tuple(Field(c.name, c.type) for c in columns))


@st.composite
def batches(draw: st.DrawFn, columns: Any) -> Batch:
    table = draw(tables(columns, most=7))
    starts = np.array(draw(st.lists(st.integers(0, 6), min_size=table.num_rows, max_size=table.num_rows)), np.int64)
    lengths = np.array(draw(st.lists(st.integers(1, 4), min_size=table.num_rows, max_size=table.num_rows)), np.int64)
    return Batch(starts, starts + lengths, table)


def texts(batch: Batch) -> list[str]:
    """The elements as texts; times are numbers, because Python's reach less far."""
    columns = batch.to_arrow().columns
    plain = [c.view(pa.int64()) if pa.types.is_temporal(c.type) else c for c in columns]
    return [repr(row) for row in zip(*(c.to_pylist() for c in plain), strict=True)]


def joined(
    operator: JoinOperator, left: Batch, right: Batch, cuts: tuple[int, int]
) -> tuple[Counter[str], Counter[str]]:
    """The pairs and the reasons of dead letters of a run in two steps."""
    state: Chunks = NO_STATE
    pairs, dead = Counter[str](), Counter[str]()
    for part in range(2):
        sides = []
        for batch, cut in ((left, cuts[0]), (right, cuts[1])):
            rows = np.arange(len(batch))
            sides.append(batch.take(rows[:cut] if part == 0 else rows[cut:]))
        step = operator.step(state, sides, [BEGINNING, BEGINNING])
        state = step.state
        pairs.update(texts(step.output))
        dead.update(step.dead.column("reason").to_pylist())
    return pairs, dead


def by_definition(
    expression: Expression, left: Batch, right: Batch, *, keyed: bool
) -> tuple[Counter[str], Counter[str]]:
    pairs, dead = Counter[str](), Counter[str]()
    for i in range(len(left)):
        for j in range(len(right)):
            start, end = max(left.start[i], right.start[j]), min(left.end[i], right.end[j])
            rows = [left.columns.slice(i, 1), right.columns.slice(j, 1)]
            names = [name for row in rows for name in row.schema.names]
            both = pa.RecordBatch.from_arrays([c for row in rows for c in row.columns], names)
            one, other = (both.column(key)[0].as_py() for (key,) in KEYS)
            if end <= start or (keyed and (one is None or one != other)):
                continue
            result = evaluate(expression, both, 1)
            if result.errors is not None:
                dead[ERRORS[result.errors[0]]] += 1
            elif result.values[0].as_py():
                element = Batch(np.array([start]), np.array([end]), both)
                pairs.update(texts(element))
    return pairs, dead


@given(
    conditions(LEFT + RIGHT), batches(LEFT), batches(RIGHT), st.booleans(), st.sampled_from([1, 3, 1 << 20]), st.data()
)
@settings(max_examples=examples(200), deadline=None)
def test_a_join_emits_the_pairs_for_which_its_condition_is_true(expression, left, right, keyed, most, data) -> None:
    assume(len(conjuncts(expression)) and compile_condition(expression, NAMES, computes_loads=False) is not None)
    cuts = tuple(data.draw(st.integers(0, len(batch))) for batch in (left, right))
    left_keys, right_keys = KEYS if keyed else ((), ())
    operator = JoinOperator(schema_of(LEFT), schema_of(RIGHT), left_keys, right_keys, expression, most_pairs=most)
    assert joined(operator, left, right, cuts) == by_definition(expression, left, right, keyed=keyed)

"""Condition programs decide rows exactly as the evaluation of whole columns does: values, NULL and failures."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies.conditions import columns_of_member, conditions, tables
from support.condition_rows import decide_rows
from support.examples import examples

from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.nodes import Expression
from tidegate.expressions.sql_text import to_sql
from tidegate.physical.common.conditions import MOST_INSTRUCTIONS, compile_condition

COLUMNS = columns_of_member("a")
NAMES = frozenset(c.name for c in COLUMNS)


def verdict(expression: Expression, table: pa.RecordBatch) -> tuple[list[bool], list[int]]:
    result = evaluate(expression, table, table.num_rows)
    errors = [0] * table.num_rows if result.errors is None else result.errors.tolist()
    return [value is True for value in result.values.to_pylist()], errors


@given(conditions(COLUMNS), tables(COLUMNS, most=6), st.sampled_from([1, 1, 400]))
@settings(max_examples=examples(400), deadline=None)
def test_a_program_decides_rows_as_their_evaluation_does(expression, table, copies) -> None:
    table = pa.Table.from_batches([table] * copies).combine_chunks().to_batches()[0] if table.num_rows else table
    condition = compile_condition(expression, (NAMES,), computes_loads=False)
    assume(condition is not None)  # not if a part without columns fails, or with too many instructions
    columns = condition.columns([table])
    true, errors = decide_rows(condition.program, columns.addresses, table.num_rows)
    wanted, failures = verdict(expression, table)
    assert errors.tolist() == failures, to_sql(expression)
    assert np.where(errors == 0, true, 0).astype(bool).tolist() == wanted, to_sql(expression)
    assert not true[errors != 0].any()
    assert len(condition.code) <= MOST_INSTRUCTIONS

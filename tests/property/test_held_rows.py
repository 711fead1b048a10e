"""Selectivities from held rows, against their definition: decide the condition for every combination of rows."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from support.examples import examples

from tidegate.expressions.nodes import Call, Cast, Column, Expression
from tidegate.runtime.costs.held_rows import MatchCount, count_matches
from tidegate.schema import Type

Row = dict[str, int | None]

VALUES = st.sampled_from([0, 1, 2, None])
NAMES = ("a", "b", "c", "d")
"""The columns of two inputs: `a` and `b` of the first one, `c` and `d` of the second one."""


def inputs_of(names: str) -> st.SearchStrategy[list[Row]]:
    return st.lists(st.fixed_dictionaries(dict.fromkeys(names, VALUES)), max_size=5)


@st.composite
def conditions(draw: DrawFn) -> Expression:
    one, two = (Column(draw(st.sampled_from(names)), Type.INT) for names in ("ab", "cd"))
    name = draw(st.sampled_from(["=", "=", "<", "<>"]))
    ends: tuple[Expression, Expression] = draw(st.sampled_from([(one, two), (two, one)]))
    if draw(st.booleans()):
        ends = Cast(ends[0], Type.BIGINT), Cast(ends[1], Type.BIGINT)
    return Call(name, ends, Type.BOOLEAN)


def value_of(term: Expression, row: Row) -> int | None:
    return row[term.name] if isinstance(term, Column) else value_of(term.argument, row)


def is_true(term: Expression, row: Row) -> bool:
    left, right = (value_of(each, row) for each in term.arguments)
    if left is None or right is None:
        return False
    return {"=": left == right, "<": left < right, "<>": left != right}[term.function]


def batch_of(rows: list[Row], names: str) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array([row[name] for row in rows], pa.int32()) for name in names})


@settings(max_examples=examples(200))
@given(conditions(), inputs_of("ab"), inputs_of("cd"))
def test_matches_are_those_of_all_combinations(term: Expression, left: list[Row], right: list[Row]):
    found = count_matches(term, [batch_of(left, "ab"), batch_of(right, "cd")])
    pairs = [{**one, **two} for one, two in product(left, right)]
    expected = MatchCount(sum(is_true(term, pair) for pair in pairs), len(pairs))
    assert found == (expected if pairs else None)

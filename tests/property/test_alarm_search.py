"""Alarms that are searched with a condition program against all combinations and the evaluation of the condition."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies.conditions import DOMAINS, columns_of_member, conditions, table_of
from support.examples import examples

from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.nodes import Call, Column, Expression, Literal
from tidegate.expressions.sql_text import to_sql
from tidegate.physical.common.condition_columns import Condition
from tidegate.physical.common.conditions import compile_condition
from tidegate.physical.common.kernels.condition_search import ConditionInputs
from tidegate.physical.threshold_alert.kernels.alarm_search import find_alarms
from tidegate.physical.threshold_alert.kernels.combinations import Members, Nearness, find_combinations
from tidegate.schema import Type

COLUMNS = [columns_of_member(name) for name in "abc"]
SMALL = {Type.DOUBLE: (0.0, 1.0, 2.0, 3.0, -1.0), Type.INT: (0, 1, 2, 3, -1), Type.BIGINT: (0, 1, 2, 3, -1)}
"""Values of which sums and differences often cross a constant, so that bounds decide."""

Found = list[tuple[tuple[int, ...], int]]


def elements(random: np.random.Generator, columns: tuple[Column, ...], rows: int) -> pa.RecordBatch:
    """Random values: few different ones of a column, which often stay the same for a while, so that bounds decide."""
    values = {}
    for column in columns:
        small = SMALL.get(column.type)
        domain = list(small) if small and random.random() < 0.7 else DOMAINS[column.type]
        domain = [*domain, *([None] if random.random() < 0.3 else [])]
        few = [domain[i] for i in random.choice(len(domain), random.integers(1, 4))]
        picks = np.repeat(random.integers(0, len(few), rows), random.choice([1, 40], rows, p=[0.9, 0.1]))[:rows]
        values[column.name] = [few[i] for i in picks]
    return table_of(columns, [{name: v[row] for name, v in values.items()} for row in range(rows)])


def scenes(many: int, seed: int) -> tuple[list[pa.RecordBatch], Members, Nearness]:
    random, groups = np.random.default_rng(seed), 2
    most_rows = 90 if many == 2 else 14
    sizes = random.integers(0, most_rows, (many, groups)) // random.choice([1, 8])
    ends = np.concatenate([[0], np.cumsum(sizes.ravel())])
    bounds = np.array([ends[i * groups : (i + 1) * groups + 1] for i in range(many)])
    reach = int(random.choice([3, 100]))
    time = np.concatenate([np.sort(random.integers(0, reach, size)) for size in sizes.ravel()]).astype(np.int64)
    is_new = random.random(len(time)) < random.choice([0.1, 0.5, 1.0])
    tables = [elements(random, COLUMNS[i], int(sizes[i].sum())) for i in range(many)]
    step, length = [(1, 9), (1, 9), (2, 3), (3, 5)][random.integers(4)]
    most = random.integers(0, reach, (many, many))
    np.fill_diagonal(most, 0)
    return tables, Members(time, is_new, bounds), Nearness(most, step, length)


def searched(
    condition: Condition, tables: list[pa.RecordBatch], members: Members, near: Nearness, enough: int
) -> Found:
    columns, start, found = condition.columns(tables), 0, Found()
    bounds = condition.bounds(columns)
    inputs = ConditionInputs(condition.program, columns.addresses, bounds.addresses)
    while start < len(members.time):
        rows, failures, start = find_alarms(members, near, inputs, start=start, enough=enough)
        found += zip(map(tuple, rows.tolist()), failures.tolist(), strict=True)
    return found


def evaluated(expression: Expression, tables: list[pa.RecordBatch], members: Members, near: Nearness) -> Found:
    rows, _ = find_combinations(members, near, start=0, enough=1 << 40)
    places = rows - members.bounds[:, 0]
    taken = [table.take(pa.array(places[:, i])) for i, table in enumerate(tables)]
    columns = [c for table in taken for c in table.columns]
    joined = pa.RecordBatch.from_arrays(columns, names=[n for table in taken for n in table.schema.names])
    result = evaluate(expression, joined, len(rows))
    errors = [0] * len(rows) if result.errors is None else result.errors.tolist()
    verdicts = zip(map(tuple, rows.tolist()), result.values.to_pylist(), errors, strict=True)
    return [(row, error) for row, value, error in verdicts if value or error]


def check(expression: Expression, many: int, seed: int, enough: int, *, computes_loads: bool) -> None:
    names = tuple(frozenset(c.name for c in COLUMNS[i]) for i in range(many))
    condition = compile_condition(expression, names, computes_loads=computes_loads)
    assume(condition is not None)
    assert condition is not None
    scene = scenes(many, seed)
    found = searched(condition, *scene, enough)
    assert found == evaluated(expression, *scene), to_sql(expression)


@given(st.integers(2, 3).flatmap(lambda n: st.tuples(st.just(n), conditions(sum(COLUMNS[:n], ())))), st.data())
@settings(max_examples=examples(150), deadline=None)
def test_a_search_finds_the_combinations_for_which_the_condition_is_true_or_fails(case, data) -> None:
    many, expression = case
    seed, enough = data.draw(st.integers(0, 2**32)), data.draw(st.sampled_from([1, 100, 10**6]))
    check(expression, many, seed, enough, computes_loads=data.draw(st.booleans()))


@st.composite
def comparisons(draw: st.DrawFn) -> Expression:
    """Comparisons that bounds can decide, alone and combined."""
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        type_ = draw(st.sampled_from([Type.DOUBLE, Type.INT, Type.BIGINT]))
        a, b = (draw(st.sampled_from([c for c in COLUMNS[i] if c.type is type_])) for i in range(2))
        functions = ["+", "-", "*"] if type_ is Type.DOUBLE else ["+", "-"]
        left: Expression = Call(draw(st.sampled_from(functions)), (a, b), type_)
        if type_ is Type.DOUBLE and draw(st.booleans()):
            left = Call(draw(st.sampled_from(["abs", "negate"])), (left,), type_)
        constants = draw(st.sampled_from([SMALL[type_], SMALL[type_], DOMAINS[type_]]))
        options: list[Expression] = [b, *(Literal(v, type_) for v in constants)]
        right = draw(st.sampled_from(options))
        pair: tuple[Expression, Expression] = (left, right) if draw(st.booleans()) else (right, left)
        compare = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
        parts.append(Call(compare, pair, Type.BOOLEAN))
    whole = parts[0] if len(parts) == 1 else Call(draw(st.sampled_from(["and", "or"])), tuple(parts), Type.BOOLEAN)
    return Call("not", (whole,), Type.BOOLEAN) if draw(st.integers(0, 3)) == 0 else whole


@given(comparisons(), st.integers(0, 2**32), st.booleans())
@settings(max_examples=examples(250), deadline=None)
def test_stretches_are_excluded_only_if_no_combination_counts(expression, seed, computes_loads) -> None:
    check(expression, 2, seed, 10**6, computes_loads=computes_loads)

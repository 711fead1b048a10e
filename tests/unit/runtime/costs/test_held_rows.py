"""Selectivities of single conditions, from the rows that joins hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from tidegate.costs.estimates import OperatorKnowledge
from tidegate.expressions.nodes import Call, Cast, Column, Expression
from tidegate.physical.join.operator import JoinOperator
from tidegate.runtime.calibration.measured_run import MeasuredRun
from tidegate.runtime.costs.held_rows import (
    MatchCount,
    combine_rows,
    count_equal,
    count_matches,
    sample_base_inputs,
    sample_rows,
)
from tidegate.runtime.costs.join_statistics import count_matches_of_joins, inputs_of_joins, selectivities_of_joins
from tidegate.runtime.costs.knowledge import Knowledge
from tidegate.runtime.costs.learn import learn
from tidegate.schema import Type

SECOND = 1_000_000


def ints(**columns: Sequence[int | None]) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(each, pa.int32()) for name, each in columns.items()})


def compare(name: str, one: Expression, two: Expression) -> Expression:
    return Call(name, (one, two), Type.BOOLEAN)


A, B, C = (Column(name, Type.INT) for name in "abc")


def test_equal_values_are_counted_with_ties_and_without_nulls():
    assert count_equal(pa.array([1, 1, 2, None]), pa.array([1, 2, 2, 2, None, None])) == 2 * 1 + 1 * 3
    assert count_equal(pa.array(["x", "y", None]), pa.array(["y", "y"])) == 2
    assert count_equal(pa.array([], pa.int32()), pa.array([1], pa.int32())) == 0


def test_rows_with_null_are_among_the_combinations():
    found = count_matches(compare("=", A, B), [ints(a=[1, None, None, None]), ints(b=[1, 2, None])])
    assert found == MatchCount(1, 12)


def test_an_equality_may_compare_expressions_of_one_input_each():
    wide = compare("=", Cast(A, Type.BIGINT), Column("d", Type.BIGINT))
    assert count_matches(wide, [ints(a=[1, 2]), pa.record_batch({"d": pa.array([2, 2, 3])})]) == MatchCount(2, 6)
    mixed = compare("=", Call("+", (A, B), Type.INT), C)
    three = [ints(a=[1, 2], b=[0, 1]), ints(c=[1, 3, 3])]
    assert count_matches(mixed, three) is None  # an addition may overflow


def test_other_conditions_are_decided_for_combinations():
    assert count_matches(compare("<", A, B), [ints(a=[1, 2, None]), ints(b=[2, 3])]) == MatchCount(3, 6)
    inputs = [ints(a=[1, 2]), ints(b=[1, 2]), ints(c=[1, 2])]
    both = Call("or", (compare("<", A, B), compare("<", B, C)), Type.BOOLEAN)
    assert count_matches(both, inputs) == MatchCount(4, 8)


def test_nothing_follows_from_empty_inputs_or_unknown_columns():
    assert count_matches(compare("=", A, B), [ints(a=[1]), ints(b=[])]) is None
    assert count_matches(compare("=", A, B), [ints(a=[1])]) is None


def test_a_column_of_two_inputs_is_not_guessed():
    assert count_matches(compare("=", A, B), [ints(a=[1]), ints(b=[1]), ints(b=[2])]) is None


def test_a_share_without_matches_is_below_that_of_one_match():
    assert MatchCount(0, 50).share == 0.01
    assert not MatchCount(9, 50).is_certain
    assert MatchCount(10, 50).is_certain


def test_few_matches_limit_a_share():
    assert [MatchCount(4, 100).limit(share) for share in (0.0, 0.02, 0.5)] == [0.01, 0.02, 0.1]
    assert MatchCount(0, 100).limit(0.0) == 0.0


def test_large_inputs_are_sampled():
    parts = [ints(a=range(1_000)), ints(a=range(1_000, 5_000))]
    found = sample_rows(parts, 0, most=2_000).column("a").to_numpy()
    assert len(found) == 2_000
    assert np.mean(found < 1_000) == pytest.approx(0.2, abs=0.03)
    assert found.max() >= 4_900
    assert sample_rows(parts, 0, most=2_000).column("a").to_numpy().tolist() == found.tolist()
    assert sample_rows(parts, 0, most=5_000).column("a").to_pylist() == list(range(5_000))


def test_samples_of_two_inputs_do_not_match_more_often_than_their_rows():
    """Both have each value once, in the same order."""
    rows = ints(a=range(50_000)), ints(a=range(50_000))
    one, two = (sample_rows([each], seed, most=10_000).column("a") for seed, each in enumerate(rows))
    assert count_equal(one, two) / 10_000**2 == pytest.approx(1 / 50_000, rel=0.15)


def test_combinations_are_sampled():
    inputs = [ints(a=range(300)), ints(b=range(300))]
    assert combine_rows(inputs, 90_000).num_rows == 90_000
    found = combine_rows(inputs, 20_000)
    assert found.num_rows == 20_000
    share = np.mean(found.column("a").to_numpy() < found.column("b").to_numpy())
    assert share == pytest.approx(0.5, abs=0.02)


# ---- joins that run

STREAMS = "".join(f"CREATE STREAM {s} (k INT, v INT, at BIGINT) FROM '{s}.csv' TIMESTAMP BY at;\n" for s in "abc")
WINDOWS = ", ".join(f"{s} WINDOW(RANGE 100 SECONDS)" for s in "abc")


def run_join(where: str, rows: Mapping[str, pa.RecordBatch], buckets: int = 1) -> MeasuredRun:
    run = MeasuredRun(f"{STREAMS}SELECT a.at AS x, b.at AS y, c.at AS z FROM {WINDOWS} WHERE {where}", buckets=buckets)
    run.step(rows)
    return run


def rows_of(k: Sequence[int | None], v: Sequence[int | None]) -> pa.RecordBatch:
    return ints(k=k, v=v).append_column("at", pa.array(range(len(k)), pa.int64()))


def counts_of(run: MeasuredRun) -> dict[str, MatchCount]:
    states: dict[int, list[dict[str, pa.RecordBatch]]] = {}
    for (number, _), version in sorted(run.engine.state.items()):
        states.setdefault(number, []).append(dict(version.chunks))
    return count_matches_of_joins(run.job.graph, states)


ROWS = {
    "a": rows_of([1, 1, 2, 3], [7, 7, 7, 8]),
    "b": rows_of([1, 2, 2, 2], [5, 6, 6, 6]),
    "c": rows_of([5, 6, 6, 6, 9], [7, 8, 9, 8, 9]),
}


@pytest.mark.parametrize("buckets", [1, 3])
def test_each_condition_of_a_cycle_is_counted_by_itself(buckets: int):
    """The last join has two conditions: its results show only their product."""
    counts = counts_of(run_join("a.k = b.k AND b.v = c.k AND a.v = c.v", ROWS, buckets))
    assert counts["a.k = b.k"] == counts["b.k = a.k"] == MatchCount(2 * 1 + 1 * 3, 16)
    assert counts["b.v = c.k"] == MatchCount(1 * 1 + 3 * 3, 20)
    assert counts["a.v = c.v"] == MatchCount(3 * 1 + 1 * 2, 20)


def test_equalities_that_follow_are_counted_too():
    counts = counts_of(run_join("a.k = b.k AND b.k = c.v", {**ROWS, "c": rows_of([0, 0], [2, 2])}))
    assert counts["a.k = c.v"] == counts["c.v = a.k"] == MatchCount(2, 8)


def test_only_inputs_that_are_no_joins_count():
    """Rows of `a` and `b` that match are held by the second join, too."""
    run = run_join("a.k = b.k AND b.v = c.k", ROWS)
    states = {number: [version.chunks] for (number, _), version in run.engine.state.items()}
    inputs = sample_base_inputs(run.job.graph, states, {"a.k", "b.k", "b.v", "c.k"})
    assert sorted((tuple(each.schema.names), each.num_rows) for each in inputs) == [
        (("a.k",), 4),
        (("b.k", "b.v"), 4),
        (("c.k",), 5),
    ]


def test_samples_of_base_inputs_do_not_depend_on_each_other():
    """Each value is once in each input, and runs are sorted by hash: equal places have equal values."""
    each = rows_of(range(20_000), [0] * 20_000)
    run = run_join("a.k = b.k AND b.k = c.k", dict.fromkeys("abc", each))
    states = {number: [version.chunks] for (number, _), version in run.engine.state.items()}
    inputs = sample_base_inputs(run.job.graph, states, {"a.k", "b.k", "c.k"}, 5_000)
    assert [found.num_rows for found in inputs] == [5_000] * 3
    for one, two in combinations(inputs, 2):
        assert count_equal(one.column(0), two.column(0)) / 5_000**2 == pytest.approx(1 / 20_000, rel=0.2)


def test_conditions_with_few_matches_share_what_the_others_leave_of_the_results():
    graph = run_join("a.k = b.k AND b.v = c.k AND a.v = c.v", ROWS).job.graph
    places = [
        (stage.number, number)
        for stage in graph.stages
        for number, node in enumerate(stage.nodes)
        if isinstance(node.operator, JoinOperator)
    ]
    known = Knowledge(operators=dict(zip(places, map(OperatorKnowledge, (0.3, 0.02)), strict=True)))
    by_results = selectivities_of_joins(graph, known)
    assert by_results["a.k = b.k"] == 0.3
    assert by_results["a.v = c.v"] == by_results["c.k = b.v"] == pytest.approx(0.02**0.5)
    counts = {text: MatchCount(50, 100) for text in ("a.v = c.v", "c.v = a.v")}
    found = selectivities_of_joins(graph, known, counts)
    assert found["a.v = c.v"] == found["c.v = a.v"] == 0.5
    assert found["b.v = c.k"] == found["c.k = b.v"] == pytest.approx(0.02 / 0.5)
    few = {**counts, "b.v = c.k": MatchCount(0, 1_000), "c.k = b.v": MatchCount(0, 1_000)}
    assert selectivities_of_joins(graph, known, few)["b.v = c.k"] == 0.01


def test_inputs_have_their_rows_after_filters_and_aggregates():
    run = MeasuredRun(
        f"{STREAMS}SELECT x.n, b.at, c.at AS other FROM "
        "(SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 2 SECONDS) GRANULARITY(1 SECOND) GROUP BY k) x, "
        "(SELECT k, at FROM b WHERE v = 1) WINDOW(RANGE 3 SECONDS) b, c WINDOW(RANGE 4 SECONDS) "
        "WHERE x.k = b.k AND b.k = c.k"
    )
    random = np.random.default_rng(0)

    def step(second: int) -> None:
        at = pa.array(np.sort(random.integers(second * SECOND, (second + 1) * SECOND, 500)))
        values = pa.array(random.integers(0, 5, 500, np.int32))
        run.step({s: pa.record_batch({"k": values, "v": pa.array(np.arange(500) % 10), "at": at}) for s in "abc"})

    for second in range(6):
        step(second)
    before = run.sample()
    for second in range(6, 12):
        step(second)
    known = learn(run.job.graph, run.know(), run.span_since(before), {})
    found = inputs_of_joins(run.job.graph, known)
    assert found["b.k"] == pytest.approx((50 * 3, 3 * SECOND), rel=0.1)
    assert found["c.k"] == pytest.approx((500 * 4, 4 * SECOND), rel=0.1)
    valid, length = found["x.k"]
    assert valid == pytest.approx(5, rel=0.3)
    assert length <= 2 * SECOND

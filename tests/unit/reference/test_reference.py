"""The reference says what the definitions say, and DuckDB agrees with it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from reference.aggregates import aggregate, float_sum
from reference.duckdb_oracle import (
    UNKNOWN,
    assert_relations_close,
    duckdb_relation_at,
    duckdb_relations,
    knows,
    tables_of,
)
from reference.expressions import evaluate
from reference.instants import assert_output, interesting_instants, snapshots
from reference.letters import letters, row
from reference.logical_tables import LOGICAL_TABLES, LogicalTable
from reference.semantics import Raw, failures, relation_at, relations
from reference.values import DIVISION_BY_ZERO, DOMAIN, INVALID_CAST, NAN, OVERFLOW, Failed, Row
from strategies.expressions import LITERALS, expressions
from strategies.plans import Streams, deliveries, plans, streams
from strategies.streams import EXACT
from support.examples import examples

from tidegate.algebra.plan import Aggregate, AggregateCall, Filter, Join, Map, Output, Plan, Scan, Union, Window, walk
from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, InList, Literal
from tidegate.physical.common.dead_letters import Reason
from tidegate.schema import Field, Schema, Type
from tidegate.time import FOREVER

logical_tables = pytest.mark.parametrize(
    "build", [build for _, build in LOGICAL_TABLES], ids=[name for name, _ in LOGICAL_TABLES]
)

TRUTHS = (True, False, None)


def truth(value: bool | None) -> Literal:
    return Literal(value, Type.BOOLEAN)


def number(value: float | None, type_: Type = Type.INT) -> Literal:
    return Literal(value, type_)


def double(value: float | None) -> Literal:
    return Literal(value, Type.DOUBLE)


def call(function: str, *arguments: Expression, type_: Type = Type.BOOLEAN) -> Call:
    return Call(function, arguments, type_)


def value_of(expression: Expression) -> Any:
    return evaluate(expression, {})


BROKEN = call("=", call("div", number(1), number(0), type_=Type.INT), number(1))


# ---- the tables of the logical algebra


@logical_tables
def test_the_reference_gives_the_tables_of_the_logical_algebra(build: Callable[[], LogicalTable]) -> None:
    table = build()
    found = relations(table.plan, table.streams, range(-1, 12))
    assert {t: relation for t, relation in found.items() if relation} == table.at(range(-1, 12))


@pytest.mark.parametrize("build", [build for _, build in LOGICAL_TABLES if knows(build().plan)])
def test_duckdb_gives_the_tables_of_the_logical_algebra(build: Callable[[], LogicalTable]) -> None:
    table = build()
    schemas = dict.fromkeys(table.streams, Schema.of(e=Type.STRING, v=Type.INT))
    found = duckdb_relations(table.plan, tables_of(schemas, table.streams), range(-1, 12))
    assert {t: relation for t, relation in found.items() if relation} == table.at(range(-1, 12))


def test_a_sliding_window_shows_its_first_content_at_its_last_chronon() -> None:
    """RANGE 10 MINUTES SLIDE 10 MINUTES, in seconds (PIPES, section 17.1)."""
    plan = Window(letters("s"), 600, 600)
    raw = {"s": [(0, row("a")), (599, row("b")), (600, row("c"))]}
    first, second = Counter([("a",), ("b",)]), Counter([("c",)])
    expected = {598: Counter(), 599: first, 1198: first, 1199: second, 1798: second, 1799: Counter()}
    assert relations(plan, raw, expected) == expected


def test_an_unbounded_window_keeps_everything() -> None:
    plan = Window(letters("s"), None, 5)
    raw = {"s": [(-7, row("a")), (3, row("b")), (5, row("c"))]}
    found = relations(plan, raw, [-7, -6, 3, 4, 9, 10**15])
    assert ["".join(sorted(e for (e,) in r.elements())) for r in found.values()] == ["", "a", "a", "ab", "abc", "abc"]


@given(st.integers(-20, 20), st.integers(1, 8), st.integers(1, 5))
def test_a_window_holds_an_element_for_one_stretch_on_the_grid(time: int, size: int, slide: int) -> None:
    plan = Window(letters("s"), size, slide)
    valid = [t for t in range(-40, 60) if relation_at(plan, {"s": [(time, row("a"))]}, t)]
    assert valid == list(range(valid[0], valid[0] + len(valid))) if valid else size < slide
    assert not valid or ((valid[0] + 1) % slide, len(valid) % slide, valid[0] >= time) == (0, 0, True)
    assert slide > 1 or len(valid) == size


# ---- expressions


@pytest.mark.parametrize("a", TRUTHS)
@pytest.mark.parametrize("b", TRUTHS)
def test_and_or_and_not_have_three_values(a: bool | None, b: bool | None) -> None:
    both, either = value_of(call("and", truth(a), truth(b))), value_of(call("or", truth(a), truth(b)))
    rank = {False: 0, None: 1, True: 2}
    assert (rank[both], rank[either]) == (min(rank[a], rank[b]), max(rank[a], rank[b]))
    assert rank[value_of(call("not", truth(a)))] == 2 - rank[a]


@pytest.mark.parametrize("known", TRUTHS)
def test_a_failed_side_counts_only_where_the_other_does_not_decide(known: bool | None) -> None:
    for sides in ((BROKEN, truth(known)), (truth(known), BROKEN)):
        assert value_of(call("and", *sides)) == (False if known is False else DIVISION_BY_ZERO)
        assert value_of(call("or", *sides)) == (True if known is True else DIVISION_BY_ZERO)


def test_case_and_coalesce_look_only_at_what_they_need() -> None:
    fails, one = call("div", number(1), number(0), type_=Type.INT), number(1)
    assert value_of(Case(((truth(True), one),), fails, Type.INT)) == 1
    assert value_of(Case(((truth(None), fails),), one, Type.INT)) == 1
    assert value_of(Case(((BROKEN, one),), one, Type.INT)) == DIVISION_BY_ZERO
    assert value_of(call("coalesce", one, fails, type_=Type.INT)) == 1
    assert value_of(call("coalesce", number(None), fails, type_=Type.INT)) == DIVISION_BY_ZERO


def test_a_function_of_null_is_null_but_a_function_of_a_failure_fails() -> None:
    fails = call("div", number(1), number(0), type_=Type.INT)
    assert value_of(call("div", number(None), number(0), type_=Type.INT)) is None
    assert value_of(call("+", number(None), fails, type_=Type.INT)) == DIVISION_BY_ZERO
    assert value_of(call("is_null", fails)) == DIVISION_BY_ZERO
    assert value_of(call("is_null", number(None))) is True


@pytest.mark.parametrize("comparison", ["=", "<>", "<", "<=", ">", ">="])
def test_a_comparison_with_null_is_unknown(comparison: str) -> None:
    assert value_of(call(comparison, number(None), number(None))) is None
    assert value_of(call(comparison, number(None), number(1))) is None


def test_nan_equals_itself_and_is_greater_than_every_number() -> None:
    order = [-math.inf, -1.0, 0.0, math.inf, math.nan]
    for i, a in enumerate(order):
        for j, b in enumerate(order):
            found = [value_of(call(c, double(a), double(b))) for c in ("=", "<>", "<", "<=", ">", ">=")]
            assert found == [i == j, i != j, i < j, i <= j, i > j, i >= j]
    assert value_of(call("=", double(-0.0), double(0.0))) is True


def test_in_has_three_values() -> None:
    one, two, null = number(1), number(2), number(None)
    assert value_of(InList(one, (two, one, null))) is True
    assert value_of(InList(one, (two, null))) is None
    assert value_of(InList(one, (two,))) is False
    assert value_of(InList(null, (one,))) is None
    assert value_of(InList(double(math.nan), (double(1.0), double(math.nan)))) is True


@pytest.mark.parametrize(
    ("a", "b", "quotient", "rest"), [(7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1), (-7, -2, 3, -1)]
)
def test_integer_division_is_towards_zero_and_the_rest_has_the_sign_of_the_dividend(
    a: int, b: int, quotient: int, rest: int
) -> None:
    assert value_of(call("div", number(a), number(b), type_=Type.INT)) == quotient
    assert value_of(call("%", number(a), number(b), type_=Type.INT)) == rest
    assert value_of(call("%", double(float(a)), double(float(b)), type_=Type.DOUBLE)) == float(rest)


@pytest.mark.parametrize(
    ("expression", "failed"),
    [
        (call("/", double(1.0), double(-0.0), type_=Type.DOUBLE), DIVISION_BY_ZERO),
        (call("%", double(1.0), double(0.0), type_=Type.DOUBLE), DIVISION_BY_ZERO),
        (call("+", number(2**31 - 1), number(1), type_=Type.INT), OVERFLOW),
        (call("div", number(-(2**63), Type.BIGINT), number(-1, Type.BIGINT), type_=Type.BIGINT), OVERFLOW),
        (call("ln", double(0.0), type_=Type.DOUBLE), DOMAIN),
        (call("sqrt", double(-1.0), type_=Type.DOUBLE), DOMAIN),
        (Cast(Literal("a", Type.STRING), Type.INT), INVALID_CAST),
        (Cast(number(2**31, Type.BIGINT), Type.INT), INVALID_CAST | OVERFLOW),
    ],
)
def test_what_has_no_value_fails_with_its_kind(expression: Expression, failed: Failed) -> None:
    assert value_of(expression) == failed
    assert failed.kinds <= {reason.value for reason in Reason}


def test_a_double_that_overflows_is_infinite() -> None:
    assert value_of(call("*", double(1e308), double(10.0), type_=Type.DOUBLE)) == math.inf
    assert value_of(call("exp", double(1000.0), type_=Type.DOUBLE)) == math.inf


# ---- aggregates


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300), min_size=1))
def test_the_sum_of_floats_is_that_of_fsum(values: list[float]) -> None:
    assert float_sum(values) == math.fsum(values)


def test_the_sum_of_floats_is_exact_where_fsum_gives_up() -> None:
    assert float_sum([1e308, 1e308, -1e308]) == 1e308
    assert float_sum([1e308, 1e308]) == math.inf
    assert float_sum([-1e308, -1e308]) == -math.inf
    assert float_sum([math.inf, 1.0, math.inf]) == math.inf
    assert float_sum([math.inf, -math.inf]) is NAN
    assert float_sum([1.0, math.nan]) is NAN


def test_aggregates_ignore_null() -> None:
    assert aggregate("count", [None, None], Type.BIGINT) == 0
    assert aggregate("count", [1, None], Type.BIGINT) == 1
    for function in ("sum", "avg", "min", "max"):
        assert aggregate(function, [None], Type.DOUBLE) is None
    assert aggregate("avg", [1, None, 2], Type.DOUBLE) == 1.5
    assert aggregate("min", [NAN, 1.0, None], Type.DOUBLE) == 1.0
    assert aggregate("max", [NAN, math.inf, None], Type.DOUBLE) is NAN
    assert aggregate("sum", [2**63 - 1, 1], Type.BIGINT) == OVERFLOW
    assert aggregate("sum", [2**63 - 1, 1, -1], Type.BIGINT) == 2**63 - 1


# ---- rows that fail

KEYED = Schema.of(k=Type.INT, x=Type.INT)
INVERSE = call("div", number(6), Column("x", Type.INT), type_=Type.INT)
RAW: Raw = {"s": [(0, {"k": 0, "x": 2}), (1, {"k": 1, "x": 0}), (1, {"k": 1, "x": 0}), (4, {"k": 2, "x": None})]}


def failing(plan: Plan) -> Counter[tuple[object, ...]]:
    found = failures(plan, RAW, interesting_instants(plan, RAW))
    assert all(f.kinds == DIVISION_BY_ZERO.kinds for f in found)
    return Counter(f.row for f in found.elements())


@pytest.mark.parametrize("size", [1, 5])
def test_a_failing_row_is_absent_and_counts_once_however_long_it_is_valid(size: int) -> None:
    source = Window(Scan("s", KEYED), size)
    for plan in (Map(source, (Output("y", INVERSE),)), Filter(source, call("=", INVERSE, number(3)))):
        assert failing(plan) == Counter({(1, 0): 2})
        assert sum(relation_at(plan, RAW, 1).values()) == (1 if size == 5 else 0)


def test_a_row_that_no_window_ever_holds_fails_below_it_and_not_above() -> None:
    outputs = (Output("y", INVERSE),)
    assert failing(Map(Window(Scan("s", KEYED), 1, 3), outputs)) == Counter()
    assert failing(Window(Map(Scan("s", KEYED), outputs), 1, 3)) == Counter({(1, 0): 2})


def test_an_element_that_fails_on_both_ways_of_a_union_counts_twice() -> None:
    both = Union((Scan("s", KEYED), Window(Scan("s", KEYED), 2)))
    assert failing(Map(both, (Output("y", INVERSE),))) == Counter({(1, 0): 4})


def test_a_pair_fails_only_where_its_keys_are_equal() -> None:
    right = Map(Window(Scan("s", KEYED), 9), (Output("r", Column("k", Type.INT)),))
    keys = call("=", Column("k", Type.INT), Column("r", Type.INT))
    plan = Join(Scan("s", KEYED), right, call("and", call("=", INVERSE, number(3)), keys))
    assert failing(plan) == Counter({(1, 0, 1): 4})


def test_a_group_whose_sum_overflows_is_absent_and_fails_once() -> None:
    source = Window(Scan("s", Schema.of(k=Type.INT, x=Type.BIGINT)), 3)
    plan = Aggregate(source, ("k",), (AggregateCall("sum", "x", "n", Type.BIGINT),))
    raw = {"s": [(0, {"k": 0, "x": 2**63 - 1}), (1, {"k": 0, "x": 1}), (1, {"k": 1, "x": 1})]}
    assert relation_at(plan, raw, 0) == Counter([(0, 2**63 - 1)])
    assert relation_at(plan, raw, 1) == relation_at(plan, raw, 2) == Counter([(1, 1)])
    assert [(f.row, n) for f, n in failures(plan, raw, range(5)).items()] == [((0,), 1)]


# ---- instants and snapshots


def test_snapshots_count_the_rows_that_are_valid() -> None:
    rows = [(0, 2, ("a", -0.0)), (1, 3, ("a", 0.0)), (1, 2, ("b", float("nan")))]
    assert snapshots(rows, [-1, 1, 2]) == {
        -1: Counter(),
        1: Counter({("a", 0.0): 2, ("b", NAN): 1}),
        2: Counter({("a", 0.0): 1}),
    }


def test_an_output_that_is_wrong_at_one_instant_is_noticed() -> None:
    plan, raw = Window(letters("s"), 3), {"s": [(0, row("a"))]}
    assert_output([(0, 3, ("a",))], plan, raw)
    assert_output([(0, 1, ("a",)), (1, 3, ("a",))], plan, raw)
    assert_output([(0, 2, ("a",))], plan, raw, until=2)
    for wrong in ([(0, 2, ("a",))], [(0, 4, ("a",))], [(1, 3, ("a",))], [(0, 3, ("a",)), (2, 3, ("a",))], []):
        with pytest.raises(AssertionError):
            assert_output(wrong, plan, raw)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_relations_change_at_interesting_instants_only(data: st.DataObject) -> None:
    source = data.draw(streams(times=(-3, 6)))
    plan = data.draw(plans(source))
    found = relations(plan, source.elements, range(-8, 24))
    changes = {t for t in range(-7, 24) if found[t] != found[t - 1]}
    assert changes <= set(interesting_instants(plan, source.elements))


# ---- the second opinion


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_duckdb_agrees_with_the_reference(data: st.DataObject) -> None:
    source: Streams = data.draw(streams(values=EXACT, times=data.draw(st.sampled_from([(0, 10), (-5, 5)]))))
    plan = data.draw(plans(source, without=UNKNOWN))
    event(type(plan).__name__)
    instants = interesting_instants(plan, source.elements)
    found = duckdb_relations(plan, tables_of(source.schemas, source.elements), instants)
    for t, expected in relations(plan, source.elements, instants).items():
        assert_relations_close(found[t], expected)


WIDE = Schema.of(i=Type.INT, x=Type.DOUBLE, s=Type.STRING, n=Type.BIGINT, b=Type.BOOLEAN)


@settings(max_examples=examples(100), deadline=None)
@given(st.data(), st.sampled_from(WIDE.fields))
def test_duckdb_agrees_on_expressions(data: st.DataObject, field: Field) -> None:
    columns = {f.name: st.sampled_from(LITERALS[f.type]) for f in WIDE}
    raw = {"s": [(0, row) for row in data.draw(st.lists(st.fixed_dictionaries(columns), min_size=6, max_size=12))]}
    own = tuple(Output(f.name, Column(f.name, f.type)) for f in WIDE)
    plan = Map(Scan("s", WIDE), (*own, Output("made", data.draw(expressions(WIDE, field.type, depth=3)))))
    found = duckdb_relation_at(plan, tables_of({"s": WIDE}, raw), 0)
    assert_relations_close(found, relation_at(plan, raw, 0))


def test_duckdb_can_be_asked_about_one_instant() -> None:
    plan, raw = Window(letters("s"), 2), {"s": [(0, row("a")), (1, row("b"))]}
    tables = tables_of({"s": Schema.of(e=Type.STRING, v=Type.INT)}, raw)
    assert duckdb_relation_at(plan, tables, 1) == Counter([("a",), ("b",)])


def test_relations_are_close_up_to_rounding_only() -> None:
    third: Counter[Row] = Counter({("a", 1 / 3): 2})
    assert_relations_close(Counter({("a", 1 / 3 + 1e-16): 1, ("a", 1 / 3 - 1e-16): 1}), third)
    for other in ({("a", 0.34): 2}, {("b", 1 / 3): 2}, {("a", 1 / 3): 1}, {("a", NAN): 2}, {("a", None): 2}):
        with pytest.raises(AssertionError):
            assert_relations_close(Counter(other), third)


# ---- the strategies


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_plans_are_typed_and_their_names_unique(data: st.DataObject) -> None:
    plan = data.draw(plans(data.draw(streams())))
    for node in walk(plan):
        assert len(set(node.schema.names)) == len(node.schema) > 0
        if isinstance(node, Union):
            assert len({tuple(f.type for f in each.schema) for each in node.inputs}) == 1


@settings(max_examples=examples(60), deadline=None)
@given(st.data(), st.integers(0, 3))
def test_deliveries_bring_every_element_once_and_never_late(data: st.DataObject, delay: int) -> None:
    source = data.draw(streams())
    delivery = data.draw(deliveries(source, delay))
    for name, elements in source.elements.items():
        batches = [arrival.elements[name] for arrival in delivery.arrivals]
        assert sorted((t for batch in batches for t, _ in batch)) == [t for t, _ in elements]
        marks = [arrival.watermarks[name] for arrival in delivery.arrivals]
        assert marks == sorted(marks)
        assert marks[-1] == FOREVER
        for mark, batch in zip(marks, batches[1:], strict=False):
            assert all(t >= mark for t, _ in batch)

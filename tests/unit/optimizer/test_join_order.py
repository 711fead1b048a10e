"""Estimates of joins, and the orders that follow from them."""

from __future__ import annotations

import math

import pytest

from tidegate.algebra.plan import Join, Plan, Scan, Validity, Window
from tidegate.expressions.nodes import TRUE, Call, Column, Expression, conjunction
from tidegate.optimizer.advice import PlanAdvice
from tidegate.optimizer.join_estimates import EqualColumns, JoinEstimates, JoinInput, estimate_joins
from tidegate.optimizer.join_order import cost_of_joins, order_joins_by_cost
from tidegate.optimizer.joins import parts_of_join
from tidegate.schema import Schema, Type


def stream(name: str, size: int = 10) -> Plan:
    return Window(Scan(name, Schema.of(**{f"{name}k": Type.INT, f"{name}v": Type.INT})), size)


def equal(one: str, two: str) -> Expression:
    return Call("=", (Column(one, Type.INT), Column(two, Type.INT)), Type.BOOLEAN)


def join(left: Plan, right: Plan, *terms: Expression) -> Join:
    return Join(left, right, conjunction(terms) if terms else TRUE)


def order_of(plan: Plan) -> object:
    """The tree of joins with the names of streams as leaves."""
    if isinstance(plan, Join):
        return order_of(plan.left), order_of(plan.right)
    return plan.stream if isinstance(plan, Scan) else order_of(plan.source)


def test_rates_of_results_are_those_of_formula_22_4():
    estimates = JoinEstimates((JoinInput(100 / 10, 100), JoinInput(50 / 20, 50)), (), ())
    made = estimates.result_of(0b11)
    assert made.length == pytest.approx(33.3333, rel=1e-5)
    assert made.length / made.valid == pytest.approx(1.3333, rel=1e-4)  # d1·d2 / (l1 + l2)


def test_every_row_is_assumed_to_meet_one_row_of_a_smaller_input():
    inputs = tuple(JoinInput(valid, 10) for valid in (1000.0, 10.0, 5.0))
    same = EqualColumns(tuple((at, Column(name, Type.INT)) for at, name in enumerate("abc")))
    estimates = JoinEstimates(inputs, (same,), ())
    assert [round(estimates.result_of(some).valid, 6) for some in (0b011, 0b110, 0b111)] == [1000, 10, 1000]


def test_measured_selectivities_count_for_their_links_and_the_average_for_others():
    plan = join(join(stream("a"), stream("b"), equal("ak", "bk")), stream("c"), equal("bk", "ck"))
    advice = PlanAdvice(rows={"a": 100, "b": 100, "c": 100}, span=10, selectivities={"ak = bk": 0.1, "bk = ck": 0.4})
    estimates = estimate_joins(*parts_of_join(plan), advice)
    assert estimates is not None
    assert estimates.result_of(0b011).valid == pytest.approx(100 * 100 * 0.1)
    assert estimates.result_of(0b101).valid == pytest.approx(100 * 100 * 0.2)
    assert estimates.result_of(0b111).valid == pytest.approx(100**3 * 0.1 * 0.4)


def test_inputs_with_few_rows_are_joined_first_on_an_equality_that_follows():
    plan = join(join(stream("b"), stream("a"), equal("bk", "ak")), stream("c"), equal("ak", "ck"))
    ordered = order_joins_by_cost(plan, PlanAdvice(rows={"a": 1000, "b": 10, "c": 5}, span=100))
    assert order_of(ordered.source) == (("b", "c"), "a") or order_of(ordered.source) == ("a", ("b", "c"))
    assert ordered.schema == plan.schema


def test_trees_may_be_bushy():
    chain = join(
        join(join(stream("a"), stream("b"), equal("ak", "bk")), stream("c"), equal("bv", "ck")),
        stream("d"),
        equal("cv", "dk"),
    )
    advice = PlanAdvice(
        rows=dict.fromkeys("abcd", 1000), span=100, selectivities={"ak = bk": 1e-4, "bv = ck": 0.5, "cv = dk": 1e-4}
    )
    assert order_of(order_joins_by_cost(chain, advice)) == (("a", "b"), ("c", "d"))


def test_the_written_order_stays_where_it_is_as_good():
    plan = join(join(stream("a"), stream("b"), equal("ak", "bk")), stream("c"), equal("bk", "ck"))
    assert order_joins_by_cost(plan, PlanAdvice(rows={"a": 5, "b": 5, "c": 5}, span=10)) == plan
    assert order_joins_by_cost(plan, PlanAdvice(rows={"a": 5, "b": 5})) == plan


def test_rows_of_a_table_stay():
    table = Scan("t", Schema.of(tk=Type.INT), validity=Validity.RELATION)
    plan = join(join(stream("a"), stream("b"), equal("ak", "bk")), table, equal("bk", "tk"))
    estimates = estimate_joins(*parts_of_join(plan), PlanAdvice(rows={"a": 10, "b": 10, "t": 7}, span=10))
    assert estimates is not None
    assert estimates.inputs[2] == JoinInput(7, math.inf)


def test_joins_of_two_inputs_cost_nothing_that_could_be_saved():
    plan = join(stream("a"), stream("b"), equal("ak", "bk"))
    assert cost_of_joins(plan, PlanAdvice(rows={"a": 10, "b": 10}, span=10)) == 0


def test_measured_inputs_count_instead_of_the_rows_of_their_sources():
    plan = join(join(stream("a"), stream("b"), equal("ak", "bk")), stream("c"), equal("bk", "ck"))
    advice = PlanAdvice(rows={"a": 100, "b": 100, "c": 100}, span=10, inputs={"bv": (3.0, 4.0)})
    estimates = estimate_joins(*parts_of_join(plan), advice)
    assert estimates is not None
    assert estimates.inputs == (JoinInput(100, 10), JoinInput(3.0, 4.0), JoinInput(100, 10))


def test_measured_equalities_that_follow_from_others_count():
    plan = join(join(stream("a"), stream("b"), equal("ak", "bk")), stream("c"), equal("bk", "ck"))
    shares = {"ak = bk": 0.01, "bk = ck": 0.02, "ak = ck": 0.5}
    advice = PlanAdvice(rows={"a": 100, "b": 100, "c": 100}, span=10, selectivities=shares)
    estimates = estimate_joins(*parts_of_join(plan), advice)
    assert estimates is not None
    assert estimates.result_of(0b101).valid == pytest.approx(100 * 100 * 0.5)
    assert estimates.result_of(0b111).valid == pytest.approx(100**3 * 0.5 * 0.02)

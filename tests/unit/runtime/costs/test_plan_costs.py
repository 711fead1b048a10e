"""Costs of whole plans that do not run, by what is known of a query: which of two plans is cheaper, and when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.catalog.catalog import Catalog
from tidegate.costs.characteristics import Characteristics
from tidegate.costs.estimates import SECOND, Flow, OperatorKnowledge
from tidegate.language.bind.program import bind
from tidegate.optimizer.advice import GroupPosition, KeyedJoins, PlanAdvice, PlanChoices
from tidegate.optimizer.optimize import optimize
from tidegate.physical.common.plan import PhysicalPlan
from tidegate.physical.keyed_join.operator import KeyedJoinOperator
from tidegate.physical.lower import lower
from tidegate.runtime.costs.plan_costs import BYTES_OF_A_CORE, PlanCost, cost_of_plan
from tidegate.runtime.costs.query_knowledge import QueryKnowledge

STREAMS = """
CREATE STREAM bid (auction BIGINT, price BIGINT, at TIMESTAMP) FROM 'bid' TIMESTAMP BY at;
CREATE STREAM auction (id BIGINT, seller BIGINT, at TIMESTAMP) FROM 'auction' TIMESTAMP BY at KEY (id);
CREATE STREAM s (x DOUBLE, at TIMESTAMP) FROM 's' TIMESTAMP BY at;
CREATE STREAM r (y DOUBLE, at TIMESTAMP) FROM 'r' TIMESTAMP BY at;
"""
GROUPED = """
    SELECT b.auction, a.seller, {call} AS x FROM bid b WINDOW(RANGE 10 MINUTES), auction a WINDOW(RANGE 1 HOUR)
    WHERE b.auction = a.id GROUP BY b.auction, a.seller"""
JOINED = """
    SELECT b.price, a.seller FROM bid b WINDOW(RANGE 10 MINUTES), auction a WINDOW(RANGE 1 HOUR)
    WHERE b.auction = a.id"""
ALIKE = "SELECT s.x, r.y FROM s WINDOW(RANGE {size}), r WINDOW(RANGE {size}) WHERE abs(s.x - r.y) < 1"
ABOVE, BELOW = PlanChoices(), PlanChoices(grouping=GroupPosition.BELOW)
KEYED, PLAIN = PlanChoices(keyed_joins=KeyedJoins.ALWAYS), PlanChoices(keyed_joins=KeyedJoins.NEVER)
AUCTIONS = 3600.0
"""Auctions in an hour, at one a second."""


def plan_of(select: str, choices: PlanChoices) -> PhysicalPlan:
    program = bind(STREAMS + select, Catalog())
    return lower(optimize(program.queries[0].plan, program.settings, advice=PlanAdvice(choices=choices))[0])


def flow(rows_per_second: float) -> Flow:
    distance = SECOND / rows_per_second
    return Flow.of(Characteristics(distance, 1.0)).with_distance(distance, 0.0)


def known_of(bids: float = 10_000.0, auctions: float = 1.0, matching: float = 1.0) -> QueryKnowledge:
    """Bids of which a share meets an auction; as many values as give that share."""
    valid = AUCTIONS * auctions
    shares = dict.fromkeys(["b.auction = a.id", "a.id = b.auction"], matching / valid)
    values = dict.fromkeys(["b.auction", "a.id"], valid / matching)
    return QueryKnowledge({"bid": flow(bids), "auction": flow(auctions)}, shares=shares, values=values)


def cost_of(select: str, known: QueryKnowledge, choices: PlanChoices) -> PlanCost:
    return cost_of_plan(plan_of(select, choices), known)


def ratio(select: str, known: QueryKnowledge, one: PlanChoices, other: PlanChoices) -> float:
    """How many times as much the first plan costs as the second one."""
    return cost_of(select, known, one).total / cost_of(select, known, other).total


def test_grouping_below_a_join_pays_where_its_values_change_seldom():
    assert ratio(GROUPED.format(call="MAX(b.price)"), known_of(), ABOVE, BELOW) > 4


def test_each_row_that_changes_a_value_twice_makes_grouping_below_a_join_slower():
    above, below = (cost_of(GROUPED.format(call="COUNT(*)"), known_of(), each) for each in (ABOVE, BELOW))
    assert below.seconds > 2 * above.seconds


def test_grouping_below_a_join_is_slower_where_few_rows_meet_a_partner():
    select, known = GROUPED.format(call="MAX(b.price)"), known_of(matching=0.01)
    assert cost_of(select, known, BELOW).seconds > 4 * cost_of(select, known, ABOVE).seconds


def test_the_example_of_the_documentation():
    select, known = GROUPED.format(call="MAX(b.price)"), known_of(bids=10_000, auctions=1)
    found = cost_of(select, known, BELOW).describe(), cost_of(select, known, ABOVE).describe()
    assert found == ("0.22 % of a core and 1.4 MB", "0.28 % of a core and 253.9 MB")


def test_a_keyed_join_pays_where_the_stream_without_the_key_is_the_fast_one():
    """Of the side without a key, rows that have met their partner need not stay. Of the other side, all do."""
    assert ratio(JOINED, known_of(), PLAIN, KEYED) > 4
    assert ratio(JOINED, known_of(bids=1.0, auctions=1000.0), PLAIN, KEYED) < 1.5


def test_a_keyed_join_does_not_pay_where_most_rows_wait_for_a_partner_in_vain():
    assert ratio(JOINED, known_of(matching=0.01), PLAIN, KEYED) < 1.5


def test_what_a_keyed_join_kept_when_it_ran_counts_more_than_what_is_expected():
    plan, known = plan_of(JOINED, KEYED), known_of()
    (join,) = plan.inputs
    assert isinstance(join.operator, KeyedJoinOperator)
    text = join.operator.describe()
    expected = cost_of_plan(plan, known)
    assert cost_of_plan(plan, known.with_kept({text: 1.0})).bytes > 2 * expected.bytes
    # What a run shows now counts more than what an earlier one did.
    now = replace(known, kept={text: 1.0})
    assert cost_of_plan(plan, now.with_kept({text: 0.001})).bytes > 2 * expected.bytes


@pytest.mark.parametrize(("size", "is_cheaper"), [("10 MILLISECONDS", True), ("10 MINUTES", False)])
def test_nested_loops_beat_a_similarity_join_in_small_windows(size: str, is_cheaper: bool):
    known = QueryKnowledge({"s": flow(1000), "r": flow(1000)}, loose=(1e-6,))
    plain = PlanChoices(similarity_joins=False)
    assert (ratio(ALIKE.format(size=size), known, plain, PlanChoices()) < 1) is is_cheaper


def test_parts_that_run_for_other_queries_are_free():
    plan, known = plan_of(JOINED, PLAIN), known_of()
    (join,) = plan.inputs
    parts = {join, *(below for each in join.inputs for below in (each, *each.inputs))}
    # What is left is the choice of columns above the join.
    assert cost_of_plan(plan, known, parts).total < cost_of_plan(plan, known).total / 1000
    assert cost_of_plan(plan, known, {plan, *parts}).total == 0


def test_what_is_known_of_an_operator_that_runs_counts_first():
    plan, known = plan_of(JOINED, KEYED), known_of()
    (join,) = plan.inputs
    measured = replace(known, operators={join.operator: OperatorKnowledge(kept=1.0)})
    earlier = measured.with_kept({join.operator.describe(): 0.001})
    assert cost_of_plan(plan, earlier).bytes > 2 * cost_of_plan(plan, known).bytes


def test_memory_counts_as_much_as_the_core_that_it_belongs_to():
    assert PlanCost(1.0, 0.0).total == PlanCost(0.0, BYTES_OF_A_CORE).total

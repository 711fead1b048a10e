"""What the optimiser makes of queries, as text; that it keeps their meaning is shown in property/test_rules.py."""

from __future__ import annotations

import pytest

from tidegate.algebra.alert_operators import RangeThreshold, TotalThreshold
from tidegate.algebra.explain import explain
from tidegate.algebra.plan import Join, Map, Output, Scan, SemiJoin, walk
from tidegate.algebra.subscriptions import Dimension, SubscriptionColumns, TotalCompletion
from tidegate.expressions.nodes import TRUE, Call, Column
from tidegate.language.bind.program import bind
from tidegate.optimizer.optimize import optimize
from tidegate.optimizer.plan_keys import plan_key
from tidegate.optimizer.sharing import share_subplans
from tidegate.schema import Schema, Type

STREAMS = """
CREATE STREAM s (k INT, v DOUBLE, note STRING, ts BIGINT) FROM 's.csv' TIMESTAMP BY ts;
CREATE STREAM r (k INT, w DOUBLE, ts BIGINT) FROM 'r.csv' TIMESTAMP BY ts;
"""


def optimized(query: str) -> tuple[str, tuple[str, ...]]:
    plan, rules = optimize(bind(STREAMS + query).queries[0].plan)
    return explain(plan), rules


def test_a_filter_goes_below_renaming_and_window_to_the_source():
    text, rules = optimized("SELECT k FROM s WINDOW(RANGE 10) WHERE v > 1")
    assert text == "Window range 10 microseconds\n  Map k\n    Filter v > 1.0\n      Scan s"
    assert {"push_filter_below_map", "push_map_below_window", "merge_maps"} <= set(rules)


def test_conditions_of_a_join_go_to_the_side_they_read_and_equalities_stay():
    text, rules = optimized("SELECT s.v FROM s WINDOW(RANGE 9), r WINDOW(RANGE 9) WHERE s.k = r.k AND v > 1 AND w < 2")
    assert "Join on s.k = r.k\n" in text
    assert "Filter v > 1.0\n" in text
    assert "Filter w < 2.0\n" in text
    assert "merge_filter_into_join" in rules


def test_a_condition_that_can_fail_stays_at_the_join_where_the_other_side_may_guard_it():
    text, _ = optimized("SELECT s.v FROM s, r WHERE s.k = r.k AND w > 0 AND 1 / v > 2")
    assert "Join on s.k = r.k AND 1.0 / s.v > 2.0" in text or "Join on s.k = r.k AND 1 / s.v > 2" in text


def test_a_filter_goes_into_every_branch_of_a_union():
    text, _ = optimized("SELECT x FROM (SELECT v AS x FROM s UNION ALL SELECT w AS x FROM r) u WHERE x > 3")
    assert text.count("Filter") == 2


def test_filters_above_each_other_become_one():
    text, _ = optimized("SELECT v FROM (SELECT k, v FROM s WHERE k > 1) t WHERE v > 2")
    assert "Filter k > 1 AND v > 2.0" in text


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT v FROM s", ["v"]),
        ("SELECT COUNT(*) AS n FROM s WINDOW(RANGE 5)", []),
        ("SELECT k, MAX(v) AS m FROM s WINDOW(RANGE 5) WHERE note LIKE 'a%' GROUP BY k", ["k", "v", "note"]),
    ],
)
def test_only_columns_that_are_read_are_scanned(query, columns):
    plan, _ = optimize(bind(STREAMS + query).queries[0].plan)
    while hasattr(plan, "source"):
        plan = plan.source
    assert list(plan.schema.names) == columns


def test_a_column_that_can_fail_is_kept_though_nobody_reads_it():
    text, _ = optimized("SELECT k FROM (SELECT k, 1 / v AS q FROM s) t")
    assert "1.0 / s.v" in text or "1 / s.v" in text


def test_grouping_goes_below_a_join_with_a_side_that_is_unique_in_the_join_columns():
    text, rules = optimized("""
        SELECT s.k, o.top, MAX(s.v) AS best
        FROM s WINDOW(RANGE 9), (SELECT k, MAX(w) AS top FROM r WINDOW(RANGE 9) GROUP BY k) o
        WHERE s.k = o.k GROUP BY s.k, o.top""")
    assert "push_aggregate_below_join" in rules
    assert text.index("Join on s.k = o.k") < text.index("Aggregate max(s.v)")


def test_a_join_of_all_pairs_is_avoided_where_another_order_has_equalities():
    text, rules = optimized("""
        SELECT a.v, b.v AS w FROM s a WINDOW(RANGE 9), s b WINDOW(RANGE 9), r WINDOW(RANGE 9)
        WHERE a.k = r.k AND b.k = r.k""")
    assert "reorder_joins" in rules
    assert "all pairs" not in text


def test_the_order_of_joins_stays_as_written_where_it_is_as_good():
    _, rules = optimized("""
        SELECT a.v FROM s a WINDOW(RANGE 9), r WINDOW(RANGE 9), s b WINDOW(RANGE 9)
        WHERE a.k = r.k AND b.k = r.k""")
    assert "reorder_joins" not in rules


def test_aggregates_that_nobody_reads_are_not_computed_but_those_that_can_fail_are():
    text, _ = optimized("""
        SELECT k FROM (SELECT k, MAX(v) AS top, SUM(k) AS total FROM s WINDOW(RANGE 5) GROUP BY k) t""")
    assert "Aggregate sum(" in text
    assert "max(" not in text


def test_first_and_last_order_by_a_column_from_below_the_window_and_other_aggregates_have_none():
    query = "SELECT {}(t.v) AS x FROM s t WINDOW(RANGE 9 SLIDE 9) GRANULARITY(9) WHERE t.k > 1"
    assert "Stamp" not in optimized(query.format("MAX"))[0]
    text, rules = optimized(query.format("FIRST"))
    assert rules[0] == "stamp_own_times"
    below = ["Granularity 9 microseconds", "Window range 9 microseconds slide 9 microseconds"]
    below += ["Stamp own time as began", "Filter k > 1", "Scan s"]
    assert [line.strip() for line in text.splitlines()][-len(below) :] == below
    assert "Aggregate first(t.v, began)" in text


def test_what_means_the_same_under_other_names_becomes_the_same_plan():
    one, other = (
        optimize(bind(STREAMS + query).queries[0].plan)[0]
        for query in (
            "SELECT k, MAX(v) AS top FROM s WINDOW(RANGE 9) GROUP BY k",
            "SELECT t.k AS key, MAX(t.v) AS best FROM s t WINDOW(RANGE 9) GROUP BY t.k",
        )
    )
    assert one != other
    assert plan_key(one) == plan_key(other)
    first, second = share_subplans([one, other])
    assert first == one
    assert isinstance(first, Map)
    assert isinstance(second, Map)
    assert (second.source, second.schema) == (first.source, other.schema)


def test_what_differs_in_more_than_names_does_not():
    queries = [
        "SELECT k, MAX(v) AS top FROM s WINDOW(RANGE 9) GROUP BY k",
        "SELECT k, MAX(v) AS top FROM s WINDOW(RANGE 8) GROUP BY k",
        "SELECT k, MIN(v) AS top FROM s WINDOW(RANGE 9) GROUP BY k",
        "SELECT k, MAX(v) AS top FROM s WINDOW(RANGE 9) WHERE v > 1 GROUP BY k",
        "SELECT k, MAX(w) AS top FROM r WINDOW(RANGE 9) GROUP BY k",
        "SELECT DISTINCT k, v AS top FROM s WINDOW(RANGE 9)",
    ]
    plans = [optimize(bind(STREAMS + query).queries[0].plan)[0] for query in queries]
    assert len({plan_key(plan) for plan in plans}) == len(plans)
    assert share_subplans(plans) == tuple(plans)


def test_all_columns_of_what_is_counted_stay_since_they_decide_which_element_is_the_last():
    elements = Scan("trade", Schema.of(other=Type.STRING, x=Type.INT, w=Type.BIGINT))
    rows = Scan("subscription", Schema.of(id=Type.INT, low=Type.INT, n=Type.BIGINT, note=Type.STRING))
    waiting, subscribed = TotalCompletion("watch", "w"), SubscriptionColumns("id", "n", (Dimension("x", "low", None),))
    for alarms in (
        RangeThreshold(elements, rows, ((), ()), waiting, subscribed),
        TotalThreshold(elements, (), waiting, 5),
    ):
        plan, _ = optimize(Map(alarms, (Output("total", Column("alert:total", Type.BIGINT)),)))
        assert plan.schema.names == ("total",)
        assert plan.source == alarms


@pytest.mark.parametrize(
    "condition",
    [
        "a.x >= ALL (SELECT z FROM b WINDOW(RANGE 5)) OR a.y IN (SELECT z FROM b WINDOW(RANGE 5))",
        "NOT (a.x < ANY (SELECT z FROM b WINDOW(RANGE 5)) AND a.y NOT IN (SELECT z FROM b WINDOW(RANGE 5)))",
        "(a.y NOT IN (SELECT z FROM b WINDOW(RANGE 5))) IS NULL",
    ],
)
def test_queries_in_a_larger_condition_are_not_compared_in_pairs(condition):
    """Each is an equality or a comparison with an extreme value; what NULLs need is known of one side."""
    streams = "CREATE STREAM a (x INT, y INT, t BIGINT) FROM 'a' TIMESTAMP BY t;"
    streams += "CREATE STREAM b (x INT, z INT, t BIGINT) FROM 'b' TIMESTAMP BY t;"
    (bound,) = bind(f"{streams} SELECT a.x FROM a WINDOW(RANGE 9) WHERE {condition};").queries
    plan, _ = optimize(bound.plan)
    predicates = [node.predicate for node in walk(plan) if isinstance(node, SemiJoin | Join)]
    assert len(predicates) > 1
    for predicate in predicates:
        assert predicate == TRUE or (isinstance(predicate, Call) and predicate.function in ("=", "<"))

"""What each rule does, as text; that no rule changes the meaning is shown in property/test_plans.py."""

from __future__ import annotations

import pytest

from tidegate.algebra.explain import explain
from tidegate.language.binder import bind
from tidegate.optimizer.optimize import optimize

STREAMS = """
CREATE STREAM s (k INT, v DOUBLE, note STRING, ts BIGINT) FROM 's.csv' TIMESTAMP BY ts;
CREATE STREAM r (k INT, w DOUBLE, ts BIGINT) FROM 'r.csv' TIMESTAMP BY ts;
"""


def optimized(query: str) -> tuple[str, tuple[str, ...]]:
    plan, rules = optimize(bind(STREAMS + query).queries[0].plan)
    return explain(plan), rules


def test_a_filter_goes_below_renaming_and_window_to_the_source():
    text, rules = optimized("SELECT k FROM s WINDOW(RANGE 10) WHERE v > 1")
    assert text.endswith("Window range 10 microseconds\n      Filter v > 1.0\n        Scan s")
    assert set(rules) == {"push_filter_below_map", "push_filter_below_window"}


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

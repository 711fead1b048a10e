"""Which joins become similarity joins, what they ask for, and what stays plain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from inline_snapshot import snapshot
from support.alike import COLUMNS, ON, STREAMS, joins, optimized, plan_of, text_of, the_join, typed, why_plain

from tidegate.algebra.equalities import is_by_key
from tidegate.algebra.explain import explain
from tidegate.algebra.similarity_join import NO_SHEDDING, SECOND, Measure, Policy, SimilarityCondition
from tidegate.expressions.nodes import TRUE
from tidegate.expressions.sql_text import to_sql
from tidegate.language.bind.program import bind
from tidegate.optimizer.optimize import LAWS, optimize
from tidegate.optimizer.similarity_join import describe_missed_similarity
from tidegate.physical.common.operator import Operator
from tidegate.physical.common.plan import Apply, PhysicalPlan
from tidegate.physical.lower import lower
from tidegate.physical.similarity_join.operator import SimilarityJoinOperator
from tidegate.schema import Type

# ---- what becomes what

OVERLAP, JACCARD, SUBSET, SUPERSET = Measure.OVERLAP, Measure.JACCARD, Measure.SUBSET, Measure.SUPERSET
PRODUCT, DISTANCE = Measure.PRODUCT, Measure.DISTANCE


@pytest.mark.parametrize(
    ("where", "likeness"),
    [
        ("OVERLAP(a.ids, b.ids) >= 3", SimilarityCondition(OVERLAP, "a.ids", "b.ids", 3)),
        ("OVERLAP(b.ids, a.ids) > 3", SimilarityCondition(OVERLAP, "a.ids", "b.ids", 4)),
        ("2 <= OVERLAP(a.flags, b.flags)", SimilarityCondition(OVERLAP, "a.flags", "b.flags", 2)),
        ("1.5 < OVERLAP(a.times, b.times)", SimilarityCondition(OVERLAP, "a.times", "b.times", 2)),
        ("OVERLAP(a.ids, b.ids) >= 1 + 1", SimilarityCondition(OVERLAP, "a.ids", "b.ids", 2)),
        ("JACCARD(a.longs, b.longs) >= 0.5", SimilarityCondition(JACCARD, "a.longs", "b.longs", 0.5)),
        ("1 <= JACCARD(b.longs, a.longs)", SimilarityCondition(JACCARD, "a.longs", "b.longs", 1.0)),
        ("a.ids SUBSET OF b.ids", SimilarityCondition(SUBSET, "a.ids", "b.ids")),
        ("b.ids SUBSET OF a.ids", SimilarityCondition(SUPERSET, "a.ids", "b.ids")),
        ("a.ids SUPERSET OF b.ids", SimilarityCondition(SUPERSET, "a.ids", "b.ids")),
        ("b.ids SUPERSET OF a.ids", SimilarityCondition(SUBSET, "a.ids", "b.ids")),
    ],
)
def test_what_kernels_decide_as_the_language_does_leaves_the_predicate(
    where: str, likeness: SimilarityCondition
) -> None:
    join = the_join(where)
    assert (join.similarity, join.predicate) == (likeness, TRUE)
    assert isinstance(join.similarity.bound if join.similarity else None, type(likeness.bound))


@pytest.mark.parametrize(
    ("where", "likeness"),
    [
        ("OVERLAP(a.words, b.words) >= 3", SimilarityCondition(OVERLAP, "a.words", "b.words", 3)),
        ("OVERLAP(a.points, b.points) >= 3", SimilarityCondition(OVERLAP, "a.points", "b.points", 3)),
        ("JACCARD(a.words, b.words) >= 0.5", SimilarityCondition(JACCARD, "a.words", "b.words", 0.5)),
        ("JACCARD(a.ids, b.ids) > 0.5", SimilarityCondition(JACCARD, "a.ids", "b.ids", 0.5)),
        ("b.words SUBSET OF a.words", SimilarityCondition(SUPERSET, "a.words", "b.words")),
        ("INNER_PRODUCT(b.weights, a.weights) >= 0.5", SimilarityCondition(PRODUCT, "a.weights", "b.weights", 0.5)),
        ("INNER_PRODUCT(a.weights, b.weights) > 0.5", SimilarityCondition(PRODUCT, "a.weights", "b.weights", 0.5)),
        ("ABS(a.x - b.x) <= 0.5", SimilarityCondition(DISTANCE, "a.x", "b.x", 0.5)),
        ("0.5 > ABS(b.x - a.x)", SimilarityCondition(DISTANCE, "a.x", "b.x", 0.5)),
        ("ABS(a.x - b.x) <= 0.0", SimilarityCondition(DISTANCE, "a.x", "b.x", 0.0)),
        ("ABS(a.few - b.few) <= 3", SimilarityCondition(DISTANCE, "a.few", "b.few", 3)),
        ("ABS(a.few - b.few) < 3", SimilarityCondition(DISTANCE, "a.few", "b.few", 2)),
        ("ABS(a.few - b.few) <= 3.5", SimilarityCondition(DISTANCE, "a.few", "b.few", 3)),
        ("ABS(a.few - b.few) < 3.5", SimilarityCondition(DISTANCE, "a.few", "b.few", 3)),
    ],
)
def test_what_they_decide_otherwise_stays_in_it(where: str, likeness: SimilarityCondition) -> None:
    join = the_join(where)
    assert join.similarity == likeness
    assert to_sql(join.predicate).lower() == where.lower()


def test_distances_of_singles_are_asked_for_with_what_may_have_been_rounded_down() -> None:
    join = the_join("ABS(a.r - b.r) <= 0.1")
    assert join.similarity is not None
    one, other = np.float32(0.4), np.float32(0.3)
    assert np.float32(0.1) < join.similarity.bound < 0.100_001
    assert join.similarity.bound >= float(np.nextafter(np.float32(0.1), np.float32(1)))
    assert abs(float(one) - float(other)) <= join.similarity.bound


def test_other_conditions_stay() -> None:
    join = the_join("a.k < b.k AND OVERLAP(a.ids, b.ids) >= 3 AND a.x + b.x > 1")
    assert to_sql(join.predicate) == "a.k < b.k AND a.x + b.x > 1.0"


def test_sets_are_chosen_before_distances() -> None:
    join = the_join("ABS(a.x - b.x) <= 0.5 AND OVERLAP(a.ids, b.ids) >= 3")
    assert join.similarity == SimilarityCondition(OVERLAP, "a.ids", "b.ids", 3)
    assert to_sql(join.predicate) == "abs(a.x - b.x) <= 0.5"


def test_what_is_computed_becomes_a_column_below() -> None:
    plan = optimized("OVERLAP(a.ids, b.longs) >= 3 AND ABS(a.x + a.r - b.n) <= 0.5")
    assert explain(plan) == snapshot("""\
Map a.k AS k
  Similarity join on overlap(a.ids, b.longs) >= 3 AND abs(a.x + a.r - b.n) <= 0.5
    Map a.k, a.x, a.r, CAST(a.ids AS ARRAY<BIGINT>) AS like:left
      Window range 1 minute
        Rename to a
          Scan a
    Window range 2 minutes
      Rename to b
        Scan b\
""")
    assert plan.schema.names == ("k",)


def test_integers_that_meet_doubles_are_compared_as_doubles() -> None:
    join = the_join("ABS(a.x - b.n) <= 0.5")
    assert join.similarity == SimilarityCondition(DISTANCE, "a.x", "like:right", 0.5)
    assert join.right.schema.type_of("like:right") is Type.DOUBLE


def test_integers_whose_difference_cannot_overflow_are_compared_as_such() -> None:
    join = the_join("ABS(CAST(a.n AS BIGINT) - CAST(b.n AS BIGINT)) <= 5")
    assert join.similarity == SimilarityCondition(DISTANCE, "like:left", "like:right", 5)


def test_the_rule_has_a_name_and_a_law() -> None:
    _, rules = optimize(bind(STREAMS + text_of("a.ids SUBSET OF b.ids")).queries[0].plan)
    assert "find_similarity_joins" in rules
    assert LAWS["find_similarity_joins"]


# ---- what stays plain, and why


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("ABS(a.n - b.n) <= 5", "a.n - b.n can overflow within the declared domains"),
        ("ABS(a.long - b.few) <= 5", "a.long - b.few can overflow within the declared domains"),
        ("ABS(a.ts - b.ts) <= INTERVAL 1 SECOND", "a.ts - b.ts can overflow within the declared domains"),
        ("OVERLAP(a.ids, b.ids) >= 0", "overlap(a.ids, b.ids) >= 0 is true of all pairs, or of none"),
        ("OVERLAP(a.ids, b.ids) > -0.5 - 0.1", "overlap(a.ids, b.ids) > -0.5 - 0.1 is true of all pairs, or of none"),
        ("JACCARD(a.ids, b.ids) >= 0", "jaccard(a.ids, b.ids) >= 0.0 is true of all pairs, or of none"),
        ("JACCARD(a.ids, b.ids) > 1.5", "jaccard(a.ids, b.ids) > 1.5 is true of all pairs, or of none"),
        (
            "INNER_PRODUCT(a.weights, b.weights) > 0",
            "inner_product(a.weights, b.weights) > 0.0 is true of all pairs, or of none",
        ),
        ("ABS(a.x - b.x) <= -1", "abs(a.x - b.x) <= -1.0 is true of all pairs, or of none"),
        (
            "OVERLAP(a.ids, ARRAY[b.n DIV b.k]) >= 1",
            "ARRAY[b.n DIV b.k] can fail",
        ),
        (
            "OVERLAP(a.ids, b.ids) >= 1 AND a.x / b.x > 1",
            "a.x / b.x > 1.0 can fail, even on rows that are not similar",
        ),
    ],
)
def test_a_join_stays_plain_where_it_could_not_be_exact_or_nothing_is_asked_for(where: str, reason: str) -> None:
    assert why_plain(where) == [f"a, b: not a similarity join, since {reason}"]


@pytest.mark.parametrize(
    "where",
    [
        "a.k < b.k",
        "OVERLAP(a.ids, b.ids) <= 3",
        "OVERLAP(a.ids, b.ids) >= a.k",
        "OVERLAP(a.ids, a.longs) >= b.k",
        "ABS(a.x - b.x) >= 0.5",
        "ABS(a.x + b.x) <= 0.5",
        "NOT a.ids SUBSET OF b.ids",
        "OVERLAP(a.ids, b.ids) >= 2 OR a.k < b.k",
        "CAST(ABS(a.x - b.x) AS BIGINT) <= 5",
    ],
)
def test_conditions_that_do_not_say_that_rows_are_alike(where: str) -> None:
    assert why_plain(where) == []


def operators(plan: PhysicalPlan) -> list[Operator]:
    if not isinstance(plan, Apply):
        return []
    return [plan.operator, *(each for below in plan.inputs for each in operators(below))]


BY_KEY = "a.k = b.k AND b.n + 1 = a.n AND OVERLAP(a.ids, b.ids) >= 3"


def test_equal_keys_are_found_by_hash() -> None:
    assert why_plain(BY_KEY) == []
    assert why_plain(BY_KEY, replace(ON, policy=Policy.OFF)) == []


@pytest.mark.parametrize("policy", [Policy.ON, Policy.DROP])
def test_rows_with_equal_keys_are_compared_if_they_may_be_shed(policy: Policy) -> None:
    join = the_join(BY_KEY, replace(ON, policy=policy))
    assert join.similarity is None
    assert is_by_key(join)
    assert to_sql(join.predicate) == "a.k = b.k AND b.n + 1 = a.n AND overlap(a.ids, b.ids) >= 3"
    operator = next(o for o in operators(lower(join)) if isinstance(o, SimilarityJoinOperator))
    assert operator.partition_keys == operator.keys == (("a.k", "a.n"), ("b.k", "key:right:1"))
    assert lower(join).schema == join.schema


def test_where_every_pair_with_equal_keys_is_a_result_it_is_said_that_nothing_can_be_chosen() -> None:
    (why,) = why_plain("a.k = b.k", ON)
    assert why == (
        "a, b: not shed: every pair with equal a.k, b.k is a result, so no comparison promises more than another; "
        "all are made, by hash, and UTILITY BY would say which results to prefer"
    )
    assert why_plain("a.k = b.k", typed("c.few"))[0].startswith("a, b: not shed: every pair")
    assert is_by_key(the_join("a.k = b.k", typed("a.few")))
    assert is_by_key(the_join("a.k = b.k", replace(ON, policy=Policy.DROP)))


def test_where_a_row_has_at_most_one_partner_there_is_nothing_to_choose() -> None:
    text = """SELECT a.x FROM a WINDOW(RANGE 9), (SELECT k, MAX(x) AS most FROM b WINDOW(RANGE 9) GROUP BY k) AS m
        WHERE a.k = m.k AND a.x < m.most"""
    plan = plan_of(text, ON)
    assert not joins(plan)
    assert [line.partition(": ")[2] for line in describe_missed_similarity(plan, ON)] == [
        "not shed: one side has at most one row with equal a.k, m.k at a time"
    ]


# ---- shedding


def test_any_join_without_equalities_may_be_shed() -> None:
    join = the_join("a.k < b.k AND a.x / b.x > 1", ON)
    assert (join.similarity, join.shedding, to_sql(join.predicate)) == (None, ON, "a.k < b.k AND a.x / b.x > 1.0")
    assert the_join("TRUE", ON).predicate == TRUE
    assert the_join("a.ids SUBSET OF b.ids", ON).shedding == ON


def test_it_is_said_why_pairs_that_are_alike_are_compared_one_by_one() -> None:
    plan = optimized("ABS(a.n - b.n) <= 5", ON)
    assert joins(plan)[0].similarity is None
    assert describe_missed_similarity(plan, ON) == [
        "a, b: not a similarity join, since a.n - b.n can overflow within the declared domains"
    ]


def test_what_may_not_be_shed_has_no_budget() -> None:
    off = replace(ON, policy=Policy.OFF, budget=10)
    assert the_join("a.ids SUBSET OF b.ids", off).shedding == NO_SHEDDING


def test_a_query_without_joins_has_nothing_to_shed() -> None:
    plan = plan_of("SELECT k FROM a", ON)
    assert describe_missed_similarity(plan, ON) == ["nothing to shed: there is no join"]
    assert describe_missed_similarity(plan, NO_SHEDDING) == []


def test_many_one_joins_are_not_shed() -> None:
    keyed = f"CREATE STREAM d ({COLUMNS}) FROM 'd.csv' TIMESTAMP BY ts KEY (k);"
    text = f"{keyed} SELECT a.x FROM a WINDOW(RANGE 1 HOUR), d WINDOW(RANGE 1 HOUR) WHERE a.k = d.k"
    plan = plan_of(text, ON)
    assert describe_missed_similarity(plan, ON) == [
        "a, d: not shed: a row has at most one partner on each edge, which is found by its key"
    ]


def test_a_side_with_one_row_at_a_time_leaves_nothing_to_shed() -> None:
    text = "SELECT k FROM a WINDOW(RANGE 9) WHERE x > (SELECT AVG(x) AS usual FROM b WINDOW(RANGE 9))"
    plan = plan_of(text, ON)
    assert not joins(plan)
    assert [line.partition(": ")[2] for line in describe_missed_similarity(plan, ON)] == [
        "not shed: one side has at most one row at a time"
    ]


def test_a_join_has_the_types_of_its_own_rows() -> None:
    join = the_join("a.x < b.x", typed("b.few", "c.few"))
    assert join.shedding == typed("b.few")
    assert "b.few" in join.right.schema, "though nobody else reads it"
    assert the_join("a.x < b.x", typed("c.few")).shedding == ON


def test_each_join_of_several_has_its_own() -> None:
    read = ", ".join(f"{name} WINDOW(RANGE 1 MINUTE)" for name in "abc")
    text = f"SELECT a.k FROM {read} WHERE a.x < b.x AND b.x < c.x"
    upper, lower = joins(plan_of(text, typed("a.few", "c.few")))
    assert (upper.shedding, lower.shedding) == (typed("a.few", "c.few"), typed("a.few"))


@pytest.mark.parametrize(
    ("windows", "width"),
    [
        (("RANGE 1 MINUTE", "RANGE 2 MINUTES"), 6 * SECOND),
        (("RANGE 5", "RANGE 10"), 1),
        (("RANGE 1 MINUTE", "ROWS 10"), 3 * SECOND),
        (("ROWS 5", "ROWS 10"), SECOND),
        (("RANGE 5", "ROWS 10"), SECOND),
    ],
)
def test_slots_are_a_twentieth_of_the_longest_validity(windows: tuple[str, str], width: int) -> None:
    plan = plan_of(text_of("a.ids SUBSET OF b.ids", windows))
    assert [join.width for join in joins(plan)] == [width]
